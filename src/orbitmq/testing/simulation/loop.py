"""An asyncio loop whose time is virtual: where nothing is ready, it jumps to the next timer.

What runs on it belongs to a node, told by a context variable. A node that is dead runs nothing any more, as a
process that was killed: no handler, no `finally`, no timer. Threads are the loop itself: what is given to an
executor runs as a whole a moment later, and its result is there after another moment.
"""

from __future__ import annotations

import asyncio
import heapq
import random
from asyncio import events
from collections.abc import Callable
from concurrent.futures import Executor
from contextvars import Context, ContextVar, copy_context
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from orbitmq.testing.simulation.network import Network

ResultT = TypeVar("ResultT")

START_SECONDS = 1_000_000.0
THREAD_SECONDS = 0.002
"""The longest that work in a thread, or the news of its end, is on its way."""


class Stuck(Exception):
    """Nothing is ready and no timer is set: whoever waits would wait for ever."""


class Node:
    """What dies together: one simulated process."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_dead = False
        self.stopped_until = 0.0
        """Loop time until which the node does nothing, as behind a SIGSTOP."""


NODE: ContextVar[Node | None] = ContextVar("node", default=None)


class _Handle(events.Handle):
    __slots__ = ("_node",)

    def __init__(self, callback: Any, args: Any, loop: Any, context: Context | None) -> None:
        super().__init__(callback, args, loop, context)
        self._node = NODE.get() if context is None else context.get(NODE)

    def _run(self) -> None:
        if _may_run(self):
            super()._run()


class _TimerHandle(events.TimerHandle):
    __slots__ = ("_node",)

    def __init__(self, when: float, callback: Any, args: Any, loop: Any, context: Context | None) -> None:
        super().__init__(when, callback, args, loop, context)
        self._node = NODE.get() if context is None else context.get(NODE)

    def _run(self) -> None:
        if _may_run(self):
            super()._run()


def _may_run(handle: Any) -> bool:
    """Whether the handle's node lives; where it stands still, the handle comes again later."""
    node: Node | None = handle._node
    if node is None or not (node.is_dead or node.stopped_until):
        return True
    if node.is_dead or handle._cancelled:
        return False
    loop: VirtualLoop = handle._loop
    if node.stopped_until <= loop.time():
        return True
    loop.call_at(node.stopped_until, handle._run)
    return False


class _Selector:
    """Where a real loop would wait for sockets, time passes."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise Stuck("nothing is left to happen")
        if timeout > 0:
            self._loop.now_seconds += timeout
        return []


class VirtualLoop(asyncio.BaseEventLoop):
    """Deterministic but for what the code on it leaves to chance."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self.now_seconds = START_SECONDS
        self.chance = chance
        self.network: Network
        self.failures: list[str] = []
        """What nobody caught: exceptions in callbacks and tasks."""
        self._selector = _Selector(self)
        self._clock_resolution = 1e-6
        self.set_exception_handler(self._note_failure)

    def time(self) -> float:
        return self.now_seconds

    def _process_events(self, event_list: list[Any]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass

    # The two places where asyncio makes handles.

    def _call_soon(
        self, callback: Any, args: Any, context: Context | None
    ) -> events.Handle:  # what call_soon and call_soon_threadsafe come to
        handle = _Handle(callback, args, self, context)
        self._ready.append(handle)  # type: ignore[attr-defined]
        return handle

    def call_soon(  # type: ignore[override]
        self, callback: Any, *args: Any, context: Context | None = None
    ) -> events.Handle:
        return self._call_soon(callback, args, context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Any, *args: Any, context: Context | None = None
    ) -> events.TimerHandle:
        timer = _TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._scheduled, timer)  # type: ignore[attr-defined]
        timer._scheduled = True  # type: ignore[attr-defined]
        return timer

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Any, *args: Any, context: Context | None = None
    ) -> events.TimerHandle:
        return self.call_at(self.now_seconds + max(0.0, delay), callback, *args, context=context)

    def _note_failure(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self.failures.append(f"{context.get('message')}: {error!r}")

    # Threads.

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., ResultT], *args: Any
    ) -> asyncio.Future[ResultT]:
        future: asyncio.Future[ResultT] = self.create_future()

        def work() -> None:
            if future.cancelled():
                return
            try:
                result = func(*args)
            except Exception as error:
                self.call_later(self.chance.random() * THREAD_SECONDS, fail, error)
            else:
                self.call_later(self.chance.random() * THREAD_SECONDS, end, result)

        def end(result: ResultT) -> None:
            if not future.done():
                future.set_result(result)

        def fail(error: Exception) -> None:
            if not future.done():
                future.set_exception(error)

        self.call_later(self.chance.random() * THREAD_SECONDS, work)
        return future

    # The network.

    async def create_server(self, factory: Any, host: Any = None, port: Any = None, **_: Any) -> Any:  # type: ignore[override]
        return self.network.listen(factory, host, port)

    async def create_connection(self, factory: Any, host: Any = None, port: Any = None, **_: Any) -> Any:  # type: ignore[override]
        return await self.network.connect(factory, host, port)


def on_node(node: Node, function: Callable[..., ResultT], *args: Any) -> ResultT:
    """Calls a function as a part of a node; what it starts belongs to the node, too."""
    context = copy_context()
    context.run(NODE.set, node)
    return context.run(function, *args)
