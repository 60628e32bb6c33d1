from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orbitmq.spark.errors import BadOption, DataLost
from orbitmq.spark.read.options import ReadOptions
from orbitmq.spark.read.planning import OffsetRange, Queue, assigned, named, ranges_to_read, split

Q0 = Queue("orders", "broker-a", 0, "h:1")
Q1 = Queue("orders", "broker-a", 1, "h:1")


def plain(ranges: list[OffsetRange]) -> list[tuple[int, int, int]]:
    return [(r.queue.queue_id, r.from_queue_offset, r.to_queue_offset) for r in ranges]


def test_everything_that_is_there_without_empty_queues() -> None:
    bounds = {Q1: (3, 3), Q0: (5, 9)}
    assert plain(ranges_to_read(bounds, {}, {}, strict=True)) == [(0, 5, 9)]


def test_offsets_may_be_given_per_queue() -> None:
    bounds = {Q0: (0, 10), Q1: (0, 10)}
    starting = {Q0: 4, Q1: -2}
    ending = {Q0: 6, Q1: -1}
    assert plain(ranges_to_read(bounds, starting, ending, strict=True)) == [(0, 4, 6), (1, 0, 10)]


def test_latest_as_a_start_leaves_nothing() -> None:
    assert ranges_to_read({Q0: (0, 10)}, {Q0: -1}, {}, strict=True) == []


def test_queues_that_are_unknown_or_left_out() -> None:
    with pytest.raises(BadOption, match="startingOffsets names queues that do not exist"):
        named([Q0, Q1], {"orders": {"broker-a|0": 1, "broker-a|1": 1, "broker-b|0": 1}}, "startingOffsets")
    with pytest.raises(BadOption, match=r"leaves queues out: orders broker-a\|1"):
        named([Q0, Q1], {"orders": {"broker-a|0": 1}}, "startingOffsets")


def test_a_queue_may_be_named_by_its_number_where_one_broker_has_the_topic() -> None:
    assert named([Q0, Q1], {"orders": {"0": 5, "broker-a|1": 6}}, "startingOffsets") == {Q0: 5, Q1: 6}
    other = Queue("orders", "broker-b", 0, "h:2")
    with pytest.raises(BadOption, match=r"name one as in broker-a\|0"):
        named([Q0, other], {"orders": {"0": 5, "broker-b|0": 6}}, "startingOffsets")


def test_assigned_queues() -> None:
    other = Queue("orders", "broker-b", 0, "h:2")
    assert assigned([Q0, Q1, other], {"orders": ("0",)}) == [Q0, other]
    assert assigned([Q0, Q1, other], {"orders": ("broker-a|1", "1")}) == [Q1]
    with pytest.raises(BadOption, match="does not exist or cannot be read now: orders 7"):
        assigned([Q0, Q1], {"orders": ("0", "7")})
    assert assigned([Q0, Q1], {"orders": ("0", "7")}, strict=False) == [Q0]


def test_offsets_that_are_gone() -> None:
    starting = {Q0: 2}
    with pytest.raises(DataLost, match="begins at offset 2, but only 5"):
        ranges_to_read({Q0: (5, 9)}, starting, {}, strict=True)
    assert plain(ranges_to_read({Q0: (5, 9)}, starting, {}, strict=False)) == [(0, 5, 9)]
    ending = {Q0: 12}
    with pytest.raises(DataLost, match="the queue ends at 9"):
        ranges_to_read({Q0: (5, 9)}, {}, ending, strict=True)
    assert plain(ranges_to_read({Q0: (5, 9)}, {}, ending, strict=False)) == [(0, 5, 9)]


@settings(deadline=None)
@given(
    sizes=st.lists(st.integers(1, 10_000), min_size=1, max_size=8),
    limit=st.none() | st.integers(1, 5_000),
    wanted=st.none() | st.integers(1, 64),
)
def test_splitting_covers_every_offset_once(sizes: list[int], limit: int | None, wanted: int | None) -> None:
    ranges = [OffsetRange(Queue("t", "b", n, "h:1"), 7, 7 + size) for n, size in enumerate(sizes)]
    given_options = {"subscribe": "t"}
    if limit is not None:
        given_options["maxRecordsPerPartition"] = str(limit)
    if wanted is not None:
        given_options["minPartitions"] = str(wanted)
    pieces = split(ranges, ReadOptions.parse(given_options))
    assert all(len(piece) > 0 for piece in pieces)
    for work in ranges:
        mine = [piece for piece in pieces if piece.queue == work.queue]
        assert mine[0].from_queue_offset == work.from_queue_offset
        assert mine[-1].to_queue_offset == work.to_queue_offset
        for before, after in pairwise(mine):
            assert before.to_queue_offset == after.from_queue_offset
    if limit is not None:
        assert max(map(len, pieces)) <= limit
    if wanted is not None:
        assert len(pieces) >= min(wanted, sum(sizes))
    if limit is None and wanted is None:
        assert pieces == ranges
