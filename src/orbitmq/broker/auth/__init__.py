"""Access control: users, their rules, permissions of requests, and the gate that checks all three."""
