"""Offsets of the next batch. Pure: the state of brokers and lake comes in as values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from orbitmq.spark.errors import DataLost
from orbitmq.spark.lake.state import LakeState
from orbitmq.spark.read.planning import OffsetRange, Queue

SMALLEST_PIECE = 50_000
"""Offsets of a piece below which it is not cut for more workers: it costs a file."""


@dataclass(frozen=True, slots=True)
class Lost:
    """Offsets that were gone before they came into the lake."""

    queue: Queue
    from_queue_offset: int
    to_queue_offset: int

    def __str__(self) -> str:
        where = f"{self.queue.topic} {self.queue.key}"
        return f"{where}: offsets {self.from_queue_offset} to {self.to_queue_offset - 1} are gone"


def what_is_new(
    state: LakeState, bounds: Mapping[Queue, tuple[int, int]], *, fail_on_data_loss: bool
) -> tuple[list[OffsetRange], list[Lost]]:
    """Ranges that queues hold and the lake lacks, in the order of the queues, and ranges that neither holds.

    A queue of which the lake has nothing begins with its first message. Raises DataLost for a queue that ends
    before what the lake holds (a topic made again: its offsets mean other messages now) and, with
    `fail_on_data_loss`, for one that begins behind it.
    """
    ranges, lost = [], []
    for queue, (low, high) in sorted(bounds.items()):
        start = state.next_offset(queue.topic, queue.key)
        if start is None:
            start = low
        if start > high and not queue.is_master:
            continue  # a slave that has not got all of it: the master will be back
        if start > high:
            raise DataLost(
                f"{queue.topic} {queue.key} ends at offset {high}, and the lake holds it up to {start}: the "
                "topic was made anew, or the broker lost messages. Archive it into another lake"
            )
        if start < low:
            gone = Lost(queue, start, low)
            if fail_on_data_loss:
                raise DataLost(f"{gone} before they were archived; --allow-data-loss goes on behind them")
            lost.append(gone)
            start = low
        if start < high:
            ranges.append(OffsetRange(queue, start, high))
    return ranges, lost


def next_batch(ranges: Sequence[OffsetRange], most: int) -> list[OffsetRange]:
    """The beginning of each range, in proportion to its length, so that all together have about `most`."""
    total = sum(map(len, ranges))
    if total <= most:
        return list(ranges)
    return [
        replace(one, to_queue_offset=one.from_queue_offset + max(1, len(one) * most // total))
        for one in ranges
    ]


def pieces(
    ranges: Sequence[OffsetRange], workers: int, most: int, smallest: int = SMALLEST_PIECE
) -> list[OffsetRange]:
    """The work of each task: ranges, cut where workers would get less than two pieces, or over `most`."""
    total = sum(map(len, ranges))
    wanted = min(most, max(smallest, -(-total // max(1, 2 * workers))))
    found = []
    for one in ranges:
        count = -(-len(one) // wanted)
        size = len(one)
        edges = [one.from_queue_offset + size * part // count for part in range(count + 1)]
        found += [replace(one, from_queue_offset=low, to_queue_offset=high) for low, high in pairwise(edges)]
    return found
