"""A peer that answers each request code as it is told to; listens on a free port."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Self

import orbitmq.protocol.requests.every  # noqa: F401 (declares them)
from orbitmq.net.accepting import stop_accepting
from orbitmq.protocol.bodies.route import BrokerData, ClusterInfo, QueueData, TopicRouteData
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.remoting.command import Command
from orbitmq.protocol.remoting.frame import FrameSplitter, encode_command
from orbitmq.protocol.requests.route import GetBrokerClusterInfo, GetRouteinfoByTopic
from orbitmq.protocol.schema.declare import REQUESTS, JsonReply, Reply, Request

Answer = Reply | Refused | Callable[[Any], Reply | Refused]


class Scripted:
    """`answers` by request class: a reply, a Refused, or a function of the request that gives one."""

    def __init__(self, answers: dict[type[Request[Any]], Answer]) -> None:
        self.answers = answers
        self.asked: list[Request[Any]] = []
        self.writers: list[asyncio.StreamWriter] = []
        """The connections that were taken."""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await stop_accepting(self._server)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        splitter = FrameSplitter()
        self.writers.append(writer)
        try:
            while data := await reader.read(1 << 16):
                for command in splitter.feed(data):
                    writer.write(encode_command(self._answer(command)))
        finally:
            writer.close()

    def _answer(self, command: Command) -> Command:
        request = REQUESTS[command.code].from_command(command)
        self.asked.append(request)
        answer = self.answers.get(type(request), Refused(3, f" request type {command.code} not supported"))
        if callable(answer) and not isinstance(answer, (Reply, Refused)):
            answer = answer(request)
        if isinstance(answer, Refused):
            return Command.refusal(answer, command.opaque)
        return answer.to_command(command.opaque)


def alone(answers: dict[type, Answer]) -> Scripted:
    """A peer that is name server and broker `a` in one."""
    peer = Scripted(answers)

    def brokers() -> dict[str, BrokerData]:
        return {"a": BrokerData("C", "a", {0: peer.address})}

    peer.answers = {
        GetBrokerClusterInfo: lambda _: JsonReply[ClusterInfo](body=ClusterInfo(brokers(), {"C": ["a"]})),
        GetRouteinfoByTopic: lambda _: JsonReply[TopicRouteData](
            body=TopicRouteData(queue_datas=[QueueData("a", 4, 4, 6)], broker_datas=list(brokers().values()))
        ),
        **answers,
    }
    return peer
