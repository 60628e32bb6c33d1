"""Requests that rules want sent to other connections, one-way; the server sends them after the turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orbitmq.protocol.declare import Request


class Outbox:
    """Pushes in the order in which rules made them. What needs an answer is a `Wait` on `Answer` instead."""

    __slots__ = ("pushes",)

    def __init__(self) -> None:
        self.pushes: list[tuple[int, Request[Any]]] = []
        """Those since the last `take`; looked at after every turn."""

    def push(self, connection_id: int, request: Request[Any]) -> None:
        """Sends `request` one-way to a connection; nothing happens if it is gone by then."""
        self.pushes.append((connection_id, request))

    def take(self) -> list[tuple[int, Request[Any]]]:
        """All pushes since the last call."""
        pushes, self.pushes = self.pushes, []
        return pushes
