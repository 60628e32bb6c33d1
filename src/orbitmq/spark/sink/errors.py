"""Errors of a write. The useful sentence comes first: Spark shows little more."""

from __future__ import annotations

from orbitmq.spark.errors import BadOption, SparkSourceError


class BadColumn(BadOption):
    """The data frame has a column of a wrong type, lacks one, or has one that means nothing here."""


class BadRow(SparkSourceError, ValueError):
    """A row is no message: no topic, no body, a value that cannot travel, or too much of it."""


class WriteFailed(SparkSourceError):
    """A broker would not take a batch, or none could be reached. Some of it may be stored all the same."""


class CannotLookUp(SparkSourceError):
    """The brokers cannot say if a message is stored already, so nothing is sent again."""
