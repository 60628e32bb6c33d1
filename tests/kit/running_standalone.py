"""A standalone with the options a test is about, in the test's own event loop, and a way to ask it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from ssl import SSLContext
from typing import Any, TypeVar

from orbitmq.broker.options import BROKER_TABLE
from orbitmq.nameserver.options import NAMESRV_TABLE
from orbitmq.net.pool import ConnectionPool
from orbitmq.options import Layer
from orbitmq.protocol.errors import BrokerRefused
from orbitmq.protocol.remoting.signing import Credentials
from orbitmq.protocol.requests.send import SendMessage, SendReply
from orbitmq.protocol.schema.declare import Reply, Request
from orbitmq.server.lifecycle.broker_server import BrokerServer
from orbitmq.server.lifecycle.clock import Clock
from orbitmq.server.lifecycle.standalone import StandaloneServer
from orbitmq.server.turn.listener import free_ports
from orbitmq.testing.local_broker import SMALL_SEGMENTS

PATIENCE_MS = 60_000
ReplyT = TypeVar("ReplyT", bound=Reply)

TESTED: dict[str, object] = {**SMALL_SEGMENTS, "brokerFastFailureEnable": False}
"""Options of brokers in tests: a machine that stands still for 0.2 s is no reason to refuse a request."""


class PatientPool(ConnectionPool):
    """Gives a slow machine a minute to connect and to answer: a new topic is answered once it is saved."""

    def __init__(self, *, credentials: Credentials | None = None, ssl: SSLContext | None = None) -> None:
        super().__init__(connect_timeout_ms=PATIENCE_MS, credentials=credentials, ssl=ssl)

    async def call(self, address: str, request: Request[ReplyT], timeout_ms: float = PATIENCE_MS) -> ReplyT:
        return await super().call(address, request, timeout_ms)


@dataclass
class Running:
    """`ask` sends to the broker, `ask_namesrv` to the name server."""

    server: StandaloneServer
    pool: ConnectionPool
    clock: Clock = field(default_factory=Clock)

    @property
    def broker(self) -> BrokerServer:
        return self.server.broker

    @property
    def address(self) -> str:
        settings = self.broker.settings
        return f"{settings.bind_address}:{settings.listen_port}"

    async def ask(self, request: Request[ReplyT], timeout_ms: float = PATIENCE_MS) -> ReplyT:
        return await self.pool.call(self.address, request, timeout_ms)

    async def ask_namesrv(self, request: Request[ReplyT]) -> ReplyT:
        return await self.pool.call(self.server.namesrv.address, request)

    async def send(
        self, topic: str = "T", body: bytes = b"body", properties: str = "", **values: Any
    ) -> SendReply:
        fields: dict[str, Any] = {
            "producer_group": "P",
            "topic": topic,
            "default_topic": "TBW102",
            "default_topic_queue_nums": 1,
            "queue_id": 0,
            "sys_flag": 0,
            "born_timestamp": 1,
            "flag": 0,
            "properties": properties,
        }
        return await self.ask(SendMessage(**{**fields, **values}, body=body))

    def now(self) -> int:
        """The broker's time in ms."""
        return self.clock.now()

    def run_task(self, name: str, now: int) -> None:
        """Runs one of the broker's tasks as if it were `now`."""
        (task,) = (task for task in self.broker.periodic_tasks if task.name == name)
        task.run(now)

    async def refusal(self, request: Request[Any]) -> BrokerRefused:
        try:
            reply = await self.ask(request)
        except BrokerRefused as refused:
            return refused
        raise AssertionError(f"accepted: {reply}")


@contextlib.asynccontextmanager
async def running(
    data_dir: Path,
    namesrv: Mapping[str, object] | None = None,
    *,
    credentials: Credentials | None = None,
    ssl: SSLContext | None = None,
    **properties: object,
) -> AsyncIterator[Running]:
    """Starts both; stops them behind the test. `credentials` and `ssl` are what it is asked with."""
    port = free_ports(-2, 1, 2)
    values = {"storePathRootDir": str(data_dir), "listenPort": port, **TESTED, **properties}
    broker = BROKER_TABLE.load([Layer("the test", values)])
    name_server = NAMESRV_TABLE.load([Layer("the test", {"listenPort": port + 2, **(namesrv or {})})])
    server = StandaloneServer(broker, name_server)
    await server.start()
    pool = PatientPool(credentials=credentials, ssl=ssl)
    try:
        yield Running(server, pool)
    finally:
        await pool.close()
        await server.stop()
