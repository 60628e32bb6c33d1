from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from orbitmq import Admin
from orbitmq.testing import LocalBroker
from tests.kit.waiting_messages import RECALLING, plant_waiting


@pytest.fixture(scope="session")
def waiting_broker() -> Iterator[tuple[LocalBroker, list[str]]]:
    """A broker with messages that wait, and the unique ids of its two timers."""
    with LocalBroker(flushCommitLogThoroughInterval=100, **RECALLING) as running:
        running.create_topic("later", 2)
        yield running, asyncio.run(plant_waiting(running.namesrv, "later"))


@pytest.fixture
async def admin(waiting_broker: tuple[LocalBroker, list[str]]) -> AsyncIterator[Admin]:
    async with Admin(waiting_broker[0].namesrv) as connected:
        yield connected
