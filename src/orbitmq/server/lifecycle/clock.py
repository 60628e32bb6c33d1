"""The time that rules get as an argument."""

from __future__ import annotations

import time

# Linux's clock that continues while the machine sleeps: what comes due meanwhile is due when it wakes up.
_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock:
    """Wall-clock ms as of the start, carried on by a clock that no operator can set.

    A wall clock that is set while the process runs makes no delayed message early and no timer wait.
    """

    def __init__(self) -> None:
        self._base_ms = (time.time_ns() - time.clock_gettime_ns(_STEADY)) // 1_000_000

    def now(self) -> int:
        """The time in ms."""
        return self._base_ms + time.clock_gettime_ns(_STEADY) // 1_000_000
