"""Acknowledgements of popped messages, and notices of messages to pop: of queues and of lite topics."""
