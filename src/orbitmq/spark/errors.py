"""Errors of Spark jobs. The useful sentence comes first: Spark shows little more."""

from __future__ import annotations

from orbitmq.protocol.errors import OrbitError


class SparkSourceError(OrbitError):
    """The source cannot do what it was asked."""


class BadOption(SparkSourceError, ValueError):
    """An option is unknown, missing, or has a value it cannot have."""


class DataLost(SparkSourceError):
    """Messages that were planned to be read are no longer there."""


class UnreadableBody(SparkSourceError):
    """The body of a message cannot be inflated, or not within `maxInflatedBodyBytes`."""


class JavaNotFound(SparkSourceError):
    """Spark needs Java 17 or newer, and none was found."""
