"""Rules of order by key, for the messages of one queue. Nothing here waits or reads a clock.

A key with messages is in one of three states: ready, in hand, or paused after its first message failed. The
other keys do not depend on it.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")
Key = str | None
"""None: messages without a key, which follow one another as those of one key do."""


class KeyOrder(Generic[T]):
    """The messages that are held of one queue, in a line for each key."""

    def __init__(self) -> None:
        self._lines: dict[Key, deque[T]] = {}
        self._ready: deque[Key] = deque()
        self._paused: list[tuple[float, int, Key]] = []
        """A heap, by the end of each pause; the number keeps equal times in order."""
        self._pauses = 0

    def add(self, key: Key, message: T) -> None:
        """Takes a message in, behind those of its key."""
        line = self._lines.get(key)
        if line is None:
            self._lines[key] = deque([message])
            self._ready.append(key)
        else:
            line.append(message)

    def take(self, now: float) -> tuple[Key, T] | None:
        """A message that may be handled now; its key is in hand until `done` or `pause`. None: there is none.

        Keys whose pause is over come first.
        """
        if self._paused and self._paused[0][0] <= now:
            key = heapq.heappop(self._paused)[2]
        elif self._ready:
            key = self._ready.popleft()
        else:
            return None
        return key, self._lines[key][0]

    def done(self, key: Key) -> None:
        """Lets go of the message in hand of a key: the next one of the key is ready."""
        line = self._lines[key]
        line.popleft()
        if line:
            self._ready.append(key)
        else:
            del self._lines[key]

    def pause(self, key: Key, until: float) -> None:
        """Keeps the message in hand at the head of its key, which waits until then."""
        self._pauses += 1
        heapq.heappush(self._paused, (until, self._pauses, key))

    def next_at(self, now: float) -> float | None:
        """The time at which `take` has a message; None: only once more come, or one is done."""
        if self._ready:
            return now
        return self._paused[0][0] if self._paused else None
