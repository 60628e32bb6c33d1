"""Assigns offsets of queues to Spark tasks. Pure: the brokers' answers come in as values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from orbitmq.spark.errors import BadOption, DataLost
from orbitmq.spark.read.options import ReadOptions
from orbitmq.spark.read.positions import EARLIEST, LATEST, QueueOffsets, flat


@dataclass(slots=True, frozen=True, order=True)
class Queue:
    """A queue that can be read, and where."""

    topic: str
    broker_name: str
    queue_id: int
    address: str = field(compare=False)
    """The broker's master, or a slave of it where the master is away."""
    is_master: bool = field(default=True, compare=False)

    @property
    def key(self) -> str:
        """Its name within its topic: `broker|queueId`."""
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
    starts: Mapping[Queue, int],
    ends: Mapping[Queue, int],
    strict: bool,
) -> list[OffsetRange]:
    """The wanted ranges within the present `bounds` (min, max) of the queues; empty queues are left out.

    A queue without a start begins at its first message, one without an end ends at its last. Raises DataLost,
    if `strict`, when a start lies before what is left of a queue, or an end behind its last message.
    """
    ranges = []
    for queue, (low, high) in sorted(bounds.items()):
        start, end = starts.get(queue, EARLIEST), ends.get(queue, LATEST)
        start = {EARLIEST: low, LATEST: high}.get(start, start)
        end = high if end == LATEST else end
        if strict and start < low:
            raise DataLost(
                f"{queue.topic} {queue.key}: the read begins at offset {start}, but only {low} and later are "
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


def named(queues: Iterable[Queue], offsets: QueueOffsets, option: str) -> dict[Queue, int]:
    """The value of each queue in the JSON of an option. Raises BadOption where it names others, or leaves one
    out.

    A key without a broker is the queue of that number, where only one broker has the topic.
    """
    by_name = {(queue.topic, queue.key): queue for queue in queues}
    offsets_read: dict[Queue, int] = {}
    unknown = []
    for (topic, key), offset in flat(offsets).items():
        full = key if "|" in key else _with_broker(by_name.values(), topic, key, option)
        queue = by_name.get((topic, full))
        if queue is None:
            unknown.append(f"{topic} {key}")
        else:
            offsets_read[queue] = offset
    if unknown:
        raise BadOption(f"{option} names queues that do not exist: {', '.join(sorted(unknown)[:5])}")
    left_out = sorted(f"{queue.topic} {queue.key}" for queue in by_name.values() if queue not in offsets_read)
    if left_out:
        hint = "" if "Timestamp" in option else " (-2 stands for earliest, -1 for latest)"
        raise BadOption(f"{option} leaves queues out: {', '.join(left_out[:5])}{hint}")
    return offsets_read


def _with_broker(queues: Iterable[Queue], topic: str, key: str, option: str) -> str:
    brokers = {queue.broker_name for queue in queues if queue.topic == topic}
    if len(brokers) > 1:
        raise BadOption(
            f"{option}: several brokers have queue {key} of {topic}, name one as in {min(brokers)}|{key}"
        )
    return f"{min(brokers, default='')}|{key}"


def assigned(
    queues: Iterable[Queue], wanted: Mapping[str, tuple[str, ...]], *, strict: bool = True
) -> list[Queue]:
    """The queues that `assign` names. Raises BadOption, if `strict`, for one that does not exist."""
    named_so: dict[tuple[str, str], list[Queue]] = {}
    for queue in queues:
        for key in (queue.key, str(queue.queue_id)):
            named_so.setdefault((queue.topic, key), []).append(queue)
    chosen: dict[Queue, None] = {}
    for topic, keys in wanted.items():
        for key in keys:
            found = named_so.get((topic, key), [])
            if strict and not found:
                raise BadOption(
                    f"assign names a queue that does not exist or cannot be read now: {topic} {key}"
                )
            chosen.update(dict.fromkeys(found))
    return list(chosen)


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
