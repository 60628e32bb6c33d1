"""Stored messages, their properties and ids, and the units that point to them."""
