"""Which Spark task reads which offsets of which queue. Pure: the brokers' answers come in as values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from orbitmq.spark.errors import BadOption, DataLost
from orbitmq.spark.options import EARLIEST, LATEST, QueueOffsets, ReadOptions


@dataclass(slots=True, frozen=True, order=True)
class Queue:
    """A queue that can be read, and where."""

    topic: str
    broker_name: str
    queue_id: int
    address: str

    @property
    def key(self) -> str:
        """How offsets name it within its topic: `broker|queueId`."""
        return f"{self.broker_name}|{self.queue_id}"


@dataclass(slots=True, frozen=True)
class OffsetRange:
    """Offsets from (inclusive) to (exclusive) of one queue: the work of one Spark task."""

    queue: Queue
    from_queue_offset: int
    to_queue_offset: int

    def __len__(self) -> int:
        return self.to_queue_offset - self.from_queue_offset


def ranges_to_read(
    bounds: Mapping[Queue, tuple[int, int]],
    starting: QueueOffsets | None,
    ending: QueueOffsets | None,
    strict: bool,
) -> list[OffsetRange]:
    """What is asked for, within the `bounds` (min, max) that the queues have now; empty queues are left out.

    Raises BadOption when offsets name queues that do not exist or leave some out; DataLost, if `strict`,
    when a start lies before what is left of a queue, or an end behind its last message.
    """
    starts = _per_queue(bounds, starting, "startingOffsets")
    ends = _per_queue(bounds, ending, "endingOffsets")
    ranges = []
    for queue, (low, high) in sorted(bounds.items()):
        start, end = starts.get(queue, EARLIEST), ends.get(queue, LATEST)
        start = {EARLIEST: low, LATEST: high}.get(start, start)
        end = high if end == LATEST else end
        if strict and start < low:
            raise DataLost(
                f"{queue.topic} {queue.key}: startingOffsets begin at {start}, but only {low} and later are "
                "left; failOnDataLoss=false reads what is there"
            )
        if strict and max(start, end) > high:
            raise DataLost(
                f"{queue.topic} {queue.key}: offset {max(start, end)} was asked for, but the queue ends at "
                f"{high}; failOnDataLoss=false reads what is there"
            )
        start, end = max(start, low), min(end, high)
        if start < end:
            ranges.append(OffsetRange(queue, start, end))
    return ranges


def _per_queue(
    bounds: Mapping[Queue, tuple[int, int]], given: QueueOffsets | None, option: str
) -> dict[Queue, int]:
    if given is None:
        return {}
    by_name = {(queue.topic, queue.key): queue for queue in bounds}
    named = {(topic, key): offset for topic, queues in given.items() for key, offset in queues.items()}
    unknown = sorted(f"{topic} {key}" for topic, key in named.keys() - by_name.keys())
    if unknown:
        raise BadOption(f"{option} names queues that do not exist: {', '.join(unknown[:5])}")
    left_out = sorted(f"{topic} {key}" for topic, key in by_name.keys() - named.keys())
    if left_out:
        raise BadOption(
            f"{option} leaves queues out: {', '.join(left_out[:5])} (-2 stands for earliest, -1 for latest)"
        )
    return {by_name[name]: offset for name, offset in named.items()}


def split(ranges: Sequence[OffsetRange], options: ReadOptions) -> list[OffsetRange]:
    """Cuts ranges so that no task gets more than `maxRecordsPerPartition`, and `minPartitions` are there.

    Large ranges are cut into more pieces than small ones; never into pieces without an offset.
    """
    pieces = list(ranges)
    limit = options.max_records_per_partition
    if limit is not None:
        pieces = [part for piece in pieces for part in _cut(piece, -(-len(piece) // limit))]
    wanted = options.min_partitions
    if wanted is not None and pieces and len(pieces) < wanted:
        total = sum(map(len, pieces))
        pieces = [part for piece in pieces for part in _cut(piece, -(-len(piece) * wanted // total))]
    return pieces


def _cut(piece: OffsetRange, parts: int) -> list[OffsetRange]:
    parts = max(1, min(parts, len(piece)))
    size = len(piece)
    edges = [piece.from_queue_offset + size * part // parts for part in range(parts + 1)]
    return [replace(piece, from_queue_offset=low, to_queue_offset=high) for low, high in pairwise(edges)]
