"""Accepted connections of a server, over one or several ports."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import ipaddress
import itertools
import os
import random
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass

from orbitmq.net.accepting import stop_accepting
from orbitmq.net.address import format_address
from orbitmq.net.balancers import FromBalancer, Network
from orbitmq.net.connection import Connection, Flushes
from orbitmq.net.pool import IDLE_SECONDS
from orbitmq.net.tls import Contexts, FirstByte
from orbitmq.net.unfinished import Unfinished
from orbitmq.protocol.remoting.command import Command
from orbitmq.protocol.schema.declare import max_body_bytes
from orbitmq.server.errors import CannotListen

BACKLOG = 1024


@dataclass(eq=False, repr=False)
class Listener:
    """Takes connections and keeps them by id; a connection over the limit is closed at once."""

    _on_requests: Callable[[Connection, list[Command]], None]
    _on_closed: Callable[[Connection], None]
    _: KW_ONLY
    on_frames: Callable[[Connection, bytes], int] | None = None
    admit: Callable[[Connection, bytes], int] | None = None
    max_connections: int = 20000
    tls: Contexts | None = None
    balancers: Sequence[Network] = ()

    def __post_init__(self) -> None:
        self.connections: dict[int, Connection] = {}
        self.unfinished = Unfinished()
        """Requests that peers have begun to send and not ended."""
        self.flushes = Flushes()
        self._servers: list[asyncio.Server] = []
        self._leaving: dict[int, int] = {}
        """Bytes that waited for idle peers when these were last looked at."""

    @property
    def ports(self) -> list[int]:
        """The ports listened on, in the order given; where 0 was asked for, the one that was found."""
        return [server.sockets[0].getsockname()[1] for server in self._servers]

    async def listen(self, host: str, *ports: int, backlog: int = BACKLOG) -> None:
        """Listens on all of `ports`, or on none of them. Raises CannotListen."""
        loop = asyncio.get_running_loop()
        for port in ports:
            try:
                server = await loop.create_server(
                    self._accept, hosts_of(host), port, backlog=backlog, reuse_address=True
                )
            except OSError as error:
                await self.stop_listening()
                raise CannotListen(format_address(host, port), reason_of(error)) from None
            self._servers.append(server)

    def _accept(self) -> asyncio.Protocol:
        connection = _Accepted(self)
        protocol = connection if self.tls is None else FirstByte(connection, self.tls)
        return FromBalancer(protocol, self.balancers) if self.balancers else protocol

    def accepted(self, connection: Connection) -> None:
        """Takes a new connection, or refuses it."""
        if len(self.connections) >= self.max_connections:
            connection.abort(f"more than {self.max_connections} connections")
            return
        self.connections[connection.id] = connection

    def _lost(self, connection: Connection) -> None:
        if self.connections.pop(connection.id, None) is not None:
            self._on_closed(connection)

    def close_idle(self, idle_seconds: float = IDLE_SECONDS) -> None:
        """Closes connections on which nothing moved for so long, as RocketMQ's servers do."""
        now = asyncio.get_running_loop().time()
        leaving: dict[int, int] = {}
        for connection in list(self.connections.values()):
            if now - connection.last_active <= idle_seconds:
                continue
            unsent = connection.unsent_bytes
            if unsent and self._leaving.get(connection.id) == unsent:
                # An orderly end waits for it to leave, and a peer that does not read never takes it.
                connection.abort("idle, with answers that nobody reads")
            else:
                connection.close("idle")
                leaving[connection.id] = unsent
        self._leaving = leaving

    def close_unsent(self, reason: str) -> None:
        """Ends connections whose peers have not taken all of what they were sent."""
        for connection in list(self.connections.values()):
            if connection.unsent_bytes:
                connection.abort(reason)

    async def stop_listening(self) -> None:
        """Takes no more connections; those that are open stay."""
        servers, self._servers = self._servers, []
        for server in servers:
            await stop_accepting(server)

    async def close(self, grace_seconds: float = 1.0) -> None:
        """Ends every connection, after what is queued has left or the grace is over."""
        await self.stop_listening()
        open_connections = list(self.connections.values())
        for connection in open_connections:
            connection.close("server stops")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_seconds):
                for connection in open_connections:
                    await connection.wait_closed()
        for connection in open_connections:
            connection.abort("server stops")


