"""A slave's look at its master's tables."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from orbitmq.net.pool import ConnectionPool
from orbitmq.server.ha.metadata import MetadataSync
from tests.kit.running_standalone import running


async def test_it_ends_though_news_come_at_the_same_moment(tmp_path: Path) -> None:
    async with running(tmp_path) as here:
        sync = MetadataSync(here.broker.broker, ConnectionPool(), lambda: 0, lambda now: None)
        task = asyncio.create_task(sync.run())
        await asyncio.sleep(0)  # it waits for a master
        sync.look_soon()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            async with asyncio.timeout(60):
                await task
