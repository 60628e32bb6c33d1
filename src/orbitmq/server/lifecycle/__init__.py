"""Processes from start to stop, their threads and periodic tasks."""
