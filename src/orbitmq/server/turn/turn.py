"""The parts of one server's turns: its connections, its dispatcher, and the calls it holds."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any

from orbitmq.handling.call import Answer, BoundHandler, FastPath, Warm
from orbitmq.net.connection import Connection
from orbitmq.net.errors import NetError
from orbitmq.net.tls import Contexts
from orbitmq.protocol.remoting.command import Command
from orbitmq.protocol.schema.declare import REQUESTS
from orbitmq.server.turn.dispatcher import Dispatcher, ManyHandler
from orbitmq.server.turn.guard import Gate, Guard
from orbitmq.server.turn.latency import RpcLatency, TurnLatency
from orbitmq.server.turn.listener import Listener
from orbitmq.server.turn.off_loop import OffLoopRunner
from orbitmq.server.turn.pending_replies import AskBroker, PendingReplies, ask_nobody

if TYPE_CHECKING:
    from orbitmq.protocol.schema.declare import Request


class Turns:
    """Listener, dispatcher and waits of one server, and pushes to those who are connected."""

    def __init__(
        self,
        handlers: Mapping[int, BoundHandler],
        *,
        now: Callable[[], int],
        many: Mapping[int, ManyHandler] | None = None,
        fast_paths: Sequence[FastPath] = (),
        arrange: Callable[[list[Command]], list[Command]] = lambda commands: commands,
        after_turn: Callable[[int], None],
        on_closed: Callable[[int], None],
        warm: Callable[[Warm, Callable[[], None]], None] = lambda condition, then: then(),
        not_on_port: Callable[[int, int], bool] = lambda code, port: False,
        max_age_ms: Callable[[int], float] = lambda code: math.inf,
        max_connections: int = 20_000,
        max_polls: Callable[[], float] = lambda: math.inf,
        gate: Gate | None = None,
        latency: RpcLatency | None = None,
        executor: Executor | None = None,
        tls: Contexts | None = None,
        ask_broker: AskBroker = ask_nobody,
    ) -> None:
        self.waits = PendingReplies(now, self._ask, warm, max_polls, OffLoopRunner(executor), ask_broker)
        self.dispatcher = Dispatcher(
            REQUESTS,
            handlers,
            now=now,
            waits=self.waits,
            many=many,
            fast_paths=fast_paths,
            arrange=arrange,
            after_turn=after_turn,
            not_on_port=not_on_port,
            max_age_ms=max_age_ms,
            access=gate,
            latency=None if latency is None else TurnLatency(latency),
        )
        self._gate = gate
        self._changes = 0 if gate is None else gate.changes
        self._on_closed = on_closed
        self.guard = None if gate is None else Guard(gate, self.dispatcher.on_requests, now, self.waits.hold)
        self.listener = Listener(
            self.dispatcher.on_requests if self.guard is None else self.guard.on_requests,
            self._connection_closed,
            on_frames=self.dispatcher.on_frames if fast_paths else None,
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
