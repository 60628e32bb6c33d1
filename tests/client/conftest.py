from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

import pytest

from orbitmq import Producer


class Cluster(Protocol):
    """The common part of brokers of both kinds."""

    name: str
    namesrv: str
    broker: str


@pytest.fixture
async def producer(cluster: Cluster) -> AsyncIterator[Producer]:
    async with Producer("client-tests", cluster.namesrv) as started:
        yield started
