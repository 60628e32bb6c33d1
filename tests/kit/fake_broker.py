"""A name server and broker in one, on a real socket, whose answers a test writes itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from orbitmq.net.accepting import stop_accepting
from orbitmq.net.connection import Connection
from orbitmq.protocol.bodies.heartbeat import GetConsumerListByGroupResponseBody
from orbitmq.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.remoting.command import VERSION, Command
from orbitmq.protocol.requests.client import (
    GetConsumerListByGroup,
    Heartbeat,
    HeartbeatReply,
    UnregisterClient,
)
from orbitmq.protocol.requests.route import GetRouteinfoByTopic
from orbitmq.protocol.schema.declare import REQUESTS, JsonReply, Reply, Request, Void
from orbitmq.server.turn.listener import free_ports

Answering = Callable[[Any], Reply | Refused | None]
"""None: no answer at all."""


class FakeBroker:
    """Answers what it was told to; everything asked is in `asked`, in order."""

    def __init__(self, name: str = "broker-a") -> None:
        self.name = name
        self.asked: list[Request[Any]] = []
        self.address = ""
        self.version = VERSION
        self.connections: list[Connection] = []
        self.members: dict[str, list[str]] = {}
        self.topics: dict[str, TopicRouteData] = {}
        self._answers: dict[type[Request[Any]], Answering] = {
            GetRouteinfoByTopic: self.route,
            Heartbeat: self._heartbeat,
            GetConsumerListByGroup: lambda request: JsonReply[GetConsumerListByGroupResponseBody](
                GetConsumerListByGroupResponseBody(self.members.get(request.consumer_group, []))
            ),
            UnregisterClient: lambda _: Void(),
        }
        self._held: dict[type[Request[Any]], list[tuple[Connection, Command]]] = {}
        self._is_held: dict[type[Request[Any]], Callable[[Any], object]] = {}
        self._server: asyncio.Server | None = None
        self._changed = asyncio.Event()

    async def start(self, port: int = 0) -> FakeBroker:
        """Its port is none that the system gives to others once the broker is stopped."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._connect, "127.0.0.1", port or free_ports())
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def _connect(self) -> Connection:
        connection = Connection(self._on_requests)
        self.connections.append(connection)
        return connection

    async def stop(self) -> None:
        if self._server is not None:
            await stop_accepting(self._server)
            for connection in self.connections:
                connection.abort("stopped")
            await self._server.wait_closed()

    def topic(self, name: str, queues: int = 4, *brokers: FakeBroker, perm: int = 6) -> None:
        """A topic with so many queues on this broker and on others."""
        members = (self, *brokers)
        self.topics[name] = TopicRouteData(
            queue_datas=[QueueData(broker.name, queues, queues, perm) for broker in members],
            broker_datas=[BrokerData("C", broker.name, {0: broker.address}) for broker in members],
        )

    def on(self, kind: type[Request[Any]], answer: Answering) -> None:
        self._answers[kind] = answer

    def hold(self, kind: type[Request[Any]], only: Callable[[Any], object] = lambda _: True) -> None:
        """Has requests of a kind, or only some of them, wait until `release` for being handled."""
        self._held[kind] = []
        self._is_held[kind] = only

    def release(self, kind: type[Request[Any]]) -> None:
        for connection, command in self._held.pop(kind):
            self._answer(connection, command, kind.from_command(command))

    def of(self, kind: type[Request[Any]]) -> list[Any]:
        return [request for request in self.asked if type(request) is kind]

    async def until(self, condition: Callable[[], object], seconds: float = 60) -> None:
        """Returns once a request has made `condition` true."""
        async with asyncio.timeout(seconds):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    def _on_requests(self, connection: Connection, commands: list[Command]) -> None:
        for command in commands:
            kind = REQUESTS[command.code]
            request = kind.from_command(command)
            self.asked.append(request)
            if kind in self._held and self._is_held[kind](request):
                self._held[kind].append((connection, command))
            else:
                self._answer(connection, command, request)
        self._changed.set()

    def _answer(self, connection: Connection, command: Command, request: Request[Any]) -> None:
        kind = type(request)
        answering = self._answers.get(kind)
        answer = answering(request) if answering else Refused(3, f"{kind.__name__} is not served")
        if answer is not None and not command.is_oneway:
            refused = isinstance(answer, Refused)
            reply = Command.refusal(answer, command.opaque) if refused else answer.to_command(command.opaque)
            reply.version = self.version
            connection.send(reply)

    def route(self, request: GetRouteinfoByTopic) -> Reply | Refused:
        route = self.topics.get(request.topic)
        return JsonReply[TopicRouteData](route) if route else Refused(17, "no route")

    def _heartbeat(self, request: Heartbeat) -> Reply:
        for row in request.body.consumer_data_set:
            members = self.members.setdefault(row.group_name, [])
            if request.body.client_id not in members:
                members.append(request.body.client_id)
        return HeartbeatReply()

    def push(self, request: Request[Any], *, oneway: bool = True) -> None:
        """Asks every client something."""
        for connection in self.connections:
            if not connection.is_closed:
                connection.send(request.to_command(7, oneway))
