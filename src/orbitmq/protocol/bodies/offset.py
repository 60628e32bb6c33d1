"""Offsets of groups, and resetting them."""

from __future__ import annotations

from dataclasses import dataclass, field

from orbitmq.protocol.bodies.queue import MessageQueue, MessageQueueForC
from orbitmq.protocol.bodies.version import DataVersion
from orbitmq.protocol.schema.json_body import JsonBody, Long


@dataclass(slots=True)
class ConsumerOffsetSerializeWrapper(JsonBody):
    """`topic@group` -> queue id -> queue offset."""

    offset_table: dict[str, dict[int, Long]] = field(default_factory=dict)
    data_version: DataVersion | None = None


@dataclass(slots=True)
class ConsumerOffsetManager(JsonBody):
    """The same as `consumerOffset.json` holds it; `group_topic_map` follows from the table."""

    offset_table: dict[str, dict[int, Long]] = field(default_factory=dict)
    group_topic_map: dict[str, list[str]] = field(default_factory=dict)
    data_version: DataVersion = field(default_factory=DataVersion)


@dataclass(slots=True)
class ActedFor(JsonBody):
    """OrbitMQ's own: work that a slave has done in place of its master. The master does none of it again."""

    is_open: bool = False
    """The slave has not ended yet: what follows may become more."""
    log_end: Long = 0
    """The slave's log ended there: nothing is said of what stands behind."""
    timers_to: Long = 0
    """Timer messages that are due until then, in ms, were stored elsewhere."""
    halves_to: Long = 0
    """Half messages before this queue offset that were open were moved to another master."""
    points_to: Long = 0
    """Messages that were popped, and whose check points are due until then, in ms, were delivered again
    elsewhere."""
    left: list[Long] = field(default_factory=list)
    """Physical offsets of messages that no other master takes: they are still the master's."""


@dataclass(slots=True)
class DelayOffsetSerializeWrapper(JsonBody):
    """Delay level -> next queue offset to deliver, as `delayOffset.json` holds it."""

    offset_table: dict[int, Long] = field(default_factory=dict)
    data_version: DataVersion | None = None
    delivered_to: Long | None = None
    """OrbitMQ's own: what was delivered beyond the table is behind this physical offset."""
    acted_for: ActedFor | None = None
    log_end: Long | None = None
    """OrbitMQ's own: what was delivered up to the table is before this physical offset."""
    left_done: list[Long] | None = None
    """OrbitMQ's own: what another broker had left, and this one has delivered (physical offsets)."""


@dataclass(slots=True)
class OffsetSerializeWrapper(JsonBody):
    """A broadcasting client's own offsets, as its `offsets.json` holds them."""

    offset_table: dict[MessageQueue, Long] = field(default_factory=dict)


@dataclass(slots=True)
class ResetOffsetBody(JsonBody):
    """New offsets by queue."""

    offset_table: dict[MessageQueue, Long] = field(default_factory=dict)


@dataclass(slots=True)
class ResetOffsetBodyForC(JsonBody):
    """New offsets for clients that cannot read a map keyed by queues."""

    offset_table: list[MessageQueueForC] | None = None


@dataclass(slots=True)
class GetConsumerStatusBody(JsonBody):
    """Offsets as clients hold them: a client fills the first map, a broker that asked them the second."""

    message_queue_table: dict[MessageQueue, Long] = field(default_factory=dict)
    consumer_table: dict[str, dict[MessageQueue, Long]] = field(default_factory=dict)


@dataclass(slots=True)
class QueryCorrectionOffsetBody(JsonBody):
    """Smallest offset per queue id."""

    correction_offsets: dict[int, Long] = field(default_factory=dict)
