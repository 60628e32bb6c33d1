"""Pending messages, names and positions on disk."""
