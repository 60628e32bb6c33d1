"""A slave that acts for its master: what is due at it leaves for other masters."""
