"""Counts that brokers keep in files of their own, and the filters of groups."""

from __future__ import annotations

from dataclasses import dataclass, field

from orbitmq.protocol.bodies.version import DataVersion
from orbitmq.protocol.schema.json_body import JsonBody, Long


@dataclass(slots=True)
class Metric(JsonBody):
    """A count and when (ms) it last changed."""

    count: Long = 0
    time_stamp: Long = 0


@dataclass(slots=True)
class TransactionMetricsSerializeWrapper(JsonBody):
    """Pending transactions by topic."""

    transaction_count: dict[str, Metric] = field(default_factory=dict)
    data_version: DataVersion = field(default_factory=DataVersion)


@dataclass(slots=True)
class TimerMetricsSerializeWrapper(JsonBody):
    """Pending timers by topic."""

    timing_count: dict[str, Metric] = field(default_factory=dict)
    data_version: DataVersion = field(default_factory=DataVersion)


@dataclass(slots=True)
class BloomFilterData(JsonBody):
    """The bits of a group in the filter of a topic."""

    bit_pos: list[int] | None = None
    bit_num: int = 0


@dataclass(slots=True)
class ConsumerFilterData(JsonBody):
    """A group's expression on a topic. Times in ms."""

    consumer_group: str = ""
    topic: str = ""
    expression: str = ""
    expression_type: str = ""
    born_time: Long = 0
    dead_time: Long = 0
    dead: bool = False
    bloom_filter_data: BloomFilterData | None = None
    client_version: Long = 0


@dataclass(slots=True)
class FilterDataByTopic(JsonBody):
    """The filters of a topic by group."""

    topic: str = ""
    group_filter_data: dict[str, ConsumerFilterData] = field(default_factory=dict)


@dataclass(slots=True)
class ConsumerFilterManager(JsonBody):
    """All filters, as `consumerFilter.json` holds them."""

    filter_data_by_topic: dict[str, FilterDataByTopic] = field(default_factory=dict)
