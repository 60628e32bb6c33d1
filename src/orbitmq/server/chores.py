"""The runner of chores: what rooms want done every so many ms, on the loop or in a thread."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from orbitmq.store.chores import Chore

log = logging.getLogger(__name__)


class ChoreRunner:
    """Runs chores until it is stopped. A chore that fails is logged and comes round again."""

    def __init__(self, now: Callable[[], int], executor: ThreadPoolExecutor) -> None:
        self._now = now
        self._executor = executor
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, chore: Chore) -> None:
        """Begins to run a chore."""
        self._tasks.append(asyncio.create_task(self._repeat(chore), name=f"chore {chore.name}"))

    async def _repeat(self, chore: Chore) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep((chore.interval_ms if chore.first_ms is None else chore.first_ms) / 1000)
        while True:
            try:
                if chore.is_wanted():
                    await self._run(chore, loop)
            except Exception:
                log.exception("chore %s failed", chore.name)
            await asyncio.sleep(chore.interval_ms / 1000)

    async def _run(self, chore: Chore, loop: asyncio.AbstractEventLoop) -> None:
        if chore.in_thread:
            await loop.run_in_executor(self._executor, chore.run, self._now())
        else:
            chore.run(self._now())

    async def stop(self) -> None:
        """Ends all chores; one that runs in a thread is waited for."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
