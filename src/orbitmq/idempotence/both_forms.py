"""One code for the plain and the async form: a coroutine, in which `of` gives what a call has returned.

The plain form runs it at once, for it waits for nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, TypeVar

T = TypeVar("T")

Of = Callable[[Any], Awaitable[Any]]


async def given(value: Any) -> Any:
    """The result of a plain function."""
    return value


async def awaited(value: Awaitable[Any]) -> Any:
    """The result of an async function."""
    return await value


@contextlib.asynccontextmanager
async def as_async(plain: AbstractContextManager[T]) -> AsyncIterator[T]:
    """A plain context manager for `async with`."""
    with plain as value:
        yield value


@contextlib.contextmanager
def plain(opened: AbstractAsyncContextManager[T]) -> Iterator[T]:
    """An async context manager that waits for nothing, for `with`."""
    stack = contextlib.AsyncExitStack()
    value = at_once(stack.enter_async_context(opened))
    try:
        yield value
    except BaseException as error:
        at_once(stack.__aexit__(type(error), error, error.__traceback__))
        raise
    at_once(stack.aclose())


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that waits for nothing."""
    try:
        work.send(None)
    except StopIteration as ended:
        result: T = ended.value
        return result
    raise AssertionError("a plain form waits for something")
