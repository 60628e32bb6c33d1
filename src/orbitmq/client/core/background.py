"""The tasks of a client: started together, ended together, and none of them dies unheard.

A program may cancel tasks that it did not start: all that it finds, for example, before an end that does not
come. Work that a client cannot do without begins again after such a cancellation.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeAlias

from orbitmq.client.core.errors import CancelledFromOutside

log = logging.getLogger(__name__)

Work: TypeAlias = Coroutine[Any, Any, None]

TASKS = "tasks"
"""Name of the failure where somebody else has cancelled tasks."""
AGAIN_SECONDS = 1.0
"""Time until work whose task somebody else has cancelled begins again.

`asyncio.run` cancels every task before it ends its loop: the loop has ended by then.
"""


class Kept:
    """Work that is done until it ends by itself or is cancelled here.

    If somebody else cancels its task, it begins again in a new one.
    """

    def __init__(self, tasks: Tasks, make: Callable[[], Work], name: str, *, owned: bool) -> None:
        self._tasks = tasks
        self._make = make
        self._name = name
        self._owned = owned
        self._cancelled = False
        self.task = self._begin()
        """The present task, or the last one."""

    def cancel(self) -> None:
        """Ends it."""
        self._cancelled = True
        self.task.cancel()

    def _begin(self) -> asyncio.Task[None]:
        task = self._tasks.begin(self._make(), self._name, owned=self._owned)
        task.add_done_callback(self._ended)
        return task

    @property
    def _is_over(self) -> bool:
        return self._cancelled or self._tasks.is_closed

    def _ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() and not self._is_over:
            self._tasks.interrupted()
            loop = task.get_loop()
            loop.call_later(AGAIN_SECONDS, self._again, loop)

    def _again(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._is_over and not asyncio.all_tasks(loop):
            loop.call_later(AGAIN_SECONDS, self._again, loop)  # no caller is left who waits for anything
            return
        self._tasks.resumed()
        if not self._is_over:
            self.task = self._begin()


class Tasks:
    """Background tasks.

    `on_error(name, error, lasting)` gets every exception that would be lost; it is lasting where the
    task continues, and `on_recovered(name)` is then called once a round has succeeded again.
    """

    def __init__(
        self, on_error: Callable[[str, Exception, bool], None], on_recovered: Callable[[str], None]
    ) -> None:
        self._on_error = on_error
        self._on_recovered = on_recovered
        self._tasks: set[asyncio.Task[None]] = set()
        self._interrupted = 0
        self.is_closed = False

    def start(self, work: Work, name: str) -> asyncio.Task[None]:
        """Runs `work`; its exceptions end only itself."""
        return self.begin(work, name, owned=True)

    def keep(self, make: Callable[[], Work], name: str, *, owned: bool = True) -> Kept:
        """Does the work that `make` gives, again if somebody else cancels it.

        Unless it is `owned`, whoever has it ends it before `close`, which leaves it alone.
        """
        return Kept(self, make, name, owned=owned)

    def begin(self, work: Work, name: str, *, owned: bool) -> asyncio.Task[None]:
        """Runs `work` as `start` does; `close` ends it if it is `owned`."""
        task = asyncio.create_task(self._guarded(work, name), name=name)
        # A task that is cancelled before its first step never comes to its work.
        task.add_done_callback(lambda _: work.close())
        if owned:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            if self.is_closed:
                task.cancel()
        return task

    async def _guarded(self, work: Work, name: str) -> None:
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
    ) -> Kept:
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

        return self.keep(rounds, name)

    def interrupted(self) -> None:
        """Notes that somebody else has cancelled work, which begins again."""
        self._interrupted += 1
        text = "something outside of the client cancelled its tasks: they begin again"
        self._on_error(TASKS, CancelledFromOutside(text), True)

    def resumed(self) -> None:
        """Notes that such work begins again."""
        self._interrupted -= 1
        if not self._interrupted:
            self._on_recovered(TASKS)

    async def close(self) -> None:
        """Cancels what still runs and waits for its end."""
        self.is_closed = True
        me = asyncio.current_task()
        tasks = [task for task in self._tasks if task is not me]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
