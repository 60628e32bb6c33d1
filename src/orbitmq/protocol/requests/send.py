"""Sending messages, recalling them, and replies of consumers to producers.

A send has two header forms: SEND_MESSAGE with the full names, and V2 with one letter per field. Both classes
have the same attributes, so that whoever serves them need not care which one came: see `AnySend`.
"""

from __future__ import annotations

from typing import TypeAlias

from orbitmq.protocol.schema.declare import (
    MAX_MESSAGE_BYTES,
    Bytes,
    Long,
    Reply,
    Request,
    RequestQueue,
    Void,
    request,
    wire,
)


class SendReply(Reply):
    """The place of the stored message. `code` 10 to 12: stored, but not flushed or copied in time."""

    msg_id: str
    """The offset message id: address of the broker and physical offset, in hex."""
    queue_id: int
    queue_offset: Long
    transaction_id: str | None = None
    batch_uniq_id: str | None = None
    recall_handle: str | None = None


class _NamedSend(Request[SendReply]):
    """The header with full names."""

    accepts = (10, 11, 12)

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: int
    queue_id: int
    sys_flag: int
    born_timestamp: Long
    flag: int
    properties: str | None = None
    reconsume_times: int | None = None
    unit_mode: bool | None = None
    max_reconsume_times: int | None = None
    batch: bool | None = None
    broker_name: str | None = wire("bname", default=None)
    body: Bytes = b""


class _LetteredSend(Request[SendReply]):
    """The header with one letter per field."""

    accepts = (10, 11, 12)

    producer_group: str = wire("a")
    topic: str = wire("b")
    default_topic: str = wire("c")
    default_topic_queue_nums: int = wire("d")
    queue_id: int = wire("e")
    sys_flag: int = wire("f")
    born_timestamp: Long = wire("g")
    flag: int = wire("h")
    properties: str | None = wire("i", default=None)
    reconsume_times: int | None = wire("j", default=None)
    unit_mode: bool | None = wire("k", default=None)
    max_reconsume_times: int | None = wire("l", default=None)
    batch: bool | None = wire("m", default=None)
    broker_name: str | None = wire("n", default=None)
    body: Bytes = b""


@request(10, max_body=MAX_MESSAGE_BYTES, queue=RequestQueue.SEND)
class SendMessage(_NamedSend):
    """Store one message, or with `batch` several of one topic."""


@request(310, max_body=MAX_MESSAGE_BYTES, queue=RequestQueue.SEND)
class SendMessageV2(_LetteredSend):
    """Store one message."""


@request(320, max_body=MAX_MESSAGE_BYTES, queue=RequestQueue.SEND)
class SendBatchMessage(_LetteredSend):
    """Store several messages of one topic; the body is a batch."""


@request(324, max_body=MAX_MESSAGE_BYTES, queue=RequestQueue.UNLIMITED)
class SendReplyMessage(_NamedSend):
    """Pass a consumer's reply on to the producer that waits for it."""


@request(325, max_body=MAX_MESSAGE_BYTES, queue=RequestQueue.UNLIMITED)
class SendReplyMessageV2(_LetteredSend):
    """Pass a consumer's reply on to the producer that waits for it."""


AnySend: TypeAlias = SendMessage | SendMessageV2 | SendBatchMessage | SendReplyMessage | SendReplyMessageV2
"""A request that stores a message: the same attributes for all header forms."""


@request(326, to="client", max_body=MAX_MESSAGE_BYTES)
class PushReplyMessageToClient(Request[Void]):
    """A reply on its way from broker to producer."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: int
    queue_id: int
    sys_flag: int
    born_timestamp: Long
    flag: int
    born_host: str
    store_host: str
    store_timestamp: Long
    properties: str | None = None
    reconsume_times: int | None = None
    unit_mode: bool = False
    body: Bytes = b""


class RecallReply(Reply):
    """The recalled message's unique id; given also when it is unknown or already delivered."""

    msg_id: str


@request(370, queue=RequestQueue.SEND)
class RecallMessage(Request[RecallReply]):
    """Take back a timer message before it is delivered."""

    topic: str
    recall_handle: str
    producer_group: str | None = None
    broker_name: str | None = wire("bname", default=None)


@request(36, queue=RequestQueue.SEND)
class ConsumerSendMsgBack(Request[Void]):
    """A consumer could not handle a message: retry it later, or give it up."""

    offset: Long
    """Physical offset of the message in the broker's commit log."""
    group: str
    delay_level: int
    """0: the broker decides; below 0: to the dead-letter queue."""
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool = False
    max_reconsume_times: int | None = None
    broker_name: str | None = wire("bname", default=None)
