"""Requests for logical queues, answered from the physical queues that hold their messages."""
