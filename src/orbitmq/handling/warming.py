"""Reads that would wait for the disk: a thread brings the range into memory, then the rules look again."""

from __future__ import annotations

from collections.abc import Callable

from orbitmq.handling.call import Outcome, Result, Wait, Warm

WARM_TIMEOUT_MS = 30_000
COLD_READS = 2
"""Number of times that a read of messages waits for the disk: for units of its queue, and for messages."""


def once_warm(cold: Warm, look: Callable[[int], Result], now: int) -> Wait:
    """The reply that `look(now)` gives once a range of the store is in memory.

    After the timeout it is asked all the same: it has to bound how often it waits.
    """

    def warmed(outcome: Outcome, later: int) -> Result:
        return look(later)

    return Wait((cold,), now + WARM_TIMEOUT_MS, warmed)
