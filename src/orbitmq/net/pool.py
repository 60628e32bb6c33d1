"""Connections to many addresses, opened when first needed and shared by all callers."""

from __future__ import annotations

import asyncio
import contextlib
import ssl as tls
from collections.abc import Callable
from dataclasses import KW_ONLY, InitVar, dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from orbitmq.net.address import parse_address
from orbitmq.net.connection import Connection
from orbitmq.net.errors import CallTimeout, Closed, ConnectFailed, why_not_connected
from orbitmq.net.replies import read_reply
from orbitmq.net.shared import result_of
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.remoting.command import Command

if TYPE_CHECKING:
    from orbitmq.protocol.remoting.signing import Credentials
    from orbitmq.protocol.schema.declare import Reply, Request

ReplyT = TypeVar("ReplyT", bound="Reply")

IDLE_SECONDS = 120
"""A connection on which nothing moved for so long is closed, as RocketMQ's peers do."""

SILENT_SECONDS = 2.5
"""A connection is given up where a call timed out and nothing came for so long."""


@dataclass(eq=False, repr=False)
class ConnectionPool:
    """Calls to any address: `await pool.call("127.0.0.1:9876", GetRouteinfoByTopic(...))`.

    `on_requests` gets what the other sides ask of us. With `ssl` connections are encrypted, with
    `credentials` requests are signed. After `close` nothing reconnects.
    """

    on_requests: InitVar[Callable[[Connection, list[Command]], None] | None] = None
    _: KW_ONLY
    connect_timeout_ms: int = 3000
    ssl: tls.SSLContext | None = None
    credentials: Credentials | None = None
    on_lost: Callable[[str], None] | None = None
    on_open: Callable[[str], None] | None = None

    def __post_init__(self, on_requests: Callable[[Connection, list[Command]], None] | None) -> None:
        self._on_requests = on_requests or _ignore
        self._connections: dict[str, Connection] = {}
        self._connecting: dict[str, asyncio.Task[Connection]] = {}
        self._closed = False

    async def connection(self, address: str) -> Connection:
        """The open connection to `address`. Raises ConnectFailed, BadAddress, Closed."""
        connection = self._connections.get(address)
        if connection is not None and not connection.is_closed:
            return connection
        if self._closed:
            raise Closed("this pool of connections is closed")
        task = self._connecting.get(address)
        if task is None:
            task = asyncio.create_task(self._connect(address), name=f"connect to {address}")
            self._connecting[address] = task
            task.add_done_callback(lambda done: self._connected(address, done))
        return await result_of(task, "this pool of connections is closed")

    def _connected(self, address: str, task: asyncio.Task[Connection]) -> None:
        self._connecting.pop(address, None)
        if not task.cancelled():
            task.exception()  # every waiter has it; without waiters it is of no interest

    async def _connect(self, address: str) -> Connection:
        host, port = parse_address(address)
        loop = asyncio.get_running_loop()

        def lost(connection: Connection) -> None:
            if self._connections.get(address) is connection:
                del self._connections[address]
                if self.on_lost is not None and not self._closed:
                    self.on_lost(address)

        try:
            async with asyncio.timeout(self.connect_timeout_ms / 1000):
                _, connection = await loop.create_connection(
                    lambda: Connection(self._on_requests, lost), host, port, ssl=self.ssl
                )
        except TimeoutError:
            raise ConnectFailed(address, f"no answer within {self.connect_timeout_ms} ms") from None
        except OSError as error:
            raise ConnectFailed(address, why_not_connected(error, is_tls=self.ssl is not None)) from None
        connection.credentials = self.credentials
        if self._closed:
            connection.abort("pool closed")
            raise Closed("this pool of connections is closed")
        self._connections[address] = connection
        if self.on_open is not None:
            self.on_open(address)
        return connection

    async def call(self, address: str, request: Request[ReplyT], timeout_ms: float = 3000) -> ReplyT:
        """One request and its typed reply; connects within the same time.

        A peer that is shutting down says GO_AWAY: it is asked once more on a new connection.
        Raises BrokerRefused, CallTimeout, ConnectionLost, ConnectFailed, Closed.
        """
        connection = self._connections.get(address)
        left_ms = timeout_ms
        loop = asyncio.get_running_loop()
        for may_go_away in (True, False):
            if connection is None or connection.is_closed or not connection.is_writable:
                connection, left_ms = await self._ready(address, request, timeout_ms)
            asked = loop.time()
            try:
                answer = await connection.submit(request, left_ms)
            except CallTimeout:
                self._abort_if_silent(connection, asked, timeout_ms)
                raise CallTimeout(connection.peer.address, type(request).__name__, timeout_ms) from None
            if answer.code != ResponseCode.GO_AWAY or not may_go_away:
                break
            self._forget(address, connection)
        return read_reply(request, answer, address)

    async def _ready(
        self, address: str, request: Request[Any], timeout_ms: float
    ) -> tuple[Connection, float]:
        """A connection that takes a request now, and what is left of the time (ms)."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        connection = None
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                connection = await self.connection(address)
                await connection.drain()
        except TimeoutError:
            if connection is None:
                raise ConnectFailed(address, f"no answer within {timeout_ms:.0f} ms") from None
            self._abort_if_silent(connection, began, timeout_ms)
            raise CallTimeout(address, type(request).__name__, timeout_ms) from None
        return connection, timeout_ms - (loop.time() - began) * 1000

    def _abort_if_silent(self, connection: Connection, since: float, timeout_ms: float) -> None:
        """Ends a connection on which nothing at all came for long: the peer, or the way to it, is gone.

        The next caller shall not wait in vain on it.
        """
        silent = asyncio.get_running_loop().time() - since
        if connection.last_heard < since and silent >= SILENT_SECONDS:
            connection.abort(f"silent for {timeout_ms:.0f} ms")

    async def send_oneway(self, address: str, request: Request[Any], timeout_ms: float = 3000) -> None:
        """A request without an answer; returns once it is queued.

        Raises ConnectFailed, Closed; CallTimeout where the peer does not take what it was sent before.
        """
        connection, _ = await self._ready(address, request, timeout_ms)
        connection.send_oneway(request)

    def _forget(self, address: str, connection: Connection) -> None:
        if self._connections.get(address) is connection:
            del self._connections[address]
        connection.close("the peer asked us to go away")

    @property
    def addresses(self) -> list[str]:
        return [address for address, connection in self._connections.items() if not connection.is_closed]

    def close_idle(self) -> None:
        """Closes connections on which nothing moved for IDLE_SECONDS."""
        now = asyncio.get_running_loop().time()
        for connection in list(self._connections.values()):
            if now - connection.last_active > IDLE_SECONDS:
                connection.close("idle")

    async def close(self) -> None:
        """Closes every connection and refuses new ones."""
        self._closed = True
        for task in list(self._connecting.values()):
            task.cancel()
        connections = list(self._connections.values())
        for connection in connections:
            connection.close()
        for connection in connections:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1):
                    await connection.wait_closed()
            connection.abort("did not close in time")


def _ignore(connection: Connection, commands: list[Command]) -> None:
    """A side that serves nothing drops what it is asked."""
