"""Consume queues: units, their files, reading by them."""
