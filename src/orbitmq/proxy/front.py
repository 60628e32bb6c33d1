"""The port of clients: plain and TLS connections on one port, each relayed to the gRPC server behind it.

gRPC's own server takes either plain connections or TLS on a port, and Apache's proxy takes both. So this
port decides by the first byte, ends TLS, and relays. The gRPC server listens on the loopback, and knows its
peers by the ports of the relays: whoever else connects there is refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass

from orbitmq.net.accepting import stop_accepting
from orbitmq.net.address import format_address
from orbitmq.net.balancers import FromBalancer, Network
from orbitmq.net.tls import Contexts, FirstByte
from orbitmq.proxy.context import host_of
from orbitmq.proxy.frames import Frames
from orbitmq.server.errors import CannotListen
from orbitmq.server.turn.listener import hosts_of, reason_of

log = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
UNSENT_BYTES = 256 << 10
"""A relay reads no more from one side while the other has this much left to take."""
PAUSE_SECONDS = 1.0
"""After a flood its host gets no new connection for so long: a flood shall not continue over new ones."""
MOST_PAUSED = 1000
FIRST_BYTES_SECONDS = 10
"""A connection that has sent nothing within this time is closed."""


@dataclass(eq=False, repr=False)
class Front:
    """Accepts clients, at most `max_connections` at a time, and relays each to `inner_port`."""

    _inner_port: int
    _: KW_ONLY
    max_connections: int
    idle_seconds: float
    tls: InitVar[Contexts | None]
    balancers: Sequence[Network] = ()

    def __post_init__(self, tls: Contexts | None) -> None:
        self._tls = None if tls is None else _Http2(tls)
        self._servers: list[asyncio.Server] = []
        self.relays: set[Relay] = set()
        self._paused: OrderedDict[str, float] = OrderedDict()
        """Hosts that have no new connection now, with the ends of their pauses."""
        self.floods = 0
        """Connections that were ended because of what they sent."""
        self.peers: dict[int, str] = {}
        """Addresses of clients by the port from which their relay speaks to the gRPC server."""

    async def listen(self, host: str, port: int, backlog: int) -> int:
        """The port listened on; 0 finds a free one. Raises CannotListen."""
        loop = asyncio.get_running_loop()
        try:
            server = await loop.create_server(
                self._accept, hosts_of(host), port, backlog=backlog, reuse_address=True
            )
        except OSError as error:
            raise CannotListen(format_address(host, port), reason_of(error)) from None
        self._servers.append(server)
        found: int = server.sockets[0].getsockname()[1]
        return found

    def _accept(self) -> asyncio.Protocol:
        relay = Relay(self)
        protocol = relay if self._tls is None else FirstByte(relay, self._tls)
        return FromBalancer(protocol, self.balancers) if self.balancers else protocol

    def add(self, relay: Relay) -> None:
        """Takes a new client, or refuses it."""
        if len(self.relays) >= self.max_connections:
            relay.abort(f"more than {self.max_connections} connections")
            return
        if self._paused.get(relay.host, 0) > relay.last_active:
            relay.abort("its host has sent a flood a moment ago")
            return
        self.relays.add(relay)

    def flooded(self, relay: Relay, reason: str) -> None:
        """Ends a connection because of what it sent."""
        log.warning("closing %s: %s", relay.address, reason)
        self.floods += 1
        self._paused.pop(relay.host, None)
        self._paused[relay.host] = relay.last_active + PAUSE_SECONDS
        if len(self._paused) > MOST_PAUSED:
            self._paused.popitem(last=False)
        relay.abort(reason)

    async def connect(self, relay: Relay) -> _Inner:
        """A connection to the gRPC server. Raises OSError."""
        loop = asyncio.get_running_loop()
        _, inner = await loop.create_connection(lambda: _Inner(relay), LOOPBACK, self._inner_port)
        self.peers[inner.port] = relay.address
        return inner

    def peer_of(self, peer: str) -> str | None:
        """The address of the client whose relay gRPC calls `peer`; None for a peer that came another way."""
        port = host_of(peer).rpartition(":")[2]
        return self.peers.get(int(port)) if port.isdigit() else None

    def close_idle(self) -> None:
        """Closes connections on which nothing has come or left for long, or that never sent anything."""
        now = asyncio.get_running_loop().time()
        for relay in list(self.relays):
            limit = self.idle_seconds if relay.has_spoken else FIRST_BYTES_SECONDS
            if now - relay.last_active > limit:
                relay.abort("idle")

    async def stop_listening(self) -> None:
        """Takes no more connections; those that are open stay."""
        servers, self._servers = self._servers, []
        for server in servers:
            await stop_accepting(server)

    async def close(self) -> None:
        """Ends every connection."""
        await self.stop_listening()
        for relay in list(self.relays):
            relay.abort("the proxy stops")
        await asyncio.sleep(0)


class _Side(asyncio.Protocol):
    """One side of a relay: it is read from while the other side takes what comes."""

    _transport: asyncio.Transport

    def pause_reading(self) -> None:
        """Reads no more until the other side has taken what came."""
        with contextlib.suppress(RuntimeError):
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Reads again."""
        with contextlib.suppress(RuntimeError):
            self._transport.resume_reading()


