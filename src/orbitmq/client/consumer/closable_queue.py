"""A line of things that wait to be taken, by whoever comes first; it can be shut."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Generic, TypeVar

T = TypeVar("T")


class Ready(Generic[T]):
    """First in, first out. The owner decides how much may wait.

    One taker at a time is woken, and wakes the next if it leaves something: where the first one takes all
    that has come, the others sleep on.
    """

    __slots__ = ("_items", "_shut", "_takers", "_woken")

    def __init__(self) -> None:
        self._items: deque[T] = deque()
        self._takers: deque[asyncio.Future[None]] = deque()
        self._woken = False
        """True while a taker that was woken has not had its turn."""
        self._shut = False

    def __len__(self) -> int:
        return len(self._items)

    def put(self, item: T) -> None:
        """Adds something; after `shut` it is dropped."""
        if not self._shut:
            self._items.append(item)
            if self._takers and not self._woken:
                self._wake_one()

    def put_all(self, items: Iterable[T]) -> None:
        """Adds several things, as `put` does."""
        if not self._shut:
            self._items.extend(items)
            if self._items and self._takers and not self._woken:
                self._wake_one()

    def pop(self) -> T | None:
        """The next thing if there is one, without waiting."""
        items = self._items
        if not items:
            return None
        item = items.popleft()
        if items and self._takers and not self._woken:
            self._wake_one()
        return item

    async def take(self) -> T | None:
        """The next thing, waiting for it; None once shut."""
        while not self._items:
            if self._shut:
                return None
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._takers.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._woken = False
                    if self._items or self._shut:
                        self._wake_one()
                raise
            self._woken = False
        return self.pop()

    def _wake_one(self) -> None:
        while self._takers:
            turn = self._takers.popleft()
            if not turn.done():
                self._woken = True
                turn.set_result(None)
                return

    def shut(self) -> None:
        """Drops what waits; every taker gets None."""
        self._shut = True
        self._items.clear()
        while self._takers:
            self._wake_one()
