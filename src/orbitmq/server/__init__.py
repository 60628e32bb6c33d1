"""Processes: rules, store and network wired together, with their threads, timers and signals."""
