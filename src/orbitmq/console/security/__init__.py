"""Rights by role: users and roles, sessions, limits of logins, headers, the audit log."""
