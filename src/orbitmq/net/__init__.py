"""Connections, frames and pending calls. Knows commands, not topics."""
