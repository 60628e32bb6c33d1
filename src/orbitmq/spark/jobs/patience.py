"""Trying a query again that could not begin, since the machine was too busy to begin it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from orbitmq.spark.starting import TOO_BUSY, TRIES

__all__ = ["TOO_BUSY", "patiently"]

T = TypeVar("T")


def patiently(act: Callable[[], T], tries: int = TRIES) -> T:
    """Does what can be done again from the beginning, as a query with a checkpoint can.

    Raises what `act` raises: at once, but for `TOO_BUSY`, which may come so many times.
    """
    for _ in range(tries - 1):
        try:
            return act()
        except Exception as error:
            if TOO_BUSY not in str(error):
                raise
    return act()
