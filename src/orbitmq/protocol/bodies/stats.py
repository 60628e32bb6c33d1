"""Figures of topics, groups and brokers."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar

from orbitmq.protocol.bodies.heartbeat import SubscriptionData
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.schema.json_body import JsonBody, Long, named


@dataclass(slots=True)
class TopicOffset(JsonBody):
    """First and end offset of a queue, and the store time (ms) of its last message, 0 if it has none."""

    min_offset: Long = 0
    max_offset: Long = 0
    last_update_timestamp: Long = 0


@dataclass(slots=True)
class TopicStatsTable(JsonBody):
    """The queues of a topic on one broker."""

    offset_table: dict[MessageQueue, TopicOffset] = field(default_factory=dict)
    topic_put_tps: float = 0.0
    ends: bytes | None = field(default=None, metadata=named("orbitmqEnds"))
    """End offsets of all queues in the order of their ids, 8 bytes each; 100,000 of them are 1 MB, not 12."""


def pack_ends(ends: Sequence[int]) -> bytes:
    """The `ends` of a table."""
    return struct.pack(f">{len(ends)}q", *ends)


def unpack_ends(packed: bytes) -> Sequence[int]:
    """The end offset of each queue; a rest of fewer than 8 bytes is none."""
    count = len(packed) // 8
    return struct.unpack_from(f">{count}q", packed)


@dataclass(slots=True)
class OffsetWrapper(JsonBody):
    """Progress of a group on a queue; `last_timestamp` (ms) is the store time of its last message read."""

    broker_offset: Long = 0
    consumer_offset: Long = 0
    pull_offset: Long = 0
    last_timestamp: Long = 0


@dataclass(slots=True)
class ConsumeStats(JsonBody):
    """Progress of a group on its queues of one broker."""

    offset_table: dict[MessageQueue, OffsetWrapper] = field(default_factory=dict)
    consume_tps: float = 0.0


@dataclass(slots=True)
class ConsumeStatsList(JsonBody):
    """Progress of all groups: for each one a map of its name to stats by topic."""

    consume_stats_list: list[dict[str, list[ConsumeStats]]] = field(default_factory=list)
    broker_addr: str | None = None
    total_diff: Long = 0
    total_inflight_diff: Long = 0


@dataclass(slots=True)
class BrokerStatsItem(JsonBody):
    """Sum, rate per second, and average per event of one statistic."""

    sum: Long = 0
    tps: float = 0.0
    avgpt: float = 0.0


@dataclass(slots=True)
class BrokerStatsData(JsonBody):
    """One statistic over the last minute, hour and day."""

    stats_minute: BrokerStatsItem | None = None
    stats_hour: BrokerStatsItem | None = None
    stats_day: BrokerStatsItem | None = None


@dataclass(slots=True)
class ConsumeQueueData(JsonBody):
    """One unit of a consume queue, and what a filter says of it."""

    physic_offset: Long = 0
    physic_size: int = 0
    tags_code: Long = 0
    extend_data_json: str | None = None
    bit_map: str | None = None
    eval: bool = False
    msg: str | None = None


@dataclass(slots=True)
class QueryConsumeQueueResponseBody(JsonBody):
    """Units of a consume queue as a group would see them."""

    subscription_data: SubscriptionData | None = None
    filter_data: str | None = None
    queue_data: list[ConsumeQueueData] | None = None
    max_queue_index: Long = 0
    min_queue_index: Long = 0


def _time_text(at_ms: int) -> str:
    seconds, ms = divmod(at_ms, 1000)
    return f"{datetime.fromtimestamp(seconds):%Y-%m-%d#%H:%M:%S}:{ms:03}"


@dataclass(slots=True)
class QueueTimeSpan(JsonBody):
    """Store times (ms) of a queue's first and last message and of the one consumed last; -1 without one."""

    DERIVED: ClassVar[Mapping[str, Callable[[Any], Any]]] = {
        "minTimeStampStr": lambda span: _time_text(span.min_time_stamp),
        "maxTimeStampStr": lambda span: _time_text(span.max_time_stamp),
        "consumeTimeStampStr": lambda span: _time_text(span.consume_time_stamp),
    }

    message_queue: MessageQueue | None = None
    min_time_stamp: Long = 0
    max_time_stamp: Long = 0
    consume_time_stamp: Long = 0
    delay_time: Long = 0


@dataclass(slots=True)
class QueryConsumeTimeSpanBody(JsonBody):
    """The time spans of a topic's queues for one group."""

    consume_time_span_set: list[QueueTimeSpan] = field(default_factory=list)
