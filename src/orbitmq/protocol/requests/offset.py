"""Offsets: of queues, of groups, resetting and cloning them.

Proxies need the broker's name in what clients ask; brokers do not read it. `logical` is false where the queue
of a static topic is the physical one of that number, as brokers ask each other.
"""

from __future__ import annotations

from orbitmq.protocol.bodies.offset import (
    ConsumerOffsetSerializeWrapper,
    GetConsumerStatusBody,
    QueryCorrectionOffsetBody,
    ResetOffsetBody,
    ResetOffsetBodyForC,
)
from orbitmq.protocol.schema.declare import (
    MAX_LIST_BYTES,
    Blob,
    Bytes,
    JsonReply,
    Long,
    Reply,
    Request,
    RequestQueue,
    Void,
    request,
    wire,
)


class OffsetReply(Reply):
    """A queue offset."""

    offset: Long


class ConsumerOffset(OffsetReply):
    """The next queue offset that a group wants."""


@request(14, queue=RequestQueue.UNLIMITED)
class QueryConsumerOffset(Request[ConsumerOffset]):
    """The offset of a group on one queue; QUERY_NOT_FOUND if it has none there."""

    consumer_group: str
    topic: str
    queue_id: int
    set_zero_if_not_found: bool | None = None
    broker_name: str | None = wire("bname", default=None)
    logical: bool | None = wire("lo", default=None)


@request(15, queue=RequestQueue.UNLIMITED)
class UpdateConsumerOffset(Request[Void]):
    """A group has got to `commit_offset` on one queue; mostly one-way."""

    consumer_group: str
    topic: str
    queue_id: int
    commit_offset: Long
    broker_name: str | None = wire("bname", default=None)
    logical: bool | None = wire("lo", default=None)


@request(29)
class SearchOffsetByTimestamp(Request[OffsetReply]):
    """The queue offset at a store time (ms)."""

    topic: str
    queue_id: int
    timestamp: Long
    boundary_type: str | None = None
    """`lower` (the default) or `upper`: which of several messages with one time."""
    broker_name: str | None = wire("bname", default=None)
    lite_topic: str | None = None
    """A lite topic of the topic: offsets of its light queue, whichever queue is named."""
    logical: bool | None = wire("lo", default=None)


@request(30)
class GetMaxOffset(Request[OffsetReply]):
    """The queue offset that the next message will get."""

    topic: str
    queue_id: int
    committed: bool = True
    broker_name: str | None = wire("bname", default=None)
    logical: bool | None = wire("lo", default=None)


@request(31)
class GetMinOffset(Request[OffsetReply]):
    """The queue offset of the oldest message."""

    topic: str
    queue_id: int
    broker_name: str | None = wire("bname", default=None)
    logical: bool | None = wire("lo", default=None)


class StoretimeReply(Reply):
    """A store time in ms, -1 if there is none."""

    timestamp: Long


@request(32)
class GetEarliestMsgStoretime(Request[StoretimeReply]):
    """Store time of the oldest message of a queue."""

    topic: str
    queue_id: int
    broker_name: str | None = wire("bname", default=None)
    logical: bool | None = wire("lo", default=None)


@request(43)
class GetAllConsumerOffset(Request[JsonReply[ConsumerOffsetSerializeWrapper | None]]):
    """The offsets of all groups, for slaves."""


@request(45)
class GetAllDelayOffset(Request[Blob]):
    """The text of `delayOffset.json`, for slaves."""


@request(220, to="client", max_body=MAX_LIST_BYTES)
class ResetConsumerClientOffset(Request[Void]):
    """Notice to consumers of their new offsets. The body is a map, for C++ clients a list."""

    group: str
    topic: str
    timestamp: Long
    is_force: bool
    queue_id: int = -1
    offset: Long | None = None
    body: ResetOffsetBody | ResetOffsetBodyForC | Bytes | None = None


@request(222)
class InvokeBrokerToResetOffset(Request[JsonReply[ResetOffsetBody | None]]):
    """Set a group's offsets on a topic to a time (ms; -1: the end) or to `offset`."""

    group: str
    topic: str
    timestamp: Long
    is_force: bool
    queue_id: int = -1
    """-1: all queues."""
    offset: Long | None = None


@request(221, to="client")
class GetConsumerStatusFromClient(Request[JsonReply[GetConsumerStatusBody | None]]):
    """Question to a client for the offsets it holds."""

    topic: str
    group: str
    client_addr: str | None = None


@request(223)
class InvokeBrokerToGetConsumerStatus(Request[JsonReply[GetConsumerStatusBody | None]]):
    """The offsets that the clients of a group hold."""

    topic: str
    group: str
    client_addr: str | None = None


@request(308)
class QueryCorrectionOffset(Request[JsonReply[QueryCorrectionOffsetBody]]):
    """Offsets of a group as far as they are behind those of another; removes the filter groups' offsets."""

    compare_group: str
    topic: str
    filter_groups: str | None = None


@request(314)
class CloneGroupOffset(Request[Void]):
    """Give one group the offsets of another."""

    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool = False
