"""Limits of the sends under way at a time: whoever comes too early waits, in order."""

from __future__ import annotations

import asyncio
from collections import deque


class InFlight:
    """A limit on a number of things and on their size together. One that is larger than all goes alone."""

    __slots__ = ("_bytes", "_count", "_empty", "_max_bytes", "_max_count", "_waiting")

    def __init__(self, max_count: int, max_bytes: int) -> None:
        self._max_count = max_count
        self._max_bytes = max_bytes
        self._count = 0
        self._bytes = 0
        self._empty: asyncio.Event | None = None
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    def _has_room(self, size_bytes: int) -> bool:
        if self._count == 0:
            return True
        return self._count < self._max_count and self._bytes + size_bytes <= self._max_bytes

    async def enter(self, size_bytes: int) -> None:
        """Returns when there is room, which is taken then; every `enter` needs its `leave`."""
        if self.enters(size_bytes):
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size_bytes, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._admit()  # it may have been the first in line, and too large for what there is
            else:
                self.leave(size_bytes)
            raise

    def enters(self, size_bytes: int) -> bool:
        """True if there was room, which is taken then. False where `enter` has to wait for it."""
        if self._waiting or (
            self._count and (self._count >= self._max_count or self._bytes + size_bytes > self._max_bytes)
        ):
            return False
        self._count += 1
        self._bytes += size_bytes
        return True

    def leave(self, size_bytes: int, count: int = 1) -> None:
        """Gives the room of `count` back, `size_bytes` together."""
        self._count -= count
        self._bytes -= size_bytes
        if self._waiting:
            self._admit()
        if not self._count and self._empty is not None:
            self._empty.set()

    async def emptied(self) -> None:
        """Returns when nothing is under way."""
        if self._count:
            self._empty = self._empty or asyncio.Event()
            self._empty.clear()
            await self._empty.wait()

    def _admit(self) -> None:
        """Lets in those whose turn it is. A caller that gave up waiting stays in line until then: it costs
        little.
        """
        waiting = self._waiting
        while waiting:
            size_bytes, turn = waiting[0]
            if not turn.done():
                if not self._has_room(size_bytes):
                    return
                self._count += 1
                self._bytes += size_bytes
                turn.set_result(None)
            waiting.popleft()

    @property
    def count(self) -> int:
        """Number of those under way."""
        return self._count
