"""Calls through a pool keep to their time, whatever holds them up."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest

from orbitmq.net.errors import CallTimeout, ConnectFailed, why_not_connected
from orbitmq.net.pool import ConnectionPool
from orbitmq.protocol.requests.admin import GetBrokerRuntimeInfo
from orbitmq.protocol.requests.send import SendMessageV2


@pytest.fixture
async def deaf() -> AsyncIterator[str]:
    """The address of a peer that accepts connections and reads nothing."""
    accepted: list[asyncio.Transport] = []

    class Deaf(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            assert isinstance(transport, asyncio.Transport)
            transport.pause_reading()
            accepted.append(transport)

    server = await asyncio.get_running_loop().create_server(Deaf, "127.0.0.1", 0)
    yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()
    for transport in accepted:
        transport.abort()


def large() -> SendMessageV2:
    return SendMessageV2("g", "T", "", 4, 0, 0, 0, 0, "", 0, False, None, False, None, bytes(8 << 20))


async def test_a_peer_that_takes_nothing_holds_nobody_up_for_longer_than_asked(
    pool: ConnectionPool, deaf: str
) -> None:
    await pool.send_oneway(deaf, large())
    await asyncio.sleep(0)
    async with asyncio.timeout(120):
        with pytest.raises(CallTimeout):
            await pool.call(deaf, GetBrokerRuntimeInfo(), 50)
        with pytest.raises(CallTimeout):
            await pool.send_oneway(deaf, GetBrokerRuntimeInfo(), 50)


async def test_it_is_connected_anew_once_it_was_silent_for_long(
    pool: ConnectionPool, deaf: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orbitmq.net.pool.SILENT_SECONDS", 0.01)
    await pool.send_oneway(deaf, large())
    await asyncio.sleep(0)
    first = await pool.connection(deaf)
    with pytest.raises(CallTimeout):
        await pool.send_oneway(deaf, GetBrokerRuntimeInfo(), 50)
    await first.wait_closed()
    assert await pool.connection(deaf) is not first


def test_a_host_that_is_not_known_is_said_in_words() -> None:
    error = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    assert why_not_connected(error) == "the host is not known: Name or service not known"


async def test_connecting_takes_no_longer_than_the_call_may(
    pool: ConnectionPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nobody_answers(*_: object, **__: object) -> None:
        await asyncio.sleep(60)

    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", nobody_answers)
    async with asyncio.timeout(120):
        with pytest.raises(ConnectFailed, match="no answer within 50 ms"):
            await pool.call("127.0.0.1:1", GetBrokerRuntimeInfo(), 50)
