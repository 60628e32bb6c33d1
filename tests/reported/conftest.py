"""Brokers for the behaviours that users of message brokers and clients have reported as missing elsewhere."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from orbitmq.testing.local_broker import LocalBroker
from tests.kit.pop import PopWorld
from tests.kit.timer_world import TimerWorld
from tests.kit.transactions import Transacting

AGAINST = "ORBITMQ_REPORTED_AGAINST"
"""Environment variable with the address of a name server: tests that speak to brokers through our client then
run against the broker that is there, Apache's for example, by hand.
"""


@pytest.fixture(scope="session")
def namesrv() -> Iterator[str]:
    """The address of the name server that clients are given."""
    given = os.environ.get(AGAINST)
    if given:
        yield given
        return
    with LocalBroker() as broker:
        yield broker.namesrv


@pytest.fixture
def timers(tmp_path: Path) -> Iterator[TimerWorld]:
    """A store and its timers, on a clock that the test sets."""
    world = TimerWorld(tmp_path / "store")
    yield world
    world.store.close()


@pytest.fixture
def pops(tmp_path: Path) -> Iterator[PopWorld]:
    """A broker with a topic that is popped, on a clock that the test sets."""
    world = PopWorld(tmp_path / "store", {}, 4)
    yield world
    world.close()


@pytest.fixture
def transactions(tmp_path: Path) -> Iterator[Transacting]:
    """A broker with half messages, on a clock that the test sets."""
    world = Transacting(tmp_path / "store")
    yield world
    world.close()
