"""A line of things that wait to be taken, by whoever comes first; it can be shut."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class Ready(Generic[T]):
    """First in, first out. The owner decides how much may wait."""

    __slots__ = ("_items", "_shut", "_takers")

    def __init__(self) -> None:
        self._items: deque[T] = deque()
        self._takers: deque[asyncio.Future[None]] = deque()
        self._shut = False

    def __len__(self) -> int:
        return len(self._items)

    def put(self, item: T) -> None:
        """Adds something; after `shut` it is dropped."""
        if not self._shut:
            self._items.append(item)
            self._wake_one()

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
                    self._wake_one()
                raise
        return self._items.popleft()

    def _wake_one(self) -> None:
        while self._takers:
            turn = self._takers.popleft()
            if not turn.done():
                turn.set_result(None)
                return

    def shut(self) -> None:
        """Drops what waits; every taker gets None."""
        self._shut = True
        self._items.clear()
        while self._takers:
            self._wake_one()