class _Accepted(Connection):
    """A connection from outside: it reports itself once its transport is there."""

    def __init__(self, listener: Listener) -> None:
        super().__init__(
            listener._on_requests,
            listener._lost,
            on_frames=listener.on_frames,
            admit=listener.admit,
            max_body=max_body_bytes,
            unfinished=listener.unfinished,
            flushes=listener.flushes,
        )
        self._listener = listener

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._listener.accepted(self)


def hosts_of(listen: str) -> str | list[str]:
    """Addresses that a server binds to: for `::` all addresses of both kinds, for asyncio would bind to IPv6
    alone.
    """
    return ["::", "0.0.0.0"] if listen == "::" else listen


def reason_of(error: OSError) -> str:
    """The reason why nothing can listen, in words."""
    if error.errno == errno.EADDRINUSE:
        return "the port is taken by another process"
    if error.errno == errno.EACCES:
        return "no permission to use this port"
    if error.errno == errno.EADDRNOTAVAIL:
        return "this machine has no such address"
    return error.strerror or str(error)


FREE_PORTS = range(10_000, 32_000)
"""Below the ports that systems give to outgoing connections: none of those gets in between."""
STRETCH = 1000
"""Each process looks in a stretch of so many ports, which it has to itself."""


def free_ports(*offsets: int, host: str = "127.0.0.1") -> int:
    """A port P such that P and P + each offset are free now, for servers that need several in a row.

    Nothing holds it until its server listens. Two rules keep others from being given the ports meanwhile: a
    process is given none again before it has been through all ports of its stretch, and no other process has
    the same stretch, as long as there are enough of them. Raises CannotListen.
    """
    lowest, highest = min((0, *offsets)), max((0, *offsets))
    walk = _walk(os.getpid())
    for _ in range(STRETCH):
        first = next(walk)
        for _ in range(highest - lowest):
            next(walk)
        port = first - lowest
        with contextlib.ExitStack() as stack:
            try:
                for offset in (0, *offsets):
                    stack.enter_context(socket.socket(_family(host))).bind((host, port + offset))
            except OSError:
                continue
            return port
    raise CannotListen(host, f"no free ports at distances {offsets} were found")


@functools.cache
def _walk(process: int) -> Iterator[int]:
    """The ports of a process's stretch, round and round, from anywhere in it: one walk for all who ask."""
    stretches = [FREE_PORTS[first:][:STRETCH] for first in range(0, len(FREE_PORTS), STRETCH)]
    first = process % len(stretches)
    in_order = [*stretches[first:], *stretches[:first]]
    ports = next((stretch for stretch in in_order if _claim(stretch)), in_order[0])[:-1]
    start = random.randrange(len(ports))
    return itertools.cycle([*ports[start:], *ports[:start]])


def _claim(stretch: range) -> bool:
    """Takes a stretch by its last port, which this process holds from now on. False if another one does."""
    with socket.socket() as holding:
        try:
            holding.bind(("127.0.0.1", stretch[-1]))
        except OSError:
            return False
        holding.detach()
    return True


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def advertised_host(listen_host: str) -> str:
    """The address for others when none was given: the one listened on, if it is a concrete one.

    For 0.0.0.0 and :: it is the first address of this machine that is not loopback, or loopback.
    """
    try:
        address = ipaddress.ip_address(listen_host)
    except ValueError:
        return listen_host
    if not address.is_unspecified:
        return listen_host
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    probe = "2001:db8::1" if address.version == 6 else "192.0.2.1"
    with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as udp:
        udp.connect((probe, 9))  # sends nothing; the kernel picks the source address
        host: str = udp.getsockname()[0]
        if not ipaddress.ip_address(host).is_loopback:
            return host
    return "::1" if address.version == 6 else "127.0.0.1"


def resolve(host: str) -> str:
    """The IP address of a host name, for records that must carry one. Raises CannotListen."""
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        return str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])
    except OSError as error:
        raise CannotListen(host, f"the advertised host cannot be resolved: {error.strerror}") from None
