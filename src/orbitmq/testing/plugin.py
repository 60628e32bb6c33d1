"""Fixtures for pytest, found by it where OrbitMQ is installed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from orbitmq.testing.local_broker import LocalBroker


@pytest.fixture(scope="session")
def rocketmq() -> Iterator[LocalBroker]:
    """A broker with an empty store, one for all tests: `rocketmq.namesrv` is what clients are given."""
    from orbitmq.testing.local_broker import LocalBroker

    with LocalBroker() as broker:
        yield broker
