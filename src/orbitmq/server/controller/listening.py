"""Looks at the addresses of brokers: whether one is where its heartbeats come from, and listens there yet.

A broker that has ended is told from one that only lost its connection: nothing listens at its address.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket

from orbitmq.net.address import is_loopback, parse_address
from orbitmq.net.errors import BadAddress

CONNECT_TIMEOUT_SECONDS = 1.0


async def is_at(address: str, peer: str) -> bool:
    """True if an address is on the host of a peer, `ip:port`, by its name, or if that is this machine."""
    try:
        (host, port), (own, _) = parse_address(address), parse_address(peer)
    except BadAddress:
        return False
    if host == own or is_loopback(own):
        return True
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_SECONDS):
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError, TimeoutError):
        return False
    return any(_plain(str(one[4][0])) == _plain(own) for one in found)


def _plain(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """An address, and that of IPv4 where it is written as one of IPv6."""
    address = ipaddress.ip_address(host)
    return getattr(address, "ipv4_mapped", None) or address


async def listens(address: str) -> bool:
    """False if connections to an address are refused. Without a refusal, a process may still listen."""
    try:
        host, port = parse_address(address)
    except BadAddress:
        return False
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_SECONDS):
            transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, host, port)
    except ConnectionRefusedError:
        return False
    except (OSError, TimeoutError):
        return True
    transport.abort()
    return True
