"""OrbitMQ beside Apache RocketMQ: both brokers driven in turn by one and the same Java client."""
