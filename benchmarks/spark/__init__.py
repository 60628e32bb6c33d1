"""Spark reading OrbitMQ beside Spark's own source reading Kafka: `python -m benchmarks.spark`."""
