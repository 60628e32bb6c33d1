"""The store of a slave: its master's bytes are appended, and what the master does not have is cut off."""
