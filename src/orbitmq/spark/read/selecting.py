"""From options to queues and offsets, by asking the cluster."""

from __future__ import annotations

from collections.abc import Sequence

from orbitmq.spark.errors import BadOption
from orbitmq.spark.read.cluster import Bounds, Cluster
from orbitmq.spark.read.options import ReadOptions
from orbitmq.spark.read.planning import OffsetRange, Queue, assigned, named, ranges_to_read
from orbitmq.spark.read.positions import LATEST, Position


def selected_queues(cluster: Cluster, options: ReadOptions) -> list[Queue]:
    """The queues that subscribe, subscribePattern or assign mean now.

    Raises BadOption for a topic or queue that does not exist, SparkSourceError.
    """
    if options.pattern is not None:
        topics = cluster.topics_that_match(options.pattern)
        if not topics:
            raise BadOption(f"subscribePattern {options.pattern!r} matches no topic")
        return [queue for topic in topics for queue in cluster.queues_of(topic) or ()]
    queues = cluster.readable_queues(options.topics)
    return queues if options.assigned is None else assigned(queues, options.assigned)


def ranges_of_batch(cluster: Cluster, queues: Sequence[Queue], options: ReadOptions) -> list[OffsetRange]:
    """The offsets of a batch read. Raises BadOption, DataLost, NetError, BrokerRefused."""
    bounds = cluster.bounds(queues)
    starts = first_offsets(cluster, bounds, options)
    ends = last_offsets(cluster, bounds, options)
    return ranges_to_read(bounds, starts, ends, options.fail_on_data_loss)


def first_offsets(cluster: Cluster, bounds: Bounds, options: ReadOptions) -> dict[Queue, int]:
    """First offsets of a read; EARLIEST and LATEST may stand for offsets. Raises BadOption."""
    position = options.starting
    found = at(cluster, bounds, position, "starting", options.group)
    missing = sorted(queue for queue, offset in found.items() if offset is None)
    if missing and not options.latest_without_match:
        raise BadOption(
            f"{_option(position, 'starting')}: {missing[0].topic} {missing[0].key} has no message stored "
            "at or after that time; startingOffsetsByTimestampStrategy=latest begins at its end then"
        )
    return {queue: LATEST if offset is None else offset for queue, offset in found.items()}


def last_offsets(cluster: Cluster, bounds: Bounds, options: ReadOptions) -> dict[Queue, int]:
    """Last offsets of a batch read; LATEST may stand for offsets. Raises BadOption."""
    found = at(cluster, bounds, options.ending, "ending", options.group)
    return {queue: LATEST if offset is None else offset for queue, offset in found.items()}


def at(
    cluster: Cluster, bounds: Bounds, position: Position, edge: str, group: str
) -> dict[Queue, int | None]:
    """A position in each queue; None where no message is at or after a time. Raises BadOption."""
    if position.everywhere is not None:
        return dict.fromkeys(bounds, position.everywhere)
    option = _option(position, edge)
    if position.offsets is not None:
        return dict(named(bounds, position.offsets, option))
    if position.times_ms is not None:
        return cluster.offsets_at(named(bounds, position.times_ms, option), group)
    return cluster.offsets_at(dict.fromkeys(bounds, position.time_ms or 0), group)


def _option(position: Position, edge: str) -> str:
    if position.time_ms is not None:
        return f"{edge}Timestamp"
    return f"{edge}Offsets" if position.times_ms is None else f"{edge}OffsetsByTimestamp"
