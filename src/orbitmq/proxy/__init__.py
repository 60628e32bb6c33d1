"""The gRPC proxy: clients of RocketMQ 5 in front of OrbitMQ's and Apache's brokers."""
