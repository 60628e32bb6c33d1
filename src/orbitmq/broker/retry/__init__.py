"""Messages that a consumer sends back, and dead letters."""
