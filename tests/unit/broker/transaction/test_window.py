"""Memory of half messages and op records, against a plain dictionary."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from orbitmq.broker.transaction.window import HalfState, HalfWindow, OpWindow

STATES = st.sampled_from(list(HalfState))


@given(
    start=st.integers(0, 50),
    changes=st.lists(st.tuples(st.integers(0, 80), STATES), max_size=40),
    end=st.integers(50, 90),
)
def test_a_window_knows_what_a_dictionary_knows(
    start: int, changes: list[tuple[int, HalfState]], end: int
) -> None:
    window = HalfWindow(start)
    known: dict[int, HalfState] = {}
    for offset, state in changes:
        window[offset] = state
        if offset >= start:
            known[offset] = state

    def state_of(offset: int) -> HalfState:
        return known.get(offset, HalfState.OPEN if offset >= start else HalfState.ENDED)

    assert [window[offset] for offset in range(100)] == [state_of(offset) for offset in range(100)]
    open_ones = [offset for offset in range(start, end) if state_of(offset) is HalfState.OPEN]
    found = []
    at = 0
    while (offset := window.next_open(at, end)) is not None:
        found.append(offset)
        at = offset + 1
    assert found == open_ones
    moved = window.advance(end)
    assert moved == (open_ones[0] if open_ones else max(start, end))
    assert [window[offset] for offset in range(moved, 100)] == [
        state_of(offset) for offset in range(moved, 100)
    ]
    assert window[moved - 1] is HalfState.ENDED


def test_a_window_is_a_byte_for_each() -> None:
    window = HalfWindow(1_000_000)
    window[1_999_999] = HalfState.COMMITTED
    assert len(window) == 1_000_000
    assert window.next_open(1_999_999, 2_000_000) is None
    assert window.next_open(1_999_999, 2_000_001) == 2_000_000


def test_op_records_are_passed_once_all_they_name_is() -> None:
    ops = OpWindow(5)
    ops.add(5, 10)
    ops.add(7, 3)  # 6 names nothing that matters
    ops.add(8, 12)
    ops.add(6, 99)  # told already
    assert (ops.start, ops.end) == (5, 9)
    assert ops.advance(10) == 5
    assert ops.advance(11) == 8
    assert ops.advance(12) == 8
    assert ops.advance(13) == 9
    assert ops.end == 9
