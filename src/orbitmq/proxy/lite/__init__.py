"""Lite topics through the proxy: queues within a topic that brokers keep for names of users' own."""
