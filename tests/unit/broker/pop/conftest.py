"""Brokers with a topic that is popped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.kit.pop import PopWorld


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., PopWorld]]:
    """Makes such brokers, all on one folder: one at a time, or one after another."""
    made: list[PopWorld] = []

    def new(queues: int = 4, **properties: object) -> PopWorld:
        made.append(PopWorld(tmp_path / "store", properties, queues))
        return made[-1]

    yield new
    for world in made:
        world.close()
