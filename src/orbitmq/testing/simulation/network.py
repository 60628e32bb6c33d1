"""A network in memory: connections are pairs of transports, and bytes are timers of the loop.

Within one direction of a connection bytes keep their order, as with TCP; between connections nothing does.
Faults are methods of `Network` that act on the connections of a node, or on the links between machines: a new
one is one small function. Bytes on a link that is cut are sent again when it is whole, as TCP does, unless
the connection has ended by then.
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import random
from collections.abc import Callable, Iterator
from typing import Any

from orbitmq.testing.simulation.loop import NODE, Node, VirtualLoop, on_node

LATENCY_SECONDS = (0.0001, 0.003)
CONNECT_AGAIN_SECONDS = 1.0
"""A machine that does not answer is asked again so often, as long as the caller waits."""
PIECE_BYTES = 4096
"""Bytes arrive in pieces of at most so many, and now and then in very small ones."""


class SimulatedTransport(asyncio.Transport):
    """One end of a connection."""

    def __init__(
        self, network: Network, node: Node | None, local: tuple[str, int], remote: tuple[str, int]
    ) -> None:
        super().__init__({"sockname": local, "peername": remote})
        self.network = network
        self.node = node
        self.other: SimulatedTransport
        self.is_silent = False
        """True if bytes written here are lost without an error: a pulled cable."""
        self.latency_seconds = 0.0
        """On top of the usual."""
        self._protocol: Any = None
        self._closing = False
        self._gone = False
        self._paused = False
        self._kept: list[bytes] = []
        self._eof = False
        self._under_way = 0
        self._arrives = 0.0
        self._high = 64 << 10
        self._writes_paused = False
        self._held: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        """Bytes that could not leave while the link is cut."""

    @property
    def machine(self) -> str:
        return self.node.machine if self.node is not None else ""

    # Called by a protocol.

    def set_protocol(self, protocol: Any) -> None:
        self._protocol = protocol

    def get_protocol(self) -> Any:
        return self._protocol

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = high if high is not None else 64 << 10

    def get_write_buffer_size(self) -> int:
        return self._under_way

    def is_closing(self) -> bool:
        return self._closing

    def pause_reading(self) -> None:
        self._paused = True

    def is_reading(self) -> bool:
        return not self._paused

    def resume_reading(self) -> None:
        if self._paused:
            self._paused = False
            self.network.loop.call_soon(self._deliver_kept)

    def write(self, data: Any) -> None:
        if self._closing or self._gone or not len(data):
            return
        self._send(bytes(data))
        if self._under_way > self._high and not self._writes_paused:
            self._writes_paused = True
            self._protocol.pause_writing()

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._later(self.other._ended, None)
            self._own(self._lost, None)

    def abort(self) -> None:
        if not self._gone:
            self._closing = True
            self._later(self.other._ended, ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))
            self._own(self._lost, None)

    # The way there.

    def _send(self, data: bytes) -> None:
        chance = self.network.chance
        at = 0
        while at < len(data):
            most = PIECE_BYTES if chance.random() < 0.9 else chance.randint(1, 64)
            piece = data[at : at + most]
            at += len(piece)
            self._under_way += len(piece)
            self._later(self._arrive, piece)

    def _later(self, what: Callable[..., None], *args: Any) -> None:
        """In order, behind all that was sent before. The receiver runs it, though the sender dies."""
        network = self.network
        if self._held or network.is_cut(self.machine, self.other.machine):
            self._held.append((what, args))
            return
        seconds = network.chance.uniform(*LATENCY_SECONDS) + self.latency_seconds
        if network.slow:
            seconds += network.slow.get((self.machine, self.other.machine), 0.0)
        # Later than what was sent before.
        self._arrives = max(self._arrives + 1e-7, network.loop.time() + seconds)
        if self.is_silent:
            return
        if self.other._gone:
            self._refused()
            return
        context = (self.other.node or network.nobody).context
        network.loop.call_at(self._arrives, what, *args, context=context)

    def _refused(self) -> None:
        """No process has the other end any more: its machine says so, if it is on and can be heard."""
        network, there = self.network, self.other.machine
        if self._gone or there in network.powered_off or network.is_cut(there, self.machine):
            return
        reset = ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")
        context = (self.node or network.nobody).context
        network.loop.call_later(LATENCY_SECONDS[1], self._ended, reset, context=context)

    def release(self) -> None:
        """The link is whole again: what was held leaves."""
        held, self._held = self._held, []
        for what, args in held:
            self._later(what, *args)

    def _own(self, what: Callable[..., None], *args: Any) -> None:
        self.network.loop.call_soon(what, *args, context=(self.node or self.network.nobody).context)

    def _arrive(self, piece: bytes) -> None:
        other = self.other
        self._under_way -= len(piece)
        if self._writes_paused and self._under_way <= self._high // 4 and not self._gone:
            self._writes_paused = False
            self._own(self._protocol.resume_writing)
        if other._gone or other._closing:
            return
        if other._paused or other._kept:
            other._kept.append(piece)
        else:
            other._protocol.data_received(piece)

    def _deliver_kept(self) -> None:
        while self._kept and not self._paused and not self._gone:
            self._protocol.data_received(self._kept.pop(0))
        if self._eof and not self._kept:
            self._lost(None)

    def _ended(self, error: Exception | None) -> None:
        """The other side ended the connection."""
        if self._kept and error is None:
            self._eof = True
        else:
            self._closing = True
            self._lost(error)

    def _lost(self, error: Exception | None) -> None:
        if not self._gone:
            self._gone = True
            self.network.transports.pop(self, None)
            self._protocol.connection_lost(error)


class SimulatedServer:
    """The result of `create_server`."""

    def __init__(self, network: Network, address: tuple[str, int]) -> None:
        self._network = network
        self._address = address
        self.sockets = [self]

    def getsockname(self) -> tuple[str, int]:
        return self._address

    def close(self) -> None:
        self._network.listeners.pop(self._address[1], None)

    async def wait_closed(self) -> None:
        pass


class Network:
    """All connections of a world, and what can go wrong with them."""

    def __init__(self, loop: VirtualLoop, chance: random.Random) -> None:
        self.loop = loop
        self.chance = chance
        self.nobody = Node("nobody")
        self.listeners: dict[int, tuple[Node | None, Callable[[], Any]]] = {}
        self.transports: dict[SimulatedTransport, None] = {}
        self.cuts: dict[tuple[str, str], int] = {}
        """Links on which nothing arrives, from one machine to another, and how many faults cut each."""
        self.slow: dict[tuple[str, str], float] = {}
        """Seconds that bytes take longer from one machine to another."""
        self.powered_off: set[str] = set()
        """Machines that answer nothing."""
        self._homes: dict[int, str] = {}
        """The machine of each port that was ever listened on."""
        self._ports = itertools.count(40_000)
        loop.network = self

    def listen(self, factory: Callable[[], Any], host: Any, port: int) -> SimulatedServer:
        """Takes connections for the node that asks."""
        if port in self.listeners:
            raise OSError(errno.EADDRINUSE, "Address already in use")
        node = NODE.get()
        self.listeners[port] = (node, factory)
        self._homes[port] = node.machine if node is not None else ""
        return SimulatedServer(self, ("127.0.0.1", port))

    async def connect(self, factory: Callable[[], Any], host: str, port: int) -> tuple[Any, Any]:
        await asyncio.sleep(self.chance.uniform(*LATENCY_SECONDS))
        near_node = NODE.get()
        here, there = near_node.machine if near_node is not None else "", self._homes.get(port, "")
        while (  # noqa: ASYNC110 (links are cut and mended by faults)
            there in self.powered_off or self.is_cut(here, there) or self.is_cut(there, here)
        ):
            await asyncio.sleep(CONNECT_AGAIN_SECONDS)  # as TCP does
        listener = self.listeners.get(port)
        if listener is None or (listener[0] is not None and listener[0].is_dead):
            raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
        node, accept = listener
        local, remote = ("127.0.0.1", next(self._ports)), ("127.0.0.1", port)
        near = SimulatedTransport(self, near_node, local, remote)
        far = SimulatedTransport(self, node, remote, local)
        near.other, far.other = far, near
        self.transports |= {near: None, far: None}
        protocol = factory()
        near.set_protocol(protocol)

        def accepted() -> None:
            far.set_protocol(accept())
            far.get_protocol().connection_made(far)

        on_node(node or self.nobody, accepted)
        protocol.connection_made(near)
        return near, protocol

    # Faults.

    def of_node(self, node: Node) -> Iterator[SimulatedTransport]:
        """A node's ends of its connections, in the order in which they were made."""
        ends = [end for end in self.transports if end.node is node]
        yield from sorted(
            ends, key=lambda end: (end.get_extra_info("peername"), end.get_extra_info("sockname"))
        )

    def died(self, node: Node, *, is_off: bool = False) -> None:
        """A process is gone: nothing listens, and the system resets its connections. With `is_off` the
        machine has no power: no peer is notified until it is back.
        """
        if is_off:
            self.powered_off.add(node.machine)
        for port in [port for port, (owner, _) in self.listeners.items() if owner is node]:
            del self.listeners[port]
        for end in list(self.of_node(node)):
            end._gone = end._closing = True
            self.transports.pop(end, None)
            reset = ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")
            if not end.is_silent and not is_off:
                end._later(end.other._ended, reset)

    def some(self, node: Node, share: float = 0.5) -> list[SimulatedTransport]:
        """Some of a node's connections, at least one if there is one."""
        ends = list(self.of_node(node))
        found = [end for end in ends if self.chance.random() < share]
        return found or (ends and [self.chance.choice(ends)]) or []

    def cut(self, node: Node) -> None:
        """Resets some connections."""
        for end in self.some(node):
            end.other.abort()
            end.abort()

    def go_silent(self, node: Node) -> None:
        """Half-open connections: from now on nothing arrives in one direction or both, and no peer is
        notified.
        """
        for end in self.some(node):
            one, other = self.chance.choice(((True, True), (True, False), (False, True)))
            end.is_silent |= one
            end.other.is_silent |= other

    def delay(self, node: Node) -> None:
        """Makes some connections slow, for good."""
        for end in self.some(node):
            end.latency_seconds = self.chance.uniform(0.01, 0.4)
            end.other.latency_seconds = self.chance.uniform(0.01, 0.4)

    # Links between machines.

    def is_cut(self, source: str, target: str) -> bool:
        """True if nothing arrives from one machine at another."""
        return bool(self.cuts) and (source, target) in self.cuts

    def cut_link(self, source: str, target: str) -> None:
        """From now on nothing that one machine sends arrives at another; faults may overlap."""
        self.cuts[source, target] = self.cuts.get((source, target), 0) + 1

    def mend_link(self, source: str, target: str) -> None:
        """Ends one fault of a link. Data sent meanwhile arrives, or finds its connection ended."""
        left = self.cuts[source, target] - 1
        if left:
            self.cuts[source, target] = left
            return
        del self.cuts[source, target]
        for end in self.between(source, target):
            if self.chance.random() < 0.5:
                end.release()
            else:
                end._held.clear()
                end.other.abort()
                end.abort()

    def between(self, source: str, target: str) -> list[SimulatedTransport]:
        """One machine's ends of its connections with another, in the order in which they were made."""
        ends = [end for end in self.transports if end.machine == source and end.other.machine == target]
        return sorted(ends, key=lambda end: (end.get_extra_info("peername"), end.get_extra_info("sockname")))
