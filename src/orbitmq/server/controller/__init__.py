"""A controller as a process part: its socket, its consensus store, and its lease."""
