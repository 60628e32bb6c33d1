"""Lite topics: subscriptions of clients, and answers to operators."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from orbitmq.protocol.schema.json_body import JsonBody, Long


class LiteAction(Enum):
    """A client's lite topics."""

    PARTIAL_ADD = "PARTIAL_ADD"
    PARTIAL_REMOVE = "PARTIAL_REMOVE"
    COMPLETE_ADD = "COMPLETE_ADD"
    COMPLETE_REMOVE = "COMPLETE_REMOVE"


class OffsetOptionType(Enum):
    """The kinds of places where a group begins in a lite topic."""

    POLICY = "POLICY"
    """0: where it was; 1: the first message; 2: behind the last one."""
    OFFSET = "OFFSET"
    TAIL_N = "TAIL_N"
    """So many messages before where it is."""
    TIMESTAMP = "TIMESTAMP"


@dataclass(slots=True)
class OffsetOption(JsonBody):
    """The place where a group begins in a lite topic."""

    type: OffsetOptionType | None = None
    value: Long = 0


@dataclass(slots=True)
class LiteSubscriptionEntry(JsonBody):
    """One change of what one client subscribes to; lite topics by their own names."""

    action: LiteAction | None = None
    client_id: str = ""
    group: str = ""
    lite_topic_set: list[str] | None = None
    offset_option: OffsetOption | None = None
    topic: str = ""
    version: Long = 0


@dataclass(slots=True)
class LiteSubscriptionCtlBody(JsonBody):
    """Changes in their order."""

    subscription_set: list[LiteSubscriptionEntry] | None = None


@dataclass(slots=True)
class BrokerLiteInfoBody(JsonBody):
    """Figures of a broker; `topic_meta` has the expiration of each parent in minutes."""

    store_type: str = "default"
    max_lmq_num: int = 0
    current_lmq_num: int = 0
    lite_subscription_count: int = 0
    order_info_count: int = 0
    cq_table_size: int = 0
    offset_table_size: int = 0
    event_map_size: int = 0
    topic_meta: dict[str, int] = field(default_factory=dict)
    group_meta: dict[str, list[str]] = field(default_factory=dict)


@dataclass(slots=True)
class ParentTopicInfoBody(JsonBody):
    """Figures of a parent topic; `ttl` in minutes, `lmq_num` of the whole broker."""

    topic: str = ""
    ttl: int = -1
    groups: list[str] | None = None
    lmq_num: int = 0
    lite_topic_count: int = 0


@dataclass(slots=True)
class LiteSubscriber(JsonBody):
    """A client that subscribes; `*` for all of a group."""

    client_id: str = ""
    group: str = ""


@dataclass(slots=True)
class LiteTopicOffset(JsonBody):
    """The range of a lite topic's offsets."""

    min_offset: Long = 0
    max_offset: Long = 0
    last_update_timestamp: Long = 0


@dataclass(slots=True)
class LiteTopicInfoBody(JsonBody):
    """A lite topic."""

    parent_topic: str = ""
    lite_topic: str = ""
    subscriber: list[LiteSubscriber] = field(default_factory=list)
    topic_offset: LiteTopicOffset = field(default_factory=LiteTopicOffset)
    sharding_to_broker: bool = True


@dataclass(slots=True)
class LiteClientInfoBody(JsonBody):
    """A client's subscription: names of queues; the count is -1 where there is none."""

    parent_topic: str = ""
    group: str = ""
    client_id: str = ""
    last_access_time: Long = -1
    last_consume_time: Long = 0
    lite_topic_count: int = -1
    lite_topic_set: list[str] | None = None


@dataclass(slots=True)
class LiteLag(JsonBody):
    """Messages of a lite topic that a group has not consumed."""

    lite_topic: str = ""
    lag_count: Long = 0
    earliest_unconsumed_timestamp: Long = -1


@dataclass(slots=True)
class LiteOffsets(JsonBody):
    """Where a group is in a lite topic."""

    broker_offset: Long = 0
    consumer_offset: Long = 0
    pull_offset: Long = 0
    last_timestamp: Long = 0


@dataclass(slots=True)
class LiteGroupInfoBody(JsonBody):
    """Progress of a group."""

    group: str = ""
    parent_topic: str = ""
    lite_topic: str | None = None
    earliest_unconsumed_timestamp: Long = -1
    total_lag_count: Long = 0
    lag_count_top_k: list[LiteLag] = field(default_factory=list)
    lag_timestamp_top_k: list[LiteLag] = field(default_factory=list)
    lite_topic_offset_wrapper: LiteOffsets | None = None
