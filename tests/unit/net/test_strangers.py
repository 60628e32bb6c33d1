"""Wrong ports: what a caller is told who meets TLS, HTTP, or nothing at all."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Awaitable, Callable

import pytest

from orbitmq.net.errors import NetError
from orbitmq.net.pool import ConnectionPool
from orbitmq.protocol.requests.route import GetBrokerClusterInfo

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def told(serve: Serve, context: ssl.SSLContext | None = None) -> str:
    """The error of a call to a server that does as `serve` does."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    pool = ConnectionPool(ssl=context, connect_timeout_ms=60_000)
    try:
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(NetError) as error:
            await pool.call(address, GetBrokerClusterInfo(), 60_000)
        return str(error.value)
    finally:
        await pool.close()
        server.close()
        await server.wait_closed()


def answering(data: bytes) -> Serve:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(data)
        writer.close()

    return serve


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"\x15\x03\x01\x00\x02\x02\x46", "it speaks TLS, .*--tls"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "it speaks HTTP"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "it speaks SSH"),
        (b"\xff" * 40, "malformed frame"),
        (b"", "before it sent anything: its port may take TLS alone"),
    ],
)
async def test_another_protocol_is_named(data: bytes, says: str) -> None:
    text = await told(answering(data))
    assert re.search(says, text), text


async def test_a_plain_port_met_with_tls_is_named() -> None:
    context = ssl.create_default_context()
    assert "the port may take plain connections alone" in await told(answering(b"\0\0\0\x10" * 8), context)
    assert "the port may take plain connections alone" in await told(answering(b""), context)
