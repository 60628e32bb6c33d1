"""Units of consume queues, many at a time."""

from __future__ import annotations

import pytest

from orbitmq.store.queue.consume_queue import BLANK_UNIT, UNIT
from orbitmq.store.queue.units_cy import count_confirmed

UNITS = bytearray(
    UNIT.pack(1000, 100, 7) + BLANK_UNIT + UNIT.pack(1100, 50, 7) + UNIT.pack(1150, 50, 7) + BLANK_UNIT
)


@pytest.mark.parametrize(
    ("first", "confirmed", "count"),
    [
        (0, 0, 0),
        (0, 1099, 0),
        (0, 1100, 2),
        (0, 1149, 2),
        (0, 1150, 3),
        (0, 1200, 5),
        (2, 1150, 1),
        (2, 1149, 0),
        (3, 1149, 0),
        (4, 0, 1),
        (5, 1200, 0),
        (9, 1200, 0),
    ],
)
def test_messages_count_as_confirmed_up_to_the_first_that_ends_behind_the_confirm_offset(
    first: int, confirmed: int, count: int
) -> None:
    assert count_confirmed(UNITS, first, confirmed) == count
