"""The parts of one server's turns: its connections, its dispatcher, and the calls it holds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from orbitmq.handling.call import Answer
from orbitmq.net.connection import Connection
from orbitmq.net.errors import NetError
from orbitmq.net.tls import Contexts
from orbitmq.protocol.remoting.command import Command
from orbitmq.server.turn.dispatcher import Dispatcher
from orbitmq.server.turn.guard import Guard
from orbitmq.server.turn.listener import Listener

if TYPE_CHECKING:
    from orbitmq.protocol.schema.declare import Request


class Turns:
    """Listener, gate and dispatcher of one server, and pushes to those who are connected."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        *,
        on_closed: Callable[[int], None],
        max_connections: int,
        tls: Contexts | None = None,
    ) -> None:
        self.dispatcher = dispatcher
        self.waits = waits = dispatcher.waits
        waits.ask = self._ask
        self._gate = gate = dispatcher.gate
        self._changes = 0 if gate is None else gate.changes
        self._on_closed = on_closed
        self.guard = None if gate is None else Guard(gate, dispatcher.on_requests, waits.now, waits.hold)
        self.listener = Listener(
            dispatcher.on_requests if self.guard is None else self.guard.on_requests,
            self._connection_closed,
            on_frames=dispatcher.on_frames if dispatcher.has_fast_paths else None,
            admit=None if self.guard is None else self.guard.admit,
            max_connections=max_connections,
            tls=tls,
        )

    def refuse_withdrawn(self) -> None:
        """Ends held calls of peers that a change of users or rules has taken the right to the reply from."""
        if self._gate is not None and self._gate.changes != self._changes:
            self._changes = self._gate.changes
            self.waits.refuse_withdrawn()

    def push(self, connection_id: int, request: Request[Any]) -> None:
        """Sends a request one-way to a connection, if it is still there."""
        connection = self.listener.connections.get(connection_id)
        if connection is not None:
            connection.send_oneway(request)

    def close_connection(self, connection_id: int, reason: str) -> None:
        """Ends a connection, if it is still there."""
        connection = self.listener.connections.get(connection_id)
        if connection is not None:
            connection.close(reason)

    def _ask(self, condition: Answer, timeout_ms: int, then: Callable[[Command | None], None]) -> None:
        connection = self.listener.connections.get(condition.connection_id)
        if connection is None or connection.is_closed:
            then(None)
            return

        def answered(future: asyncio.Future[Command]) -> None:
            failed = future.cancelled() or isinstance(future.exception(), NetError)
            then(None if failed else future.result())

        connection.submit(condition.request, timeout_ms).add_done_callback(answered)

    def _connection_closed(self, connection: Connection) -> None:
        self.waits.connection_closed(connection.id)
        self._on_closed(connection.id)

    async def stop(self) -> None:
        """Ends every connection once what is queued has left."""
        self.waits.end_all()
        await self.listener.close()
