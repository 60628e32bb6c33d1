"""A limit of messages per second, for one task."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(eq=False, repr=False)
class Pace:
    """`wait(n)` returns when n more messages may leave; a pause is not made up for by a burst.

    `per_second` None: at once. The clock and the sleep are a test's to replace.
    """

    per_second: float | None
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def __post_init__(self) -> None:
        self._free_at = 0.0

    @property
    def most_at_once(self) -> int | None:
        """Messages per request for an even rate: those of a tenth of a second."""
        return None if self.per_second is None else max(1, int(self.per_second / 10))

    def wait(self, messages: int) -> None:
        """Waits for the turn of so many messages."""
        if self.per_second is None:
            return
        now = self.clock()
        start = max(self._free_at, now)
        self._free_at = start + messages / self.per_second
        if start > now:
            self.sleep(start - now)
