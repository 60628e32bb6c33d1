"""Queues assigned by the broker instead of the clients."""
