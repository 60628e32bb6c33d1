"""POP: assignments, acknowledgements, and the state that brokers store about popped messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, ClassVar

from orbitmq.protocol.bodies.heartbeat import MessageModel
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.schema.json_body import JsonBody, Long, named


class MessageRequestMode(IntEnum):
    """The way in which clients of a group read: pull or pop."""

    PULL = 0
    POP = 1


@dataclass(slots=True)
class QueryAssignmentRequestBody(JsonBody):
    """A client asks the broker which queues it should consume."""

    topic: str = ""
    consumer_group: str = ""
    client_id: str = ""
    strategy_name: str = ""
    message_model: MessageModel | None = None


@dataclass(slots=True)
class MessageQueueAssignment(JsonBody):
    """One queue for the client, and how it should be read."""

    message_queue: MessageQueue | None = None
    mode: MessageRequestMode | None = MessageRequestMode.PULL
    attachments: dict[str, str] | None = None


@dataclass(slots=True)
class QueryAssignmentResponseBody(JsonBody):
    """The queues for the client; absent where the broker cannot say, and the client then changes nothing."""

    message_queue_assignments: list[MessageQueueAssignment] | None = None


@dataclass(slots=True)
class SetMessageRequestModeRequestBody(JsonBody):
    """The request mode of a group for a topic."""

    topic: str = ""
    consumer_group: str = ""
    mode: MessageRequestMode | None = MessageRequestMode.PULL
    pop_share_queue_num: int = 0


@dataclass(slots=True)
class MessageRequestModeSerializeWrapper(JsonBody):
    """Topic -> group -> mode, as `messageRequestMode.json` holds it."""

    message_request_mode_map: dict[str, dict[str, SetMessageRequestModeRequestBody]] = field(
        default_factory=dict
    )


@dataclass(slots=True)
class BatchAck(JsonBody):
    """Acknowledgement of several messages of one pop; bit i of `bit_set` stands for start offset + i."""

    consumer_group: str = field(default="", metadata=named("c"))
    topic: str = field(default="", metadata=named("t"))
    retry: str = field(default="", metadata=named("r"))
    start_offset: Long = field(default=0, metadata=named("so"))
    queue_id: int = field(default=0, metadata=named("q"))
    revive_queue_id: int = field(default=0, metadata=named("rq"))
    pop_time: Long = field(default=0, metadata=named("pt"))
    invisible_time: Long = field(default=0, metadata=named("it"))
    bit_set: bytes | None = field(default=None, metadata=named("b"))
    """Bit i is bit i % 8 of byte i // 8; zero bytes at the end are dropped."""


@dataclass(slots=True)
class BatchAckMessageRequestBody(JsonBody):
    """Acknowledgements for one broker."""

    broker_name: str = ""
    acks: list[BatchAck] | None = None


@dataclass(slots=True)
class AckMsg(JsonBody):
    """One acknowledgement, as a revive topic's message holds it."""

    ack_offset: Long = field(default=0, metadata=named("ao"))
    start_offset: Long = field(default=0, metadata=named("so"))
    consumer_group: str = field(default="", metadata=named("c"))
    topic: str = field(default="", metadata=named("t"))
    queue_id: int = field(default=0, metadata=named("q"))
    pop_time: Long = field(default=0, metadata=named("pt"))
    broker_name: str = field(default="", metadata=named("bn"))


@dataclass(slots=True)
class BatchAckMsg(AckMsg):
    """Several acknowledgements of one pop, as a revive topic's message holds them."""

    ack_offset_list: list[Long] = field(default_factory=list, metadata=named("aol"))


@dataclass(slots=True)
class PopCheckPoint(JsonBody):
    """A pop and which of its messages are acknowledged, as a revive topic's message holds it."""

    DERIVED: ClassVar[Mapping[str, Callable[[Any], Any]]] = {
        "reviveTime": lambda point: point.pop_time + point.invisible_time
    }

    start_offset: Long = field(default=0, metadata=named("so"))
    pop_time: Long = field(default=0, metadata=named("pt"))
    invisible_time: Long = field(default=0, metadata=named("it"))
    bit_map: int = field(default=0, metadata=named("bm"))
    num: int = field(default=0, metadata=named("n"))
    queue_id: int = field(default=0, metadata=named("q"))
    topic: str = field(default="", metadata=named("t"))
    cid: str = field(default="", metadata=named("c"))
    revive_offset: Long = field(default=0, metadata=named("ro"))
    queue_offset_diff: list[int] | None = field(default=None, metadata=named("d"))
    broker_name: str = field(default="", metadata=named("bn"))
    re_put_times: str | None = field(default=None, metadata=named("rp"))


@dataclass(slots=True)
class OrderInfo(JsonBody):
    """Messages of a queue in flight for an ordered POP group, as in `consumerOrderInfo.json`."""

    pop_time: Long = 0
    invisible_time: Long | None = field(default=None, metadata=named("i"))
    offset_list: list[Long] | None = field(default=None, metadata=named("o"))
    offset_next_visible_time: dict[Long, Long] | None = field(default=None, metadata=named("ot"))
    offset_consumed_count: dict[Long, int] | None = field(default=None, metadata=named("oc"))
    last_consume_timestamp: Long = field(default=0, metadata=named("l"))
    commit_offset_bit: Long = field(default=0, metadata=named("cm"))
    attempt_id: str | None = field(default=None, metadata=named("a"))


@dataclass(slots=True)
class ConsumerOrderInfo(JsonBody):
    """`topic@group` -> queue id -> what is in work, as `consumerOrderInfo.json` holds it."""

    ordered_consumption_level: str = "QUEUE"
    table: dict[str, dict[int, OrderInfo]] = field(default_factory=dict)
