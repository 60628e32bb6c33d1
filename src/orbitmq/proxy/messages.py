"""Messages of the gRPC protocol from and to the properties and records that brokers keep."""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING

from orbitmq.protocol import names
from orbitmq.protocol.handles.pop import PopHandle
from orbitmq.protocol.records.compression import DEFAULT_MAX_INFLATED_BYTES
from orbitmq.protocol.records.ids import host_text
from orbitmq.protocol.records.inner_batch import is_inner_batch, plain_messages
from orbitmq.protocol.records.message import COMPRESSED, COMPRESSION_MASK, COMPRESSION_ZLIB, StoredMessage
from orbitmq.protocol.records.message import TRANSACTION_PREPARED as PREPARED_FLAG
from orbitmq.protocol.records.properties import BadProperty, encode_properties, whole_number
from orbitmq.proxy.checks import MS_PER_SECOND, duration_ms, is_retry_or_dead
from orbitmq.proxy.errors import ProxyRefused
from orbitmq.proxy.wire import messaging_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Mapping

    from google.protobuf.timestamp_pb2 import Timestamp

TOPIC_TYPES = {
    "NORMAL": pb.NORMAL,
    "FIFO": pb.FIFO,
    "DELAY": pb.DELAY,
    "TRANSACTION": pb.TRANSACTION,
    "LITE": pb.LITE,
    "PRIORITY": pb.PRIORITY,
}
"""Types of a topic by its attribute `message.type`."""
TYPE_ATTRIBUTE = "message.type"
MIXED = "MIXED"
"""The type of topics that take all messages."""


def topic_type(attributes: Mapping[str, str]) -> str:
    """The type of a topic by its attributes; a topic without the attribute is NORMAL."""
    return attributes.get(TYPE_ATTRIBUTE, "NORMAL")


def type_of(message: pb.Message) -> str:
    """The type of a message that is sent, by its properties."""
    system = message.system_properties
    if system.message_type == pb.TRANSACTION:
        return "TRANSACTION"
    if system.HasField("delivery_timestamp"):
        return "DELAY"
    if system.HasField("message_group"):
        return "FIFO"
    if system.HasField("priority"):
        return "PRIORITY"
    if system.HasField("lite_topic"):
        return "LITE"
    return "NORMAL"


def check_type(topic: str, wanted: str, message: pb.Message) -> None:
    """Raises ProxyRefused for a message whose type is not `wanted`, its topic's."""
    found = type_of(message)
    if found != wanted and wanted != MIXED and not is_retry_or_dead(topic):
        raise ProxyRefused(
            pb.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
            f"{topic} takes messages of type {wanted}, and this one is of type {found}: "
            f"the topic's attribute {TYPE_ATTRIBUTE} says so",
        )


def sent_properties(message: pb.Message, topic: str, caller_host: str, now: int) -> str:
    """The properties under which a broker keeps a message. Raises ProxyRefused."""
    system = message.system_properties
    values: dict[str, str | None] = dict(message.user_properties)
    values[names.UNIQ_KEY] = system.message_id
    if system.HasField("tag"):
        values[names.TAGS] = system.tag
    if system.keys:
        values[names.KEYS] = names.KEY_SEPARATOR.join(system.keys)
    if system.message_type == pb.TRANSACTION:
        values[names.TRANSACTION_PREPARED] = "true"
        if system.HasField("orphaned_transaction_recovery_duration"):
            seconds = system.orphaned_transaction_recovery_duration.seconds
            values[names.CHECK_IMMUNITY_TIME_IN_SECONDS] = str(seconds)
    if system.HasField("delivery_timestamp"):
        if system.message_type == pb.TRANSACTION:  # Apache's brokers take it
            raise ProxyRefused(
                pb.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
                "a message of a transaction cannot be delayed: leave out the time of delivery",
            )
        values[names.TIMER_DELIVER_MS] = str(duration_ms(system.delivery_timestamp))
    if system.HasField("priority"):
        values[names.PRIORITY] = str(system.priority)
    if system.HasField("delivery_attempt"):
        values[names.RECONSUME_TIME] = str(system.delivery_attempt)
    if system.HasField("message_group"):
        values[names.SHARDING_KEY] = system.message_group
    if system.HasField("lite_topic"):
        values[names.LITE_TOPIC] = system.lite_topic
    if system.HasField("trace_context"):
        values[names.TRACE_CONTEXT] = system.trace_context
    values[names.BORN_HOST] = system.born_host or caller_host.rpartition(":")[0]
    values[names.BORN_TIMESTAMP] = str(duration_ms(system.born_timestamp) or now)
    values[names.PRODUCER_GROUP] = topic
    try:
        return encode_properties(values).decode()
    except BadProperty as error:
        raise ProxyRefused(pb.ILLEGAL_MESSAGE_PROPERTY_KEY, str(error)) from None


