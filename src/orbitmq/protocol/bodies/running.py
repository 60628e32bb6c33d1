"""The state of a consumer, as it reports it to a broker."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from orbitmq.protocol.bodies.heartbeat import SubscriptionData
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.schema.json_body import JsonBody, Long, named

LOOP_BLOCKED_TIMES = "PROP_LOOP_BLOCKED_TIMES"
LOOP_BLOCKED_LONGEST_MS = "PROP_LOOP_BLOCKED_LONGEST_MS"
LOOP_BLOCKED_LAST_MS = "PROP_LOOP_BLOCKED_LAST_MS"
LOOP_BLOCKED_AT = "PROP_LOOP_BLOCKED_AT"
"""Properties of OrbitMQ's consumers whose event loop was blocked by the program for a second at least."""


@dataclass(slots=True)
class ProcessQueueInfo(JsonBody):
    """Messages of one queue that a client holds. Times in ms."""

    commit_offset: Long = 0
    cached_msg_min_offset: Long = 0
    cached_msg_max_offset: Long = 0
    cached_msg_count: int = 0
    cached_msg_size_in_mib: int = field(default=0, metadata=named("cachedMsgSizeInMiB"))
    transaction_msg_min_offset: Long = 0
    transaction_msg_max_offset: Long = 0
    transaction_msg_count: int = 0
    locked: bool = False
    try_unlock_times: Long = 0
    last_lock_timestamp: Long = 0
    droped: bool = False
    last_pull_timestamp: Long = 0
    last_consume_timestamp: Long = 0


@dataclass(slots=True)
class PopProcessQueueInfo(JsonBody):
    """Popped messages of one queue that a client has not yet acknowledged."""

    wait_ack_count: int = 0
    droped: bool = False
    last_pop_timestamp: Long = 0


@dataclass(slots=True)
class ConsumeStatus(JsonBody):
    """A consumer's rates (per second) and times (ms) on one topic."""

    pull_rt: float = field(default=0.0, metadata=named("pullRT"))
    pull_tps: float = field(default=0.0, metadata=named("pullTPS"))
    consume_rt: float = field(default=0.0, metadata=named("consumeRT"))
    consume_ok_tps: float = field(default=0.0, metadata=named("consumeOKTPS"))
    consume_failed_tps: float = field(default=0.0, metadata=named("consumeFailedTPS"))
    consume_failed_msgs: Long = 0


@dataclass(slots=True)
class ConsumerRunningInfo(JsonBody):
    """A consumer's report on itself; `jstack` holds stacks of its threads or tasks."""

    properties: dict[str, str] = field(default_factory=dict)
    subscription_set: list[SubscriptionData] = field(default_factory=list)
    mq_table: dict[MessageQueue, ProcessQueueInfo] = field(default_factory=dict)
    mq_pop_table: dict[MessageQueue, PopProcessQueueInfo] = field(default_factory=dict)
    status_table: dict[str, ConsumeStatus] = field(default_factory=dict)
    user_consumer_info: dict[str, str] = field(default_factory=dict)
    jstack: str | None = None


class CMResult(IntEnum):
    """The result of a handler."""

    CR_SUCCESS = 0
    CR_LATER = 1
    CR_ROLLBACK = 2
    CR_COMMIT = 3
    CR_THROW_EXCEPTION = 4
    CR_RETURN_NULL = 5


@dataclass(slots=True)
class ConsumeMessageDirectlyResult(JsonBody):
    """The result of a message that was handed to a consumer directly."""

    order: bool = False
    auto_commit: bool = True
    consume_result: CMResult | None = None
    remark: str | None = None
    spent_time_mills: Long = 0
