"""Retries of a query that the machine was too busy to start."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from orbitmq.spark.session.start_query import TOO_BUSY, TRIES

T = TypeVar("T")


def retry_start(act: Callable[[], T], tries: int = TRIES) -> T:
    """Calls `act`, which must be safe to repeat, as a query with a checkpoint is.

    Raises what `act` raises; after `TOO_BUSY` only if it fails so `tries` times.
    """
    for _ in range(tries - 1):
        try:
            return act()
        except Exception as error:
            if TOO_BUSY not in str(error):
                raise
    return act()
