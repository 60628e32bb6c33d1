"""Messages that nobody can consume yet: delayed ones, timers, half messages of transactions."""
