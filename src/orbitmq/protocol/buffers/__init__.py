"""Numbers in raw memory, for compiled modules."""
