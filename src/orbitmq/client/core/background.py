"""The tasks of a client: started together, ended together, and none of them dies unheard."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

log = logging.getLogger(__name__)


class Tasks:
    """Background tasks.

    `on_error(name, error, lasting)` gets every exception that nobody else sees; it is lasting where the
    task goes on, and `on_recovered(name)` is then called once a round has succeeded again.
    """

    def __init__(
        self, on_error: Callable[[str, Exception, bool], None], on_recovered: Callable[[str], None]
    ) -> None:
        self._on_error = on_error
        self._on_recovered = on_recovered
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    def start(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Runs `work`; its exceptions end only itself."""
        task = asyncio.create_task(self._guarded(work, name), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # A task that is cancelled before its first step never comes to its work.
        task.add_done_callback(lambda _: work.close())
        if self._closed:
            task.cancel()
        return task

    async def _guarded(self, work: Coroutine[Any, Any, None], name: str) -> None:
        try:
            await work
        except Exception as error:
            self._on_error(name, error, False)

    def every(
        self,
        interval_ms: float,
        action: Callable[[], Awaitable[None]],
        name: str,
        *,
        first_ms: float | None = None,
        wake: asyncio.Event | None = None,
    ) -> asyncio.Task[None]:
        """Runs `action` again and again; `wake` begins a round at once. A failure ends its round only."""

        async def rounds() -> None:
            failing = False
            pause = interval_ms if first_ms is None else first_ms
            while True:
                if wake is None:
                    await asyncio.sleep(pause / 1000)
                else:
                    try:
                        async with asyncio.timeout(pause / 1000):
                            await wake.wait()
                    except TimeoutError:
                        pass
                    wake.clear()
                pause = interval_ms
                try:
                    await action()
                except Exception as error:
                    failing = True
                    self._on_error(name, error, True)
                else:
                    if failing:
                        failing = False
                        self._on_recovered(name)

        return self.start(rounds(), name)

    async def close(self) -> None:
        """Cancels what still runs and waits for its end."""
        self._closed = True
        me = asyncio.current_task()
        tasks = [task for task in self._tasks if task is not me]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
