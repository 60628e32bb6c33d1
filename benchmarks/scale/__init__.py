"""How a broker's memory and time per operation grow with connections, queues, groups and messages."""
