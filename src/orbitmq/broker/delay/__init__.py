"""Delayed messages: delay levels and timers."""
