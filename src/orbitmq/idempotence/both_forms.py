"""One code for the plain and the async form: a coroutine, in which `of` gives what a call has returned.

The plain form runs it at once, for it waits for nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AbstractContextManager
from typing import Any, TypeVar

T = TypeVar("T")

Of = Callable[[Any], Awaitable[Any]]


async def given(value: Any) -> Any:
    """What a plain function has returned."""
    return value


async def awaited(value: Awaitable[Any]) -> Any:
    """What an async function returns."""
    return await value


@contextlib.asynccontextmanager
async def as_async(plain: AbstractContextManager[T]) -> AsyncIterator[T]:
    """A plain context manager for `async with`."""
    with plain as value:
        yield value


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that waits for nothing."""
    try:
        work.send(None)
    except StopIteration as ended:
        result: T = ended.value
        return result
    raise AssertionError("a plain form waits for something")
