"""Requests that rules want sent to other connections, one-way; the server sends them after the turn."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orbitmq.protocol.schema.declare import Request


class Outbox:
    """Pushes in the order in which rules made them. A request that needs an answer is a `Wait` on `Answer`
    instead.
    """

    __slots__ = ("pushes",)

    def __init__(self) -> None:
        self.pushes: deque[tuple[int, Request[Any]]] = deque()
        """Those not taken yet; looked at after every turn."""

    def push(self, connection_id: int, request: Request[Any]) -> None:
        """Sends `request` one-way to a connection; nothing happens if it is gone by then."""
        self.pushes.append((connection_id, request))

    def drain(self, most: int | None = None) -> list[tuple[int, Request[Any]]]:
        """The oldest pushes, all of them or at most so many."""
        pushes = self.pushes
        count = len(pushes) if most is None else min(most, len(pushes))
        return [pushes.popleft() for _ in range(count)]
