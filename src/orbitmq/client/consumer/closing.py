"""Waiting for handlers at the end, without waiting for those that wait for the end themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any


class Closers:
    """The tasks that wait for `close`: handlers that close their own consumer, any number of them."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._joined = asyncio.Event()

    def add(self, task: asyncio.Task[Any] | None) -> None:
        """Notes a task that continues only when closing is over."""
        if task is not None:
            self._tasks.add(task)
            self._joined.set()

    def others(self, tasks: Iterable[asyncio.Task[Any]]) -> list[asyncio.Task[Any]]:
        """Those that do not wait for `close`."""
        return [task for task in tasks if task not in self._tasks]

    async def wait_for_others(self, tasks: Iterable[asyncio.Task[Any]]) -> None:
        """Returns when each of the tasks has ended, or waits for `close` itself."""
        tasks = list(tasks)
        while pending := [task for task in self.others(tasks) if not task.done()]:
            self._joined.clear()
            joined = asyncio.create_task(self._joined.wait(), name="one more closes")
            try:
                await asyncio.wait([*pending, joined], return_when=asyncio.FIRST_COMPLETED)
            finally:
                joined.cancel()
