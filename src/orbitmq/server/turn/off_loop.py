"""Work beside the loop: generators that a thread runs, a slice at a time and in turn."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator
from concurrent.futures import Executor
from functools import partial
from typing import Any

SLICE_SECONDS = 0.02
"""Work that takes longer goes behind what else waits for a thread."""

Ended = Callable[[object, Exception | None], None]


class OffLoopRunner:
    """Runs work in an executor's threads and reports on the loop how it ended."""

    def __init__(self, executor: Executor | None) -> None:
        self._executor = executor
        self._loop = asyncio.get_running_loop()

    def start(self, work: Generator[None, None, object], ended: Ended) -> Callable[[], None]:
        """Starts it; `ended(value, error)` is called once. Gives a function that abandons it: then it is not
        called.
        """
        job = _Job(work, ended)
        self._next_slice(job)
        return job.abandon

    def _next_slice(self, job: _Job) -> None:
        future = self._loop.run_in_executor(self._executor, job.run)
        future.add_done_callback(partial(self._ran, job))

    def _ran(self, job: _Job, future: asyncio.Future[bool]) -> None:
        if job.is_abandoned or future.cancelled():
            return
        if future.exception() is None and not future.result():
            self._next_slice(job)
            return
        job.report()


class _Job:
    """One piece of work, in one thread at a time."""

    __slots__ = ("_ended", "_error", "_value", "_work", "is_abandoned")

    def __init__(self, work: Generator[None, None, Any], ended: Ended) -> None:
        self._work = work
        self._ended = ended
        self._value: object = None
        self._error: Exception | None = None
        self.is_abandoned = False

    def abandon(self) -> None:
        self.is_abandoned = True

    def run(self) -> bool:
        """Continues for a slice. True if the work is at its end."""
        until = time.monotonic() + SLICE_SECONDS
        try:
            while not self.is_abandoned:
                next(self._work)
                if time.monotonic() > until:
                    return False
            self._work.close()
        except StopIteration as done:
            self._value = done.value
        except Exception as error:
            self._error = error
        return True

    def report(self) -> None:
        self._ended(self._value, self._error)
