"""Who may do what: users, their rules, what each request needs, and the gate that asks all three."""
