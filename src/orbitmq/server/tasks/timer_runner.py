"""The runner of timers: one slice after another on the loop, reads that may block in a thread."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from dataclasses import dataclass

from orbitmq.broker.delay.timer import Timers
from orbitmq.store import PeriodicTask

log = logging.getLogger(__name__)

STEP_INTERVAL_MS = 50
LOOK_INTERVAL_MS = 5_000


@dataclass(eq=False, repr=False)
class TimerRunner:
    """`after_step(now)` is called on the loop after every slice: what it stored is to be seen by readers."""

    _timer: Timers
    _now: Callable[[], int]
    _after_step: Callable[[int], None]
    _executor: Executor

    def __post_init__(self) -> None:
        self._is_stopped = False
        self._is_scheduled = False

    def periodic_tasks(self) -> Iterable[PeriodicTask]:
        timer = self._timer
        yield PeriodicTask("timers", STEP_INTERVAL_MS, self.run)
        yield PeriodicTask("sample timers", 1000, timer.metrics.tick)
        yield PeriodicTask(
            "find the oldest timer", LOOK_INTERVAL_MS, lambda _: timer.find_oldest(), in_thread=True
        )

    def run(self, now: int) -> None:
        """One slice, and the next one soon if there is more to do."""
        if self._is_stopped:
            return
        timer = self._timer
        step = timer.step(now)
        loop = asyncio.get_running_loop()
        if step.fetch is not None:
            try:
                loop.run_in_executor(self._executor, step.fetch).add_done_callback(self._fetched)
            except BaseException:
                timer.fetched()  # it was not, and is asked for once more
                raise
        self._after_step(now)
        if step.again and not self._is_scheduled:
            loop.call_soon(self._run_again)
            self._is_scheduled = True

    def _run_again(self) -> None:
        self._is_scheduled = False
        self.run(self._now())

    def _fetched(self, future: asyncio.Future[None]) -> None:
        if future.cancelled() or self._is_stopped:
            return
        self._timer.fetched()
        error = future.exception()
        if error is not None:
            log.error("timers: a read failed: %s", error, exc_info=error)
        self.run(self._now())

    def stop(self) -> None:
        """No slice runs from here on."""
        self._is_stopped = True
