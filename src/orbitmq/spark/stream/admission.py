"""Size of micro-batches: the arithmetic of maxOffsetsPerTrigger and minOffsetsPerTrigger. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeVar

K = TypeVar("K")


def shared_out(waiting: Mapping[K, int], limit: int) -> dict[K, int]:
    """At most about `limit` offsets, shared out in proportion to what each queue has waiting.

    A queue whose share is below one gets one, so that small queues are not starved: the sum may be above
    the limit by less than the number of queues.
    """
    total = sum(waiting.values())
    if total <= limit:
        return dict(waiting)
    shares = {}
    for key, size in waiting.items():
        share = limit * size / total
        shares[key] = min(size, math.ceil(share) if share < 1 else math.floor(share))
    return shares


class Pace:
    """Decides whether a micro-batch waits for more: until `least` offsets are there or `longest_ms` have
    passed.

    The first one never waits. Times are ms of a clock that does not go back.
    """

    def __init__(self, least: int | None, longest_ms: int) -> None:
        self._least = least
        self._longest_ms = longest_ms
        self._last_ms: float | None = None

    def waits(self, waiting: int, now_ms: float) -> bool:
        """True if the batch should wait on with this number of offsets; false begins a new wait."""
        if (
            self._least is not None
            and self._last_ms is not None
            and waiting < self._least
            and now_ms - self._last_ms < self._longest_ms
        ):
            return True
        self._last_ms = now_ms
        return False
