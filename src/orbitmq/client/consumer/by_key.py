"""A limit for messages of one key that are handled at the same time; the others wait for their turn."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from orbitmq.client.consumer.gathering import Taken
from orbitmq.client.core.message import ReceivedMessage


def key_of(message: ReceivedMessage) -> str | None:
    """Key by which messages belong together: the sharding key, else the first key; None without either."""
    return message.sharding_key or next(iter(message.keys), None)


class KeyLimit:
    """Lets `most` messages of one key through at a time, in the order in which they came."""

    def __init__(self, most: int, put: Callable[[Taken], None]) -> None:
        self._most = most
        self._put = put
        self._in_flight: dict[str, int] = {}
        self._waiting: dict[str, deque[Taken]] = {}

    def offer(self, key: str, taken: Taken) -> None:
        """Passes a message of a key on, now or once it is its turn."""
        in_flight = self._in_flight.get(key, 0)
        if in_flight < self._most:
            self._in_flight[key] = in_flight + 1
            self._put(taken)
        else:
            self._waiting.setdefault(key, deque()).append(taken)

    def done(self, key: str) -> None:
        """A message that was passed on has been handled: the next one of its key follows."""
        if waiting := self._waiting.get(key):
            self._put(waiting.popleft())
            if not waiting:
                del self._waiting[key]
            return
        self._in_flight[key] -= 1
        if not self._in_flight[key]:
            del self._in_flight[key]
