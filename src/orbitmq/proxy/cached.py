"""Answers that are asked for once and kept for a while, however many callers want them."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from orbitmq.net.shared import result_of

ValueT = TypeVar("ValueT")


class Cached(Generic[ValueT]):
    """Values by name, looked up by `look_up` and kept for `keep_seconds`; at most `most` of them.

    Callers that ask for one at the same time share one look-up. Errors are not kept.
    """

    def __init__(self, look_up: Callable[[str], Awaitable[ValueT]], keep_seconds: float, most: int) -> None:
        self._look_up = look_up
        self._keep_seconds = keep_seconds
        self._most = most
        self._values: OrderedDict[str, tuple[float, ValueT]] = OrderedDict()
        self._looking: dict[str, asyncio.Task[ValueT]] = {}

    async def get(self, name: str) -> ValueT:
        """The value of a name. Raises what the look-up raises."""
        kept = self._values.get(name)
        if kept is not None and kept[0] > asyncio.get_running_loop().time():
            return kept[1]
        task = self._looking.get(name)
        if task is None:
            task = asyncio.create_task(self._fetch(name), name=f"look up {name}")
            self._looking[name] = task
            task.add_done_callback(lambda done: self._done(name, done))
        return await result_of(task, "the proxy is closed")

    def forget(self, name: str) -> None:
        """Has a name looked up at its next use."""
        self._values.pop(name, None)

    async def _fetch(self, name: str) -> ValueT:
        value = await self._look_up(name)
        self._values[name] = (asyncio.get_running_loop().time() + self._keep_seconds, value)
        self._values.move_to_end(name)
        while len(self._values) > self._most:
            self._values.popitem(last=False)
        return value

    def _done(self, name: str, task: asyncio.Task[ValueT]) -> None:
        self._looking.pop(name, None)
        if not task.cancelled():
            task.exception()  # every caller has it
