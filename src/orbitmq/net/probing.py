"""A look at an address: something listens there, nothing does, or that cannot be told."""

from __future__ import annotations

import asyncio
import socket
from enum import Enum, auto

from orbitmq.net.address import parse_address

PROBE_SECONDS = 3.0
REFUSALS = 3
"""A host refuses for a moment while a process restarts, or its queue of connections is full."""
REFUSAL_SECONDS = 0.3
"""Pause between two tries."""


class Reach(Enum):
    """The outcome of a look."""

    LISTENS = auto()
    """A connection was made: to a paused process as well."""
    REFUSED = auto()
    """Every address of the host refused, each time."""
    UNKNOWN = auto()
    """No answer in time, no route, or a name without an address: others may reach a process there."""


async def probe(address: str) -> Reach:
    """Tries `host:port` several times, unless the first try is not refused. Raises BadAddress."""
    host, port = parse_address(address)
    for number in range(REFUSALS):
        if number:
            await asyncio.sleep(REFUSAL_SECONDS)
        found = await _try(host, port)
        if found is not Reach.REFUSED:
            return found
    return Reach.REFUSED


async def _try(host: str, port: int) -> Reach:
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            infos = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, TimeoutError):
        return Reach.UNKNOWN
    outcomes = [await _connect(info) for info in infos]
    if Reach.LISTENS in outcomes:
        return Reach.LISTENS
    return Reach.UNKNOWN if Reach.UNKNOWN in outcomes or not outcomes else Reach.REFUSED


async def _connect(info: tuple[int, int, int, str, tuple[object, ...]]) -> Reach:
    family, kind, protocol, _, address = info
    with socket.socket(family, kind, protocol) as trying:
        trying.setblocking(False)
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                await asyncio.get_running_loop().sock_connect(trying, address)
        except ConnectionRefusedError:
            return Reach.REFUSED
        except (OSError, TimeoutError):
            return Reach.UNKNOWN
    return Reach.LISTENS
