"""Floods of HTTP/2 on the port of a proxy: they are ended, and other clients go on undisturbed."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest

from orbitmq.proxy import front
from orbitmq.proxy.server import ProxyServer
from orbitmq.proxy.wire import messaging_pb2 as pb
from orbitmq.testing import LocalBroker
from tests.proxy.bare_client import BareClient
from tests.proxy.conftest import proxy_before
from tests.proxy.floods import FLOODS, PREFACE, SETTINGS, frame

MOST_MEMORY_MB = 64
LIMIT_SECONDS = 60


def resident_mb() -> int:
    """Memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) // 256


async def flood(proxy: ProxyServer, name: str, source: str) -> None:
    """Sends until the proxy ends the connection, and reads nothing."""
    host, _, port = proxy.address.rpartition(":")
    _, writer = await asyncio.open_connection(host, int(port), local_addr=(source, 0))
    try:
        with contextlib.suppress(ConnectionError):
            for data in FLOODS[name]():
                writer.write(data)
                await writer.drain()
                await asyncio.sleep(0)
    finally:
        writer.transport.abort()


async def is_refused(proxy: ProxyServer, source: str) -> bool:
    """True if a host gets no new connection."""
    host, _, port = proxy.address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port), local_addr=(source, 0))
    try:
        async with asyncio.timeout(LIMIT_SECONDS):
            writer.write(PREFACE + frame(SETTINGS, 0, 0))
            return await reader.read(1) == b""  # others get the settings of the server
    except ConnectionError:
        return True
    finally:
        writer.transport.abort()


async def test_floods_are_ended_and_others_are_served(
    broker: LocalBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(front, "PAUSE_SECONDS", 3600)
    broker.create_topic("Flooded", 1)
    async with proxy_before(broker) as proxy:
        client = BareClient(proxy.address)
        assert (await client.send("Flooded", b"x")).status.code == pb.OK
        before = resident_mb()
        for number, name in enumerate(FLOODS):
            source = f"127.0.0.{number + 2}"
            flooding = asyncio.create_task(flood(proxy, name, source))
            async with asyncio.timeout(LIMIT_SECONDS):
                while not flooding.done():
                    assert (await client.send("Flooded", b"x")).status.code == pb.OK, name
                await flooding
        # The gRPC server ends some of them first, as far as it knows floods.
        assert len(FLOODS) - 3 <= proxy.front.floods <= len(FLOODS)
        assert resident_mb() - before < MOST_MEMORY_MB
        assert await is_refused(proxy, source)
        assert not await is_refused(proxy, "127.0.0.1")
        assert (await client.send("Flooded", b"x")).status.code == pb.OK
        await client.close()
