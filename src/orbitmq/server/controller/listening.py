"""Tells a broker that has ended from one that only lost its connection: nothing listens at its address."""

from __future__ import annotations

import asyncio

from orbitmq.net.address import parse_address
from orbitmq.net.errors import BadAddress

CONNECT_TIMEOUT_SECONDS = 1.0


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
