"""`orbitmq job search`: messages over all history, in the lake and in what brokers hold behind it."""
