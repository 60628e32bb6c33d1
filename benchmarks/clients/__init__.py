"""Clients beside each other, one core each: `python -m benchmarks.clients`."""
