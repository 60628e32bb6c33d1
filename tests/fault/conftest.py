"""Brokers that are killed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orbitmq.testing import LocalBroker

OwnProcess = Callable[..., LocalBroker]


@pytest.fixture
def own_process(tmp_path: Path) -> Iterator[OwnProcess]:
    """Makes brokers of a process of their own over one folder; none is left at the end."""
    made: list[LocalBroker] = []

    def make(**properties: object) -> LocalBroker:
        made.append(LocalBroker(tmp_path / "store", own_process=True, patience_seconds=120, **properties))
        return made[-1]

    yield make
    for broker in made:
        broker.kill()
