"""OrbitMQ: messaging for Python teams over Apache RocketMQ's wire protocol and file formats."""

__version__ = "0.1.0"
