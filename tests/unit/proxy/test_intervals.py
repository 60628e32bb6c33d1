"""The proxy's work at intervals."""

from __future__ import annotations

import asyncio

import pytest

from orbitmq.proxy.options import PROXY_TABLE
from orbitmq.proxy.server import ProxyServer


async def test_work_at_intervals_outlives_an_error_of_any_kind(caplog: pytest.LogCaptureFixture) -> None:
    """After one that was not foreseen, no message was renewed any more, or no certificate read."""
    server, rounds, again = ProxyServer(PROXY_TABLE.load([])), 0, asyncio.Event()

    async def work() -> None:
        nonlocal rounds
        rounds += 1
        if rounds == 1:
            raise KeyError("unforeseen")
        again.set()

    server._every(0.001, work, "renew messages")
    try:
        async with asyncio.timeout(5):
            await again.wait()
    finally:
        await server._background.stop()
    assert "renew messages failed" in caplog.text
