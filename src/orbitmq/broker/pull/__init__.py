"""Pulls: messages of a queue for a consumer group."""
