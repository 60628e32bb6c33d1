"""Who may do what: users and roles, sessions, limits of logins, headers, the audit log."""
