"""Peers on real sockets, and connections to them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from orbitmq.net.pool import ConnectionPool
from tests.kit.fake_broker import FakeBroker


@pytest.fixture
async def broker() -> AsyncIterator[FakeBroker]:
    fake = await FakeBroker().start()
    yield fake
    await fake.stop()


@pytest.fixture
async def other_broker() -> AsyncIterator[FakeBroker]:
    fake = await FakeBroker("broker-b").start()
    yield fake
    await fake.stop()


@pytest.fixture
async def pool() -> AsyncIterator[ConnectionPool]:
    made = ConnectionPool()
    yield made
    await made.close()
