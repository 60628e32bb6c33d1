"""The wheel of timers: a slot for each time of two weeks, found by its time and by no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq.store.errors import StoreCorrupt
from orbitmq.store.files import RealDisk
from orbitmq.store.timer.wheel import EMPTY, SLOTS, WHEEL_BYTES, Slot, TimerWheel
from tests.kit.store import NOW

PRECISION_MS = 1_000
TIME = NOW // PRECISION_MS * PRECISION_MS


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "timerwheel"


@pytest.fixture
def wheel(path: Path) -> TimerWheel:
    return TimerWheel.load(RealDisk(), path, PRECISION_MS)


def test_a_wheel_without_slots_is_empty_and_has_no_file(wheel: TimerWheel, path: Path) -> None:
    assert wheel.get(TIME) == EMPTY
    assert list(wheel.between(TIME, TIME + wheel.span_ms)) == []
    assert wheel.times() == []
    assert not wheel.exists
    assert not path.exists()


def test_a_slot_is_that_of_its_whole_second(wheel: TimerWheel) -> None:
    wheel.put(TIME + 999, Slot(10, 20, 3))
    assert wheel.get(TIME) == wheel.get(TIME + 999) == Slot(10, 20, 3)
    assert wheel.get(TIME + 1_000) == wheel.get(TIME - 1) == EMPTY


def test_a_slot_of_another_turn_counts_as_empty(wheel: TimerWheel) -> None:
    wheel.put(TIME, Slot(10, 20, 3))
    assert wheel.get(TIME + wheel.span_ms) == EMPTY
    wheel.put(TIME + wheel.span_ms, Slot(30, 30, 1))
    assert wheel.get(TIME) == EMPTY
    assert wheel.get(TIME + wheel.span_ms) == Slot(30, 30, 1)


def test_slots_between_two_times_come_in_order_also_over_the_end_of_the_file(wheel: TimerWheel) -> None:
    last = (TIME // wheel.span_ms + 1) * wheel.span_ms - 1_000
    for after_s in (2, 0, 1, -3):
        wheel.put(last + after_s * 1_000, Slot(after_s + 5, after_s + 5, 1))
    found = [(time - last, slot.first) for time, slot in wheel.between(last - 3_000, last + 2_000)]
    assert found == [(-3_000, 2), (0, 5), (1_000, 6)]


def test_a_look_goes_no_further_than_a_turn(wheel: TimerWheel) -> None:
    wheel.put(TIME, Slot(1, 1, 1))
    wheel.put(TIME + wheel.span_ms + 5_000, Slot(2, 2, 1))
    assert [time for time, _ in wheel.between(TIME, TIME + 3 * wheel.span_ms)] == [TIME]


def test_the_next_time_is_that_of_the_first_slot_or_the_end(wheel: TimerWheel) -> None:
    wheel.put(TIME + 5_000, Slot(1, 1, 1))
    assert wheel.next_time(TIME, TIME + 60_000) == TIME + 5_000
    assert wheel.next_time(TIME + 6_000, TIME + 60_000) == TIME + 60_000
    assert wheel.next_time(TIME, TIME + 5_000) == TIME + 5_000


def test_a_search_for_the_next_time_looks_at_a_part_of_the_wheel_only(wheel: TimerWheel) -> None:
    far = TIME + wheel.span_ms // 2
    wheel.put(far, Slot(1, 1, 1))
    reached, steps = TIME, 0
    while reached < far:
        before, reached = reached, wheel.next_time(reached, far + 1_000)
        assert before < reached <= far
        steps += 1
    assert 10 < steps < SLOTS / 1_000


def test_slots_outlive_the_process(wheel: TimerWheel, path: Path) -> None:
    wheel.put(TIME, Slot(10, 20, 3))
    wheel.put(TIME - 7_000, Slot(1, 2, 2))
    assert wheel.is_unsynced
    wheel.sync()
    assert not wheel.is_unsynced
    wheel.close()
    again = TimerWheel.load(RealDisk(), path, PRECISION_MS)
    assert path.stat().st_size == WHEEL_BYTES
    assert again.get(TIME) == Slot(10, 20, 3)
    assert again.times() == [TIME - 7_000, TIME]
    again.close()


def test_a_refilled_wheel_holds_the_given_slots_and_no_other(wheel: TimerWheel) -> None:
    wheel.put(TIME, Slot(10, 20, 3))
    wheel.refill({TIME + 1_000: Slot(5, 5, 1)})
    assert wheel.times() == [TIME + 1_000]
    assert wheel.get(TIME + 1_000) == Slot(5, 5, 1)
    assert wheel.get(TIME) == EMPTY


@pytest.mark.parametrize("size", [1, WHEEL_BYTES - 32, WHEEL_BYTES + 32])
def test_a_file_of_another_length_is_refused(path: Path, size: int) -> None:
    with path.open("wb") as file:
        file.truncate(size)
    with pytest.raises(StoreCorrupt, match=f"has {size} bytes instead of {WHEEL_BYTES}"):
        TimerWheel.load(RealDisk(), path, PRECISION_MS)


def test_an_empty_file_is_a_wheel_without_slots(path: Path) -> None:
    path.touch()
    assert not TimerWheel.load(RealDisk(), path, PRECISION_MS).exists
