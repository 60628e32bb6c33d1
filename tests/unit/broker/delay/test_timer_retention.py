"""A timer outlives the commit log that it was stored in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orbitmq.broker.delay.timer_due import window_slots
from tests.kit.timer_world import NOW, TimerWorld

EXPIRED = 10**15
"""A time at which every file is older than it is kept for."""


def world_with(root: Path, **values: Any) -> Iterator[TimerWorld]:
    world = TimerWorld(
        root / "store",
        mapped_file_size_commit_log=32 << 10,
        max_message_size=16 << 10,
        clean_resource_interval=1,
        delete_commit_log_files_interval=0,
        **values,
    )
    yield world
    world.store.close()


@pytest.fixture
def rolling(tmp_path: Path) -> Iterator[TimerWorld]:
    yield from world_with(tmp_path, timer_roll_window_slot=10)


@pytest.fixture
def holding(tmp_path: Path) -> Iterator[TimerWorld]:
    yield from world_with(tmp_path)


def second(world: TimerWorld) -> None:
    """A second with other messages, at the end of which everything old is deleted that may be."""
    for number in range(20):
        world.send("x" * 1000, topic="U", NUMBER=number)
    world.run(world.now + 1000, step_ms=500)
    world.flush()
    world.timer.find_oldest()
    world.store.retention.keep_from = world.timer.oldest_waiting()
    world.store.retention.ask()
    (retention,) = (task for task in world.store.periodic_tasks() if task.name == "retention")
    retention.run(world.now)  # a round has to have seen that a segment is full
    retention.run(EXPIRED)


def test_it_is_stored_again_before_its_segment_goes(rolling: TimerWorld) -> None:
    world = rolling
    world.send("m", TIMER_DELAY_SEC=35)
    gone = 0
    while world.now < NOW + 34_000:
        second(world)
        gone = max(gone, world.store.min_physical)
    assert gone > 400_000, "the log was deleted up to close behind the present"
    assert world.bodies() == []
    second(world)
    assert world.bodies() == ["m"]


def test_its_segment_stays_where_it_is_not_stored_again(holding: TimerWorld) -> None:
    world = holding
    for _ in range(5):
        second(world)
    kept = world.store.max_physical
    world.send("m", TIMER_DELAY_SEC=20)
    for _ in range(19):
        second(world)
    assert 0 < world.store.min_physical <= kept
    second(world)
    assert world.bodies() == ["m"]
    second(world)
    assert world.store.min_physical > kept


def test_a_message_that_is_not_in_the_wheel_yet_holds_its_segment(holding: TimerWorld) -> None:
    world = holding
    world.settings.timer_stop_enqueue = True
    kept = world.store.max_physical
    world.send("m", TIMER_DELAY_SEC=3)
    for _ in range(6):
        second(world)
    assert world.store.min_physical <= kept
    world.settings.timer_stop_enqueue = False
    world.run()
    assert world.bodies() == ["m"]


@pytest.mark.parametrize(
    ("configured", "kept_hours", "want"),
    [
        (172_800, 72, 129_600),
        (172_800, 96, 172_800),
        (172_800, 1, 3600),
        (172_800, 0, 3600),
        (100, 72, 100),
        (1, 1000, 604_740),
        (700_000, 1000, 604_740),
    ],
)
def test_nothing_waits_for_longer_than_half_of_what_the_log_is_kept_for(
    configured: int, kept_hours: int, want: int
) -> None:
    assert window_slots(configured, 1000, kept_hours) == want
