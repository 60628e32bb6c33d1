"""A broker with a proxy before it, and a bare gRPC client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from orbitmq.options import Layer
from orbitmq.proxy.options import PROXY_TABLE
from orbitmq.proxy.server import ProxyServer
from orbitmq.testing import LocalBroker


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker(
        enablePropertyFilter=True, transactionTimeOut=500, transactionCheckInterval=500
    ) as started:
        yield started


@asynccontextmanager
async def proxy_before(broker: LocalBroker, **options: object) -> AsyncIterator[ProxyServer]:
    """A proxy of this process, on a free port if `grpcServerPort` names none."""
    values = {"namesrvAddr": broker.namesrv, "grpcShutdownTimeSeconds": 0, "remotingListenPort": 0, **options}
    layer = Layer("the test", {name: str(value) for name, value in values.items()})
    server = ProxyServer(PROXY_TABLE.load([layer]), port=None if "grpcServerPort" in options else 0)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@pytest.fixture
async def proxy(broker: LocalBroker) -> AsyncIterator[ProxyServer]:
    async with proxy_before(broker) as started:
        yield started
