"""Relays on the loopback between the nodes of a cluster and their clients, so that links can be cut, be slow,
lose packets, or break connections.

Every node listens on 127.0.0.1 and is known to all others by the same port of 127.0.0.2, where a relay takes
its connections. The process at the other end of a connection says who it is from, so each pair of parties
has a link of its own, in both directions.
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from orbitmq.net.accepting import stop_accepting
from orbitmq.testing.prove.packet_loss import lose_packets

ADVERTISED = "127.0.0.2"
"""Address by which the nodes of a relayed cluster know each other, and clients know them."""
_REAL = "127.0.0.1"
_CHUNK_BYTES = 1 << 16
CLIENTS = "clients"
"""The party of whatever process is no node."""

Link = tuple[str, str]
"""The way of bytes from one party to another."""


class Links:
    """All links of a cluster. `pids` gives the process of every node at this moment, by its name.

    A cut link loses nothing and closes nothing: bytes wait, as in a network that drops all packets and is
    mended before connections time out. On a lossy link the kernel drops packets before TCP sees them, so
    that they are sent again, later and later.
    """

    def __init__(self, pids: Callable[[], Mapping[str, int]]) -> None:
        self._pids = pids
        # Chance of its own: no seed repeats the pieces in which bytes arrive.
        self._chance = random.Random()
        self._servers: dict[str, list[asyncio.Server]] = {}
        self._cut: set[Link] = set()
        self._slow: dict[Link, float] = {}
        self._lossy: dict[Link, float] = {}
        self._breaking: dict[Link, float] = {}
        self._arriving: set[tuple[Link, socket.socket]] = set()
        """The sockets at which the relays receive the bytes of a link."""
        self._changed = asyncio.Event()
        self._carrying: set[asyncio.Task[None]] = set()

    async def open(self, name: str, ports: Iterable[int]) -> None:
        """Takes connections for a node. A port that does not answer there is a closed one here."""
        if name in self._servers:
            return
        self._servers[name] = [
            await asyncio.start_server(self._serve_at(name, port), ADVERTISED, port) for port in ports
        ]

    async def close_node(self, name: str) -> None:
        """Refuses connections to a node, as the machine of a dead process does."""
        for server in self._servers.pop(name, []):
            await stop_accepting(server)

    def cut(self, *links: Link) -> None:
        """Bytes on these links wait until they are mended."""
        self._cut |= set(links)

    def slow_down(self, seconds: float, *links: Link) -> None:
        """Each piece on these links takes that long."""
        self._slow |= dict.fromkeys(links, seconds)

    def lose(self, share: float, *links: Link) -> None:
        """That share of the packets on these links is lost."""
        self._lossy |= dict.fromkeys(links, share)
        for link, arriving in self._arriving:
            if link in self._lossy:
                lose_packets(arriving, share)

    def break_connections(self, share: float, *links: Link) -> None:
        """With that chance a piece on these links breaks off in its middle, and its connection ends there."""
        self._breaking |= dict.fromkeys(links, share)

    def mend(self) -> None:
        """All links carry again what waits in them."""
        self._cut.clear()
        self._slow.clear()
        self._breaking.clear()
        for link, arriving in self._arriving:
            if link in self._lossy:
                lose_packets(arriving, 0.0)
        self._lossy.clear()
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def close(self) -> None:
        for name in list(self._servers):
            await self.close_node(name)
        for task in self._carrying:
            task.cancel()
        await asyncio.gather(*self._carrying, return_exceptions=True)

    def _serve_at(self, name: str, port: int) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], None]:
        def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.ensure_future(self._serve(name, port, reader, writer))
            self._carrying.add(task)
            task.add_done_callback(self._carrying.discard)

        return serve

    async def _serve(
        self, name: str, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        onward: asyncio.StreamWriter | None = None
        ways: list[asyncio.Task[None]] = []
        arriving: set[tuple[Link, socket.socket]] = set()
        try:
            caller = await asyncio.to_thread(
                self._caller, writer.get_extra_info("peername"), writer.get_extra_info("sockname")
            )
            # A handshake needs both ways.
            await self._carried((caller, name))
            await self._carried((name, caller))
            with suppress(OSError):
                there, onward = await asyncio.open_connection(_REAL, port)
                arriving = {
                    ((caller, name), writer.get_extra_info("socket")),
                    ((name, caller), onward.get_extra_info("socket")),
                }
                self._arriving |= arriving
                for link, at in arriving:
                    if share := self._lossy.get(link):
                        lose_packets(at, share)
                ways = [
                    asyncio.ensure_future(self._carry(reader, onward, (caller, name))),
                    asyncio.ensure_future(self._carry(there, writer, (name, caller))),
                ]
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._arriving -= arriving
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            for end in (writer, onward):
                if end is not None:
                    end.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, link: Link) -> None:
        with suppress(OSError):
            while data := await reader.read(_CHUNK_BYTES):
                await self._carried(link)
                if self._chance.random() < self._breaking.get(link, 0.0):
                    writer.write(data[: self._chance.randrange(len(data))])
                    return
                writer.write(data)
                await writer.drain()
        # The end of a connection does not pass a cut link either.
        await self._carried(link)

    async def _carried(self, link: Link) -> None:
        while link in self._cut:
            await self._changed.wait()
        if seconds := self._slow.get(link):
            await asyncio.sleep(seconds)

    def _caller(self, its: tuple[str, int], ours: tuple[str, int]) -> str:
        """The party whose process has the other end of a connection."""
        inode = _inode_of(its, ours)
        for name, pid in self._pids().items():
            if inode and pid and inode in _sockets_of(pid):
                return name
        return CLIENTS


def _inode_of(local: tuple[str, int], remote: tuple[str, int]) -> str:
    """The inode of a connected socket, or nothing. The port alone is not enough: connections to several
    addresses can share it.
    """
    ends = [_as_the_kernel_writes(local), _as_the_kernel_writes(remote)]
    for row in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        columns = row.split()
        if columns[1:3] == ends and columns[9] != "0":
            return columns[9]
    return ""


def _as_the_kernel_writes(address: tuple[str, int]) -> str:
    host, port = address
    return f"{int.from_bytes(socket.inet_aton(host), sys.byteorder):08X}:{port:04X}"


def _sockets_of(pid: int) -> set[str]:
    """The inodes of a process's sockets."""
    found = set()
    folder = f"/proc/{pid}/fd"
    with suppress(OSError):
        for name in os.listdir(folder):
            with suppress(OSError):
                target = os.readlink(f"{folder}/{name}")
                if target.startswith("socket:["):
                    found.add(target[8:-1])
    return found
