"""Lite topics: queues within a topic, for names of users' own, that clients subscribe to one by one."""
