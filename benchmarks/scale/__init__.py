"""Growth of a broker's memory and time per operation with connections, queues, groups and messages."""
