"""Streams on a machine that is busy with other tests: what the product offers, with more tries."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from orbitmq.spark import started

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

TRIES = 20


def planned(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """A query that is through its first micro-batch, or has ended, for whatever reason but that one."""
    return started(start, TRIES)
