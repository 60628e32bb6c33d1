"""The requests by subject; importing this package declares them all."""
