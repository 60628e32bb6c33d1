"""Handlers of the name server, by subject. Importing this package registers every handler."""

from orbitmq.nameserver.handlers import brokers, config, topics
from orbitmq.nameserver.tables import handlers

__all__ = ["brokers", "config", "handlers", "topics"]
