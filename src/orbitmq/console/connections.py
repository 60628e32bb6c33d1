"""Connections of browsers: how long one may be without a request, and how many a peer may have."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, cast

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_SECONDS = 10.0
"""Time from the start of a connection, or from an answer, to the end of the head of the next request."""
MOST_CONNECTIONS = 500
"""Requests and open event streams at a time; beyond it the answer is 503."""
MOST_PER_PEER = 200
"""As above, from one address."""


class BrowserConnection(H11Protocol):
    """One connection. While it has no request it is not in use: it ends after a time, and at once where
    others need its place, so silent connections keep no other out.
    """

    def __init__(self, config: uvicorn.Config, *arguments: Any, **named: Any) -> None:
        super().__init__(config, *arguments, **named)
        self.waiting_since: float | None = None
        """Time of the loop since which it has no request; None while it has one."""
        self._deadline: asyncio.TimerHandle | None = None

    @property
    def peer(self) -> str:
        """Address without the port."""
        return self.client[0] if self.client else ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._begin_waiting()
        if not make_room(self, cast("set[BrowserConnection]", self.connections)):
            self.limit_concurrency = 0  # every request on it is answered with 503

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_waiting()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        super().handle_events()
        if self.cycle is not None and not self.cycle.response_complete:
            self._end_waiting()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle.response_complete:  # else the next request was there already
            self._begin_waiting()

    def give_way(self) -> None:
        """Ends at once."""
        self._end_waiting()
        self.connections.discard(self)
        self.transport.abort()

    def _begin_waiting(self) -> None:
        self._end_waiting()
        self.waiting_since = self.loop.time()
        self._deadline = self.loop.call_later(REQUEST_SECONDS, self._expire)

    def _end_waiting(self) -> None:
        self.waiting_since = None
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _expire(self) -> None:
        # Still one that others may take the place of: an answer that its peer does not read keeps it open.
        self.transport.close()


def make_room(new: BrowserConnection, connections: set[BrowserConnection]) -> bool:
    """Ends the connection without a request that is in the way of a new one; False if there is none.

    The peer's own oldest one goes if the peer has too many. If all have too many, it is the oldest one of the
    peer with the most connections.
    """
    counts = Counter(one.peer for one in connections)
    is_over = counts[new.peer] > MOST_PER_PEER
    if not is_over and len(connections) < MOST_CONNECTIONS:
        return True
    waiting = [
        (-counts[one.peer], one.waiting_since, id(one), one)
        for one in connections
        if one is not new and one.waiting_since is not None and (not is_over or one.peer == new.peer)
    ]
    if not waiting:
        return False
    min(waiting)[-1].give_way()
    return True