class Relay(_Side):
    """The side of a client: its bytes go to the gRPC server, and the server's to it."""

    def __init__(self, front: Front) -> None:
        self._front = front
        self._inner: _Inner | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._early: list[bytes] = []
        self.is_closed = False
        self._is_flood = False
        self.has_spoken = False
        self.last_active = asyncio.get_running_loop().time()
        self._frames = Frames(self.last_active)
        self.host = ""
        self.address = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]
        self._transport.set_write_buffer_limits(UNSENT_BYTES)
        peer = transport.get_extra_info("peername")
        self.host = peer[0] if peer else ""
        self.address = format_address(*peer[:2]) if peer else ""
        self._front.add(self)

    def change_transport(self, transport: asyncio.Transport) -> None:
        """Continues over the encrypted transport of the same client."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self.has_spoken = True
        self.last_active = now = asyncio.get_running_loop().time()
        if reason := self._frames.why_not(data, now):
            self._is_flood = True
            self._front.flooded(self, reason)
            return
        if self._inner is not None:
            self._inner.write(data)
            return
        self._early.append(data)
        if self._connecting is None:
            self._transport.pause_reading()
            self._connecting = asyncio.create_task(self._connect(), name=f"relay of {self.address}")

    async def _connect(self) -> None:
        try:
            inner = await self._front.connect(self)
        except OSError as error:
            log.warning("closing %s: the gRPC server cannot be reached: %s", self.address, error)
            self.abort("no gRPC server")
            return
        if self.is_closed:
            inner.abort()
            return
        self._inner = inner
        for data in self._early:
            inner.write(data)
        self._early.clear()
        self._transport.resume_reading()

    def write(self, data: bytes) -> None:
        """Sends bytes of the server to the client."""
        self.last_active = asyncio.get_running_loop().time()
        self._frames.sent(len(data))
        if not self.is_closed:
            self._transport.write(data)

    def eof_received(self) -> bool | None:
        return None

    def pause_writing(self) -> None:
        if self._inner is not None:
            self._inner.pause_reading()

    def resume_writing(self) -> None:
        if self._inner is not None:
            self._inner.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        self.is_closed = True
        self._front.relays.discard(self)
        if self._inner is not None:
            self._front.peers.pop(self._inner.port, None)
            if self._is_flood:
                self._inner.abort()
            else:
                self._inner.close()

    def close(self, reason: str = "closed here") -> None:
        """Ends the connection behind what waits to be sent."""
        self._transport.close()

    def abort(self, reason: str) -> None:
        """Ends the connection at once."""
        log.debug("closing %s: %s", self.address, reason)
        self._transport.abort()


class _Inner(_Side):
    """The side of the gRPC server."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self.port = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]
        self._transport.set_write_buffer_limits(UNSENT_BYTES)
        self.port = transport.get_extra_info("sockname")[1]

    def data_received(self, data: bytes) -> None:
        self._relay.write(data)

    def write(self, data: bytes) -> None:
        self._transport.write(data)

    def pause_writing(self) -> None:
        self._relay.pause_reading()

    def resume_writing(self) -> None:
        self._relay.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        if not self._relay.is_closed:
            self._relay.close("the gRPC server has ended the connection")

    def close(self) -> None:
        self._transport.close()

    def abort(self) -> None:
        self._transport.abort()


class _Http2:
    """Contexts that tell clients that HTTP/2 is spoken here, which gRPC insists on."""

    def __init__(self, contexts: Contexts) -> None:
        self._contexts = contexts

    @property
    def takes_plain(self) -> bool:
        return self._contexts.takes_plain

    def obtain(self, then: Callable[[ssl.SSLContext | None], None]) -> None:
        def with_http2(context: ssl.SSLContext | None) -> None:
            if context is not None:
                context.set_alpn_protocols(["h2"])
            then(context)

        self._contexts.obtain(with_http2)
