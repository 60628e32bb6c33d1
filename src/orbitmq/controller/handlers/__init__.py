"""Answers of the controller, by subject. Importing this package registers every handler."""

from orbitmq.controller.handlers import admin, brokers
from orbitmq.controller.tables import handlers

__all__ = ["admin", "brokers", "handlers"]
