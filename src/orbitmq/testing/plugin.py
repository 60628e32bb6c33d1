"""Fixtures for pytest, found by it where OrbitMQ is installed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from orbitmq.testing.local_broker import Isolated, LocalBroker
    from orbitmq.testing.local_cluster import LocalCluster
    from orbitmq.testing.redelivery import Redelivering


@pytest.fixture(scope="session")
def rocketmq() -> Iterator[LocalBroker]:
    """A broker with an empty store, one for all tests: `rocketmq.namesrv` is what clients are given."""
    from orbitmq.testing.local_broker import LocalBroker

    with LocalBroker() as broker:
        yield broker


@pytest.fixture
def rocketmq_isolated(rocketmq: LocalBroker) -> Isolated:
    """The same broker with topics and groups of the test's own.

    `rocketmq_isolated.topic("orders")` is a new, empty topic, `rocketmq_isolated.group("billing")` a group
    that has read nothing yet.
    """
    from orbitmq.testing.local_broker import Isolated

    return Isolated(rocketmq)


@pytest.fixture
def rocketmq_redelivering(rocketmq: LocalBroker) -> Iterator[Redelivering]:
    """The same, and every message of its topics is delivered three times, out of order and concurrently."""
    from orbitmq.testing.redelivery import Redelivering

    redelivering = Redelivering(rocketmq)
    try:
        yield redelivering
    finally:
        redelivering.stop()


@pytest.fixture
def rocketmq_cluster() -> Iterator[LocalCluster]:
    """A synchronous master and its slave, as processes that a test may kill: new ones for each test."""
    from orbitmq.testing.local_cluster import LocalCluster

    with LocalCluster(slaves=1, mode="sync-master") as cluster:
        yield cluster
