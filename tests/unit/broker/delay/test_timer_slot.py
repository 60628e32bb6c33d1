from __future__ import annotations

import pytest

from orbitmq.broker.delay.timer_slot import OpenSlot
from orbitmq.store.timer.log import DEFAULT, NO_UNIT, TimerUnit

SLOT = 1_700_000_000_000
SECOND = 1_000


def unit(due_ms: int, slot_ms: int = SLOT) -> TimerUnit:
    return TimerUnit(NO_UNIT, DEFAULT, slot_ms - 5_000, 5_000, 0, 100, 0, due_ms)


@pytest.fixture
def slot() -> OpenSlot:
    return OpenSlot(SLOT, SECOND)


def test_a_unit_is_due_to_the_millisecond_if_it_says_so(slot: OpenSlot) -> None:
    assert slot.due_of(unit(SLOT + 250)) == SLOT + 250


def test_a_unit_of_apaches_broker_is_due_at_the_end_of_its_slot(slot: OpenSlot) -> None:
    assert slot.due_of(unit(0)) == SLOT + SECOND


def test_a_due_time_before_the_slot_counts_as_its_end(slot: OpenSlot) -> None:
    assert slot.due_of(unit(SLOT - 1)) == SLOT + SECOND


def test_a_unit_that_was_written_with_wider_slots_keeps_the_slot_open() -> None:
    narrow = OpenSlot(SLOT, 100)
    assert narrow.due_of(unit(0)) == SLOT + SECOND
    assert narrow.due_of(unit(SLOT + 30_000)) == SLOT + 30_000


def test_units_come_by_due_time_and_then_in_the_order_of_their_arrival(slot: OpenSlot) -> None:
    for due, position in ((SLOT + 9, 1), (SLOT + 5, 2), (SLOT + 9, 3), (SLOT + 5, 4)):
        slot.add(due, position)
    assert slot.take(SLOT + 4, 10) == []
    assert slot.take(SLOT + 9, 10) == [(SLOT + 5, 2), (SLOT + 5, 4), (SLOT + 9, 1), (SLOT + 9, 3)]
    assert slot.is_empty


def test_a_limit_leaves_the_rest_in_order(slot: OpenSlot) -> None:
    for position in range(4):
        slot.add(SLOT + 5, position)
    assert slot.take(SLOT + 5, 3) == [(SLOT + 5, position) for position in range(3)]
    assert slot.first_due_ms == SLOT + 5
    assert slot.take(SLOT + 5, 3) == [(SLOT + 5, 3)]
    assert slot.first_due_ms is None


def test_a_unit_that_comes_while_its_millisecond_is_delivered_is_delivered_too(slot: OpenSlot) -> None:
    slot.add(SLOT + 5, 1)
    slot.add(SLOT + 5, 2)
    assert slot.take(SLOT + 5, 1) == [(SLOT + 5, 1)]
    slot.add(SLOT + 5, 3)
    assert not slot.is_empty
    assert slot.take(SLOT + 5, 10) == [(SLOT + 5, 2), (SLOT + 5, 3)]
    assert slot.is_empty
