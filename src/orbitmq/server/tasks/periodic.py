"""The runner of periodic tasks, on the loop or in a thread."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Executor

from orbitmq.store.periodic import PeriodicTask

log = logging.getLogger(__name__)


class PeriodicTaskRunner:
    """Runs tasks until it is stopped. A task that fails is logged and runs again after its interval.

    `executors` has the threads by the name that a task gives.
    """

    def __init__(self, now: Callable[[], int], executors: Mapping[str, Executor]) -> None:
        self._now = now
        self._executors = executors
        self._tasks: list[asyncio.Task[None]] = []
        self._working: set[asyncio.Future[object]] = set()
        """Calls that run in threads now."""

    def start(self, task: PeriodicTask) -> None:
        self._tasks.append(asyncio.create_task(self._repeat(task), name=f"periodic task {task.name}"))

    async def _repeat(self, task: PeriodicTask) -> None:
        await asyncio.sleep((task.interval_ms if task.first_ms is None else task.first_ms) / 1000)
        while True:
            try:
                if task.is_wanted():
                    await self._run(task)
            except Exception:
                log.exception("periodic task %s failed", task.name)
            await asyncio.sleep(task.interval_ms / 1000)

    async def _run(self, task: PeriodicTask) -> None:
        if not task.in_thread:
            task.run(self._now())
            return
        loop = asyncio.get_running_loop()
        work = loop.run_in_executor(self._executors[task.thread], task.run, self._now())
        self._working.add(work)
        try:
            # Cancelling this task ends the waiting, not the thread.
            await asyncio.shield(work)
        finally:
            if work.done():
                self._working.discard(work)

    async def stop(self) -> None:
        """Stops all tasks, and waits for calls that a thread runs or has queued."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        working, self._working = self._working, set()
        for result in await asyncio.gather(*working, return_exceptions=True):
            if isinstance(result, Exception):
                log.error("a periodic task failed at the end", exc_info=result)
