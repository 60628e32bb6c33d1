"""Tasks that a server starts beside its turns: they end with it, and none of them fails unheard."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

log = logging.getLogger(__name__)

T = TypeVar("T")


class BackgroundTasks:
    """The tasks of one server, or of one part of it."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, T], name: str | None = None) -> asyncio.Task[T]:
        """Runs `work` until it ends or `stop` is called. A failure is logged with its trace."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s failed and does not go on: restart this server", task.get_name(), exc_info=error)

    async def stop(self, grace_seconds: float = 0.0) -> None:
        """Cancels what still runs after a time, and waits for its end."""
        tasks = list(self._tasks)
        if tasks and grace_seconds:
            await asyncio.wait(tasks, timeout=grace_seconds)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
