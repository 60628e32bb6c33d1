"""Opening a store after a stop or a crash."""
