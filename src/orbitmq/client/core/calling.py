"""Calling functions that an application gave us: async ones on the loop, plain ones in threads.

Such a function ends with its result or an `Exception`: what steers Python itself (a cancellation that
the function let out, StopIteration) would otherwise end or block whoever called it.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from typing import Any, TypeVar

A = TypeVar("A")
R = TypeVar("R")

LET_OUT = "the function let out the cancellation of something else"

_waits_for_thread: contextvars.ContextVar[asyncio.Task[Any] | None] = contextvars.ContextVar(
    "orbitmq_waits_for_thread", default=None
)


def is_async(function: Callable[..., object]) -> bool:
    """True if calling it does not block: it gives a coroutine."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - an object with an async __call__ is meant
    )


async def call(
    function: Callable[[A], Awaitable[R] | R],
    argument: A,
    *,
    asynchronous: bool,
    threads: Executor | None = None,
) -> R:
    """The result of `function` for `argument`. Unless it is `asynchronous` it runs in one of `threads`.

    Raises what the function raises, RuntimeError in place of what no caller could bear.
    """
    try:
        if asynchronous:
            result = function(argument)
        else:
            context = contextvars.copy_context()
            context.run(_waits_for_thread.set, asyncio.current_task())
            loop = asyncio.get_running_loop()
            result = await loop.run_in_executor(threads, context.run, _in_thread, function, argument)
        # A plain function may give an awaitable all the same, a lambda around an async one for example.
        return await result if inspect.isawaitable(result) else result
    except asyncio.CancelledError:
        if is_cancelled():
            raise
        raise RuntimeError(LET_OUT) from None


def is_cancelled() -> bool:
    """True if it is this task that is cancelled, and not something that it waited for."""
    task = asyncio.current_task()
    return task is not None and bool(task.cancelling())


def _in_thread(function: Callable[[A], R], argument: A) -> R:
    try:
        return function(argument)
    except StopIteration as error:
        raise RuntimeError("the function raised StopIteration") from error


def waiting_task() -> asyncio.Task[Any] | None:
    """The task that cannot continue before this call returns.

    For a call that comes from a thread of `call` that is the task behind it, which waits for the thread.
    """
    return _waits_for_thread.get() or asyncio.current_task()