def sent_sys_flag(message: pb.Message) -> int:
    """The sysFlag under which a broker keeps a message."""
    flag = COMPRESSED if message.system_properties.body_encoding == pb.GZIP else 0
    return flag | (PREPARED_FLAG if message.system_properties.message_type == pb.TRANSACTION else 0)


def received_message(
    record: StoredMessage, topic: str, handle: PopHandle | None, attempt: int, invisible_ms: int
) -> pb.Message:
    """The message that a client gets of a record; `topic` is the one it was sent to.

    `handle` is None for a message that was pulled and not popped.
    """
    properties = record.property_map()
    message = pb.Message(topic=pb.Resource(name=topic), body=record.body)
    for name, value in properties.items():
        if name not in names.RESERVED_PROPERTIES and not name.startswith(names.TRANSIENT_PREFIX):
            message.user_properties[name] = value
    system = message.system_properties
    system.message_id = properties.get(names.UNIQ_KEY) or record.offset_id
    if record.tags:
        system.tag = record.tags
    system.keys.extend(record.keys)
    system.body_digest.type = pb.MD5
    system.body_digest.checksum = hashlib.md5(record.body, usedforsecurity=False).hexdigest().upper()
    system.body_encoding = pb.GZIP if record.sys_flag & COMPRESSED else pb.IDENTITY
    system.message_type = _received_type(properties)
    _set_ms(system.born_timestamp, _number(properties.get(names.BORN_TIMESTAMP)) or record.born_timestamp)
    system.born_host = properties.get(names.BORN_HOST) or host_text(record.born_host)
    _set_ms(system.store_timestamp, record.store_timestamp)
    system.store_host = host_text(record.store_host)
    delivery_ms = _number(properties.get(names.TIMER_DELIVER_MS))
    if delivery_ms:
        _set_ms(system.delivery_timestamp, delivery_ms)
    if handle is not None:
        system.receipt_handle = handle.to_text()
        system.invisible_duration.FromMilliseconds(invisible_ms)
    system.queue_id = record.queue_id
    system.queue_offset = (
        handle.queue_offset if handle is not None and handle.lite_topic else record.queue_offset
    )
    system.delivery_attempt = attempt
    if names.SHARDING_KEY in properties:
        system.message_group = properties[names.SHARDING_KEY]
    if names.LITE_TOPIC in properties:
        system.lite_topic = properties[names.LITE_TOPIC]
    if names.TRACE_CONTEXT in properties:
        system.trace_context = properties[names.TRACE_CONTEXT]
    if names.PRIORITY in properties:
        system.priority = _number(properties[names.PRIORITY])
    if names.DLQ_ORIGIN_TOPIC in properties:
        system.dead_letter_queue.topic = properties[names.DLQ_ORIGIN_TOPIC]
        system.dead_letter_queue.message_id = properties.get(names.DLQ_ORIGIN_MESSAGE_ID, "")
    return message


async def readable_messages(record: StoredMessage) -> list[StoredMessage]:
    """The messages of a record as clients of RocketMQ 5 can read them; inflated in a thread where need be.

    Raises CompressionError, BadRecord.
    """
    if needs_inflating(record) or is_inner_batch(record.sys_flag):
        return await asyncio.to_thread(plain_messages, record, DEFAULT_MAX_INFLATED_BYTES)
    return [record]


def needs_inflating(record: StoredMessage) -> bool:
    """True for a body whose compression clients of RocketMQ 5 cannot read: they know zlib alone."""
    compression = record.sys_flag & COMPRESSION_MASK
    return bool(record.sys_flag & COMPRESSED) and compression not in (0, COMPRESSION_ZLIB)


_DELAYS = (names.DELAY, names.TIMER_DELIVER_MS, names.TIMER_DELAY_SEC, names.TIMER_DELAY_MS)


def _received_type(properties: Mapping[str, str]) -> pb.MessageType.ValueType:
    if properties.get(names.TRANSACTION_PREPARED) == "true":
        return pb.TRANSACTION
    if any(name in properties for name in _DELAYS):
        return pb.DELAY
    if names.SHARDING_KEY in properties:
        return pb.FIFO
    if names.PRIORITY in properties:
        return pb.PRIORITY
    if names.LITE_TOPIC in properties:
        return pb.LITE
    return pb.NORMAL


def _set_ms(timestamp: Timestamp, ms: int) -> None:
    timestamp.seconds, rest = divmod(ms, MS_PER_SECOND)
    timestamp.nanos = rest * 1_000_000


def _number(text: str | None) -> int:
    return whole_number(text) or 0
