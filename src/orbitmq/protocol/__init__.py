"""Bytes to values and back. No files, sockets, clocks or threads."""
