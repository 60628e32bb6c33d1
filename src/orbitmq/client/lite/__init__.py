"""Consuming lite topics."""
