"""Acknowledgements of popped messages: of queues and of lite topics."""
