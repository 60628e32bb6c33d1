"""Brokers whose messages are acknowledged."""

from tests.unit.broker.pop.conftest import make

__all__ = ["make"]
