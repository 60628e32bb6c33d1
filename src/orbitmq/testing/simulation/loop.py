"""An asyncio loop whose time is virtual: where nothing is ready, it jumps to the next timer.

Work that runs on it belongs to a node, named by a context variable. A node that is dead runs nothing any
more, as a process that was killed: no handler, no `finally`, no timer. Threads are the loop itself: what is
given to an executor runs as a whole a moment later, and its result is there after another moment.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import random
import time
from asyncio import events
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from contextvars import Context, ContextVar, copy_context
from typing import Any, Protocol, TypeVar

ResultT = TypeVar("ResultT")

START_SECONDS = 1_000_000.0
RESOLUTION_SECONDS = 1e-6
"""Timers so close to each other go off together."""
THREAD_SECONDS = 0.002
"""The longest that work in a thread, or the news of its end, is on its way."""


class Sockets(Protocol):
    """The network of a loop: the two calls of asyncio that need one."""

    def listen(self, factory: Any, host: Any, port: Any) -> Any:
        """A server on an address."""

    async def connect(self, factory: Any, host: Any, port: Any) -> Any:
        """A connection to an address."""


class Stuck(Exception):
    """Nothing is ready and no timer is set: whoever waits would wait for ever."""


NODE: ContextVar[Node | None] = ContextVar("node", default=None)


class Node:
    """One simulated process, which dies as a whole. `machine` is where it runs, life after life."""

    def __init__(self, name: str, machine: str = "") -> None:
        self.name = name
        self.machine = machine or name
        self.is_dead = False
        self.stopped_until = 0.0
        """Loop time until which the node does nothing, as behind a SIGSTOP."""
        self.context = copy_context()
        """The context of calls from outside, by the network."""
        self.context.run(NODE.set, self)


class _Handle(events.TimerHandle):
    """asyncio's own, for timers and for what is ready, without what costs time and is for debugging."""

    __slots__ = ("_node",)

    def __init__(
        self, when: float, callback: Any, args: Any, loop: VirtualLoop, context: Context | None
    ) -> None:
        self._when = when
        self._callback = callback
        self._args = args
        self._loop = loop
        self._context = copy_context() if context is None else context
        self._cancelled = False
        self._scheduled = False
        self._repr = None
        self._source_traceback = None
        self._node = self._context.get(NODE)

    def cancel(self) -> None:
        self._cancelled = True
        self._callback, self._args = None, ()


class _Task(asyncio.Task[Any]):
    """A task whose hash is its number: sets of tasks, and with them cancellations, repeat their order."""

    def __init__(self, number: int, *arguments: Any, **named: Any) -> None:
        self._number = number
        super().__init__(*arguments, **named)

    def __hash__(self) -> int:
        return self._number


class VirtualLoop(asyncio.BaseEventLoop):
    """Deterministic but for what the code on it leaves to chance."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self.now_seconds = START_SECONDS
        self.chance = chance
        self.network: Sockets
        self.failures: list[str] = []
        """Uncaught exceptions of callbacks and tasks."""
        self._scheduled: list[tuple[float, int, _Handle]] = []
        """A heap: timers of one moment go off in the order in which they were set."""
        self._timers_set = 0
        self._task_numbers = itertools.count()
        self.after_step: Callable[[], None] | None = None
        """Called when everything that was ready has run: an onlooker."""
        self.set_exception_handler(self._note_failure)
        self.set_task_factory(self._make_task)

    def _make_task(self, loop: asyncio.AbstractEventLoop, coroutine: Any, **named: Any) -> _Task:
        return _Task(next(self._task_numbers), coroutine, loop=loop, **named)

    def time(self) -> float:
        return self.now_seconds

    def _write_to_self(self) -> None:
        pass

    def _run_once(self) -> None:
        """Runs ready callbacks and due timers until the loop is stopped; if
        nothing is ready, time passes.
        """
        ready: deque[_Handle] = self._ready  # type: ignore[attr-defined]
        timers = self._scheduled
        while True:
            if not ready and not self._stopping:  # type: ignore[attr-defined]
                while timers and timers[0][2]._cancelled:
                    heapq.heappop(timers)
                if not timers:
                    raise Stuck("nothing is left to happen")
                self.now_seconds = max(self.now_seconds, timers[0][0])
            until = self.now_seconds + RESOLUTION_SECONDS
            while timers and timers[0][0] < until:
                when, _, handle = heapq.heappop(timers)
                # Or else whoever waits for a moment, and finds that it has not come, waits for ever.
                self.now_seconds = max(self.now_seconds, when)
                ready.append(handle)
            for _ in range(len(ready)):
                self._run_handle(ready.popleft())
            if self.after_step is not None:
                self.after_step()
            if self._stopping:  # type: ignore[attr-defined]
                return

    def _run_handle(self, handle: _Handle) -> None:
        """Runs a callback as its node does: a dead one not at all, one that stands still later."""
        if handle._cancelled:
            return
        node = handle._node
        if node is not None and (node.is_dead or node.stopped_until):
            if node.is_dead:
                return
            if node.stopped_until > self.now_seconds:
                self._set(node.stopped_until, handle)
                return
        try:
            handle._context.run(handle._callback, *handle._args)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            self.call_exception_handler({"message": f"Exception in {handle!r}", "exception": error})

    # The places where asyncio makes handles.

    def _call_soon(self, callback: Any, args: Any, context: Context | None) -> events.Handle:
        self._check_closed()  # type: ignore[attr-defined]
        handle = _Handle(self.now_seconds, callback, args, self, context)
        self._ready.append(handle)  # type: ignore[attr-defined]
        return handle

    def call_soon(  # type: ignore[override]
        self, callback: Any, *args: Any, context: Context | None = None
    ) -> events.Handle:
        return self._call_soon(callback, args, context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Any, *args: Any, context: Context | None = None
    ) -> events.TimerHandle:
        handle = _Handle(when, callback, args, self, context)
        self._set(when, handle)
        return handle

    def _set(self, when: float, handle: _Handle) -> None:
        self._check_closed()  # type: ignore[attr-defined]
        self._timers_set += 1
        heapq.heappush(self._scheduled, (when, self._timers_set, handle))

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

        delay = self.chance.random() * THREAD_SECONDS
        if func is time.sleep:
            # A thread that only waits waits in virtual time.
            self.call_later(delay + float(args[0]), end, None)
        else:
            self.call_later(delay, work)
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
