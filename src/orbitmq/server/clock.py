"""The time that rules are told."""

from __future__ import annotations

import time


class Clock:
    """Wall-clock ms as of the start, carried on by the monotonic clock.

    A wall clock that is set while the process runs makes no delayed message early and no timer wait.
    """

    def __init__(self) -> None:
        self._base_ms = (time.time_ns() - time.monotonic_ns()) // 1_000_000

    def now(self) -> int:
        """The time in ms."""
        return self._base_ms + time.monotonic_ns() // 1_000_000
