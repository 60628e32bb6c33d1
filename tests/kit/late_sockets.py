"""Event loops that see what is ready at their sockets, and what threads have done, late and in random order.

Peers of one test share a loop, which sees them ready in nearly the same order each time. A busy machine does
not. `pytest --late-sockets SEED` runs tests as on such a machine: a socket that is ready may be seen at once,
some rounds later, or only after some 50 ms, and now and then the whole loop stands still for a moment. Work
that a loop gives to threads may begin late, and be done late. `--lateness FACTOR` makes these times longer,
as on a machine with far too much to do.
"""

from __future__ import annotations

import asyncio
import random
import selectors
import time
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

LATE_SHARE = 0.03
"""Share of the sockets that are ready and then not looked at for a while."""
LATE_SECONDS = 0.05
MISSED_SHARE = 0.3
"""Share of them that the next round sees."""
STALL_SHARE = 0.002
"""Share of the rounds after which the loop stands still."""
STALL_SECONDS = 0.03
LATE_WORK_SHARE = 0.1
"""Share of the work for threads that begins late, and of that which is done late."""
PAUSE_SECONDS = 0.0005
"""Rest of a round in which nothing is seen, so that it does not spin."""


class LateSelector(selectors.DefaultSelector):  # type: ignore[misc, valid-type]
    """The selector of a loop. What it leaves out is still ready at the next call."""

    chance = random.Random(1)
    factor = 1.0

    def __init__(self) -> None:
        super().__init__()
        self._late_until: dict[int, float] = {}
        """File descriptor -> `time.monotonic()` from which on it is seen."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """See `selectors.BaseSelector.select`; may give nothing before the timeout has passed."""
        chance = self.chance
        ready = super().select(timeout)
        if chance.random() < STALL_SHARE:
            time.sleep(chance.random() * STALL_SECONDS * self.factor)
        now = time.monotonic()
        seen = [event for event in ready if self._sees(event[0].fd, now)]
        if ready and not seen:
            time.sleep(PAUSE_SECONDS)
        chance.shuffle(seen)
        return seen

    def _sees(self, descriptor: int, now: float) -> bool:
        until = self._late_until.get(descriptor)
        if until is not None:
            if now < until:
                return False
            del self._late_until[descriptor]
            return True
        if self.chance.random() < LATE_SHARE:
            self._late_until[descriptor] = now + self.chance.random() * LATE_SECONDS * self.factor
            return False
        return self.chance.random() >= MISSED_SHARE


_in_executor = asyncio.BaseEventLoop.run_in_executor


def _in_late_executor(
    loop: asyncio.BaseEventLoop, executor: Executor | None, work: Callable[..., Any], *arguments: Any
) -> Any:
    """See `asyncio.loop.run_in_executor`."""
    chance = LateSelector.chance
    before, behind = (
        chance.random() * LATE_SECONDS * LateSelector.factor if chance.random() < LATE_WORK_SHARE else 0.0
        for _ in range(2)
    )

    def work_late() -> Any:
        time.sleep(before)
        try:
            return work(*arguments)
        finally:
            time.sleep(behind)

    return _in_executor(loop, executor, work_late)


def install(seed: int, factor: float) -> None:
    """Has all event loops of this process that asyncio makes from now on see sockets and threads late."""
    LateSelector.chance, LateSelector.factor = random.Random(seed), factor
    selectors.DefaultSelector = LateSelector
    asyncio.BaseEventLoop.run_in_executor = _in_late_executor  # type: ignore[method-assign, assignment]
