"""Offsets that a batch of the archive takes: it goes on where the lake ends, and says what is gone."""

from __future__ import annotations

import pytest

pytest.importorskip("pyarrow")

from orbitmq.spark.errors import DataLost
from orbitmq.spark.jobs.archive.planning import next_batch, pieces, what_is_new
from orbitmq.spark.lake.state import HeldRange, LakeState, Manifest, fold
from orbitmq.spark.read.planning import OffsetRange, Queue


def queue(queue_id: int = 0, *, is_master: bool = True) -> Queue:
    return Queue("orders", "broker-a", queue_id, "127.0.0.1:1", is_master)


def holding(*ranges: tuple[int, int]) -> LakeState:
    held = [HeldRange("orders", "broker-a|0", low, high, high - low) for low, high in ranges]
    return fold(LakeState(), [Manifest(n, "append", "r", 0, (one,)) for n, one in enumerate(held, 1)])


def test_a_batch_goes_on_where_the_lake_ends() -> None:
    bounds = {queue(0): (0, 100), queue(1): (7, 9), queue(2): (5, 5)}
    ranges, lost = what_is_new(holding((0, 40), (40, 60)), bounds, fail_on_data_loss=True)
    assert [(one.queue.queue_id, one.from_queue_offset, one.to_queue_offset) for one in ranges] == [
        (0, 60, 100),
        (1, 7, 9),
    ]
    assert lost == []


def test_what_is_gone_is_an_error_or_named() -> None:
    state, bounds = holding((0, 40)), {queue(0): (50, 100)}
    with pytest.raises(DataLost, match="offsets 40 to 49 are gone"):
        what_is_new(state, bounds, fail_on_data_loss=True)
    ranges, lost = what_is_new(state, bounds, fail_on_data_loss=False)
    assert [(one.from_queue_offset, one.to_queue_offset) for one in ranges] == [(50, 100)]
    assert [str(one) for one in lost] == ["orders broker-a|0: offsets 40 to 49 are gone"]


def test_a_topic_made_anew_is_an_error_and_a_slave_behind_is_waited_for() -> None:
    state = holding((0, 40))
    for allowed in (True, False):
        with pytest.raises(DataLost, match="made anew"):
            what_is_new(state, {queue(0): (0, 39)}, fail_on_data_loss=allowed)
    assert what_is_new(state, {queue(0, is_master=False): (0, 39)}, fail_on_data_loss=True) == ([], [])


def test_batches_and_pieces_cover_everything_once() -> None:
    ranges = [OffsetRange(queue(0), 10, 1010), OffsetRange(queue(1), 0, 3), OffsetRange(queue(2), 5, 405)]
    batch = next_batch(ranges, 100)
    assert [len(one) for one in batch] == [71, 1, 28]
    assert [one.from_queue_offset for one in batch] == [10, 0, 5]
    assert next_batch(ranges, 5000) == ranges
    cut = pieces(ranges, workers=2, most=10_000, smallest=100)
    assert max(map(len, cut)) <= 352
    for whole in ranges:
        covered = [
            n
            for one in cut
            if one.queue == whole.queue
            for n in range(one.from_queue_offset, one.to_queue_offset)
        ]
        assert covered == list(range(whole.from_queue_offset, whole.to_queue_offset))
    assert max(map(len, pieces(ranges, workers=1, most=50))) == 50
