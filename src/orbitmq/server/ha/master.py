"""The HA port of a master: a connection for each slave, which gets the log as it grows."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import KW_ONLY, InitVar, dataclass
from typing import cast

from orbitmq.broker.ha.sign_in import MasterSignIn, SignInRefused
from orbitmq.broker.role.links import Links, Send, SlaveLink
from orbitmq.broker.role.options import ReplicationOptions
from orbitmq.net.accepting import stop_accepting
from orbitmq.net.address import format_address
from orbitmq.net.tls import Contexts, FirstByte
from orbitmq.protocol.replication import BadStream
from orbitmq.server.errors import CannotListen
from orbitmq.server.turn.listener import hosts_of, reason_of
from orbitmq.store import MessageStore

log = logging.getLogger(__name__)

MAX_SLAVES = 64
"""Connections to the HA port; a further one is closed at once."""
STEP_BYTES = 256 << 10
"""Sent to one slave at a time: then others have their turn, for a slave far behind takes what it gets."""
UNSENT_BYTES = 1 << 20
"""Bytes that one slave has not taken yet, at most: no more of the log is read for it meanwhile."""


class TlsOnly:
    """The contexts of a port that takes nothing but TLS."""

    takes_plain = False

    def __init__(self, contexts: Contexts) -> None:
        self.obtain = contexts.obtain


@dataclass(eq=False, repr=False)
class HaServer:
    """Listens for slaves and sends them the log. `on_progress()` is called when one has acknowledged more;
    `make_link(address, now)` makes what is known of one. With `tls` nothing but TLS is taken, with
    `make_sign_in()` no slave that does not sign in.
    """

    settings: ReplicationOptions
    store: MessageStore
    links: Links
    now: Callable[[], int]
    on_progress: Callable[[], None]
    make_link: Callable[[str, int], SlaveLink] = SlaveLink
    _: KW_ONLY
    tls: InitVar[Contexts | None] = None
    make_sign_in: Callable[[], MasterSignIn] | None = None

    def __post_init__(self, tls: Contexts | None) -> None:
        self._tls = None if tls is None else TlsOnly(tls)
        self.connections: list[_SlaveConnection] = []
        self._server: asyncio.AbstractServer | None = None

    async def listen(self, host: str, port: int, backlog: int) -> None:
        """Raises CannotListen."""
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(
                self._accept, hosts_of(host), port, backlog=backlog, reuse_address=True
            )
        except OSError as error:
            raise CannotListen(
                format_address(host, port), f"{reason_of(error)} (the port for slaves, haListenPort)"
            ) from None

    def _accept(self) -> asyncio.Protocol:
        connection = _SlaveConnection(self, is_encrypted=self._tls is not None)
        return connection if self._tls is None else FirstByte(connection, self._tls)

    def make_place(self) -> bool:
        """True if there is room for one more connection: who has not even reported makes way."""
        if len(self.connections) >= MAX_SLAVES:
            for other in self.connections:
                if other.link.next_offset < 0:
                    other.refuse("others wait for a place", "limit")
                    self.connections.remove(other)
                    break
        return len(self.connections) < MAX_SLAVES

    def pump(self) -> None:
        """Sends what the slaves lack, as much as they take now. Cheap where there are none."""
        log_end = self.store.max_physical
        for connection in self.connections:
            connection.pump(log_end)

    def announce(self) -> None:
        """Sends a heartbeat at once, for tables have changed: OrbitMQ's slaves look at their master's tables
        when one comes. To Apache's it is one like any other.
        """
        for connection in self.connections:
            connection.link.heartbeat_due = True
            connection.pump(self.store.max_physical)

    def tick(self, now: int) -> None:
        """Sends heartbeats, and closes connections of slaves that do not report. Call some times a second."""
        log_end = self.store.max_physical
        self.links.growth.note(log_end, now)
        for connection in list(self.connections):
            if connection.link.is_silent(now, self.settings.ha_housekeeping_interval):
                connection.end("it has not reported in time")
            elif connection.link.next_offset >= 0 and connection.link not in self.links.all:
                connection.end("the in-sync set has changed, and its slave may have begun anew")
            else:
                connection.link.note_log_end(log_end, now)
                connection.send()

    def replace(self, connection: _SlaveConnection) -> None:
        """Ends an older connection of the same slave: it has connected again before its old connection
        ended.
        """
        broker_id = connection.link.broker_id
        for other in list(self.connections):
            if broker_id and other is not connection and other.link.broker_id == broker_id:
                other.end(f"broker {broker_id} has connected anew, from {connection.link.address}")

    async def close(self) -> None:
        """Takes no more slaves and ends the connections of those there are."""
        if self._server is not None:
            await stop_accepting(self._server)
        for connection in list(self.connections):
            connection.end("")


class _SlaveConnection(asyncio.Protocol):
    """One slave's connection."""

    def __init__(self, server: HaServer, *, is_encrypted: bool) -> None:
        self._server = server
        self._is_encrypted = is_encrypted
        self._sign_in = None if server.make_sign_in is None else server.make_sign_in()
        self._paused = False
        self._goes_on = False
        self._transport: asyncio.Transport
        self.link: SlaveLink

    @property
    def address(self) -> str:
        """The slave's, `ip:port`."""
        return self.link.address

    @property
    def is_closed(self) -> bool:
        return self._transport.is_closing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's has no such base
        host, port = transport.get_extra_info("peername")[:2]
        self.link = self._server.make_link(format_address(host, port), self._server.now())
        self._transport.set_write_buffer_limits(high=UNSENT_BYTES)
        if not self._server.make_place():
            self.refuse(f"more than {MAX_SLAVES} slaves", "limit")
            return
        self._server.connections.append(self)
        if not self._is_encrypted:
            self._send_challenge()

    def change_transport(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._send_challenge()

    def _send_challenge(self) -> None:
        if self._sign_in is not None:
            self._transport.write(self._sign_in.challenge)

    def data_received(self, data: bytes) -> None:
        if self._transport.is_closing():
            return
        try:
            data = self._signed_in(data)
            if data:
                self._heard(data)
        except SignInRefused as refused:
            self.refuse(str(refused), "credentials", refused.answer)
        except BadStream as error:
            self.refuse(str(error), "stream")

    def _signed_in(self, data: bytes) -> bytes:
        """The bytes that come from a slave that has signed in. Raises SignInRefused."""
        if self._sign_in is None:
            return data
        done = self._sign_in.feed(data)
        if done is None:
            return b""
        answer, rest = done
        self._sign_in = None
        self._transport.write(answer)
        return rest

    def _heard(self, data: bytes) -> None:
        server, link = self._server, self.link
        is_new = link.next_offset < 0
        has_more = link.heard(data, server.store.min_physical, server.store.max_physical, server.now())
        if link.greeting is not None:
            self._transport.write(link.greeting)
            link.greeting = None
        if is_new and link.next_offset >= 0:
            server.replace(self)
            log.info("slave %s follows from %d on", link.address, link.next_offset)
            server.links.add(link)
        if is_new:
            self.send()
        if has_more:
            server.on_progress()
        else:
            self.pump(server.store.max_physical)

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self.send()

    def pump(self, log_end: int) -> None:
        """Sends the part of the log, up to its end, that the slave lacks. Cheap if there is none."""
        if self.link.next_offset != log_end or self.link.heartbeat_due:
            self.send()

    def send(self) -> None:
        """Sends a heartbeat that is due, and pieces of the log until the slave has everything, accepts no
        more, or has had its share of the turn.
        """
        if self._paused or self._transport.is_closing():
            return
        server, link = self._server, self.link
        settings, store = server.settings, server.store
        log_end, now = store.max_physical, server.now()
        pieces: list[bytes] = []
        step_end = link.sent_bytes + STEP_BYTES
        while True:
            if link.sent_bytes >= step_end:
                if not self._goes_on:
                    self._goes_on = True
                    asyncio.get_running_loop().call_soon(self._resume_sending)
                break
            batch = settings.ha_transfer_batch_size
            if settings.ha_flow_control_enable:
                batch = min(batch, server.links.limit.left(settings.max_ha_transfer_byte_in_second, now))
            send = link.next_send(
                log_end, store.log.segment_bytes, batch, settings.ha_send_heartbeat_interval, now
            )
            if send is None or (not send.size and batch <= 0 and link.next_offset < log_end):
                break
            data = store.log.read(send.physical_offset, send.size) if send.size else b""
            if send.size and not data:
                self.end(
                    f"the log does not hold {send.physical_offset} any more: retention was faster "
                    "than the slave, "
                    "start it with an empty store"
                )
                return
            send = Send(send.physical_offset, len(data))
            pieces += link.header(send, store.confirm_offset), data
            link.sent(send, now)
            server.links.limit.use(send.size)
            if link.next_offset == log_end and not link.heartbeat_due:
                break
        if pieces:
            # One write for all pieces: every write costs time here, and makes the slave read once more.
            self._transport.write(b"".join(pieces))

    def _resume_sending(self) -> None:
        self._goes_on = False
        self.send()

    def end(self, why: str) -> None:
        """Closes the connection; a reason is logged."""
        if why and not self._transport.is_closing():
            log.warning("the connection from %s to the port for slaves is closed: %s", self.link.address, why)
        self._transport.abort()

    def refuse(self, why: str, cause: str, answer: bytes = b"") -> None:
        """Closes the connection of a peer that gets nothing of the log, and counts it."""
        self._server.links.refused[cause] += 1
        if not answer:
            self.end(why)
            return
        log.warning("the connection from %s to the port for slaves is closed: %s", self.link.address, why)
        self._transport.write(answer)
        self._transport.close()

    def close(self, reason: str) -> None:
        """Ends a connection whose TLS has failed, after the alert that gives the peer the reason."""
        self._server.links.refused["tls"] += 1
        self._transport.close()

    def abort(self, reason: str) -> None:
        """Ends a connection without TLS, or with one that has failed, at once."""
        self._server.links.refused["tls"] += 1
        self._transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        server = self._server
        if self in server.connections:
            server.connections.remove(self)
        if self.link in server.links.all:
            server.links.remove(self.link)
            log.info("slave %s is gone, at %d", self.link.address, self.link.acknowledged)
            server.on_progress()
