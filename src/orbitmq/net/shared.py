"""Work that several wait for at a time: who stops waiting does not end it for the others."""

from __future__ import annotations

import asyncio
from typing import TypeVar

from orbitmq.net.errors import Closed

T = TypeVar("T")


async def result_of(task: asyncio.Task[T], closed: str) -> T:
    """The result of the task. Raises Closed with this text if the task was cancelled, not the caller."""
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        current = asyncio.current_task()
        if task.cancelled() and not (current is not None and current.cancelling()):
            raise Closed(closed) from None
        raise
