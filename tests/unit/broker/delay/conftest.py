"""Brokers with timers, on a clock that the test sets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.kit.timer_world import Open, TimerWorld


@pytest.fixture
def world_of(tmp_path: Path) -> Iterator[Open]:
    with ExitStack() as stack:

        def make(**values: Any) -> TimerWorld:
            world = TimerWorld(tmp_path / "store", **values)
            stack.callback(lambda: world.store.close())
            return world

        yield make
