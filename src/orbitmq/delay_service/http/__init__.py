"""The HTTP API of the delay service."""
