"""Messages that cannot be consumed yet: delayed ones, timers, half messages of transactions."""
