"""Timers of a log that was cut: what is in it waits or was delivered, what is not never was."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from orbitmq.broker.delay.timer import Timers
from orbitmq.broker.stats.counters import BrokerStats
from orbitmq.handling.dirty_tables import DirtyTables
from tests.fault.recorded_broker import with_small_wheel
from tests.kit.timer_world import NOW, TimerWorld


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TimerWorld]:
    with_small_wheel(monkeypatch)
    made = TimerWorld(tmp_path / "store")
    yield made
    made.store.close()


def cut(world: TimerWorld, end: int) -> None:
    """Cuts the log and has timers begin anew, as a broker does that becomes master afterwards."""
    assert world.store.truncation.run(end, world.now) == end
    world.timer = Timers(world.settings, world.store, DirtyTables(), BrokerStats("C", world.now), world.now)
    world.timer.start(["T"])


@pytest.mark.parametrize("flushed", [False, True])
def test_a_delivery_that_was_cut_off_happens_again_and_others_do_not(
    world: TimerWorld, flushed: bool
) -> None:
    for n in range(5):
        world.send(f"m{n}", TIMER_DELIVER_MS=NOW + 5_000 + n * 2_000)
    world.run(NOW + 10_500)
    assert world.bodies() == ["m0", "m1", "m2"]
    second = world.records()[1]
    if flushed:
        world.flush()
    world.run(NOW + 12_500)
    if flushed:
        world.flush()
    cut(world, second.physical_offset + second.size)
    assert world.bodies() == ["m0", "m1"]
    world.run(NOW + 30_000)
    assert world.bodies() == ["m0", "m1", "m2", "m3", "m4"]


def test_a_waiting_message_that_was_cut_off_never_comes(world: TimerWorld) -> None:
    world.send("kept", TIMER_DELIVER_MS=NOW + 5_000)
    world.run(NOW + 1_000)
    end = world.store.max_physical
    world.send("gone", TIMER_DELIVER_MS=NOW + 6_000)
    world.run(NOW + 2_000)
    cut(world, end)
    world.send("later", TIMER_DELIVER_MS=NOW + 7_000)
    world.run(NOW + 20_000)
    assert world.bodies() == ["kept", "later"]
