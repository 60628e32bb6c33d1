"""Delivered delayed messages: made from the waiting ones, and recognised in the log."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from orbitmq.protocol.lite_topics import named_lmqs
from orbitmq.protocol.names import INNER_MULTI_QUEUE_OFFSET
from orbitmq.protocol.records.checksums_cy import crc32
from orbitmq.protocol.records.message import PROPERTY_CRC_NAME, StoredMessage
from orbitmq.protocol.records.properties import find_property
from orbitmq.store import PendingMessage

Identity: TypeAlias = tuple[str, int, bytes, int, int, int]
"""Marks by which one delivered message is told from others; two with the same marks count as one."""

_LMQ_OFFSETS = INNER_MULTI_QUEUE_OFFSET.encode() + b"\x01"
_CRC = PROPERTY_CRC_NAME + b"\x01"


def was_delivered(record: StoredMessage) -> bool:
    """True if a record is a delayed message where it belongs."""
    properties = record.properties
    return (
        find_property(properties, b"REAL_TOPIC") == record.topic.encode()
        and find_property(properties, b"REAL_QID") == b"%d" % record.queue_id
        and find_property(properties, b"DELAY") is not None
    )


def identity_of(topic: str, queue_id: int, message: PendingMessage | StoredMessage) -> Identity:
    """The marks of a message of a topic and queue."""
    body = message.body
    # The checksum at the end of the properties is of the record as a whole, and every record has its own.
    properties, crc, _ = message.properties.rpartition(_CRC)
    # So are the offsets in light queues, which stand behind all that came with the message.
    return (
        topic,
        queue_id,
        (properties if crc else message.properties).partition(_LMQ_OFFSETS)[0],
        message.born_timestamp,
        len(body),
        crc32(body),
    )


def delivered(waiting: StoredMessage) -> PendingMessage:
    """The message as it is stored where it belongs: all as it was, but for topic and queue.

    Raises ValueError if the record does not say where it belongs.
    """
    topic = find_property(waiting.properties, b"REAL_TOPIC")
    queue_id = find_property(waiting.properties, b"REAL_QID")
    if not topic or not queue_id:
        raise ValueError("no REAL_TOPIC or no REAL_QID")
    lmqs = named_lmqs(waiting.properties)
    return replace(as_pending(waiting), topic=topic.decode(), queue_id=int(queue_id), lmqs=lmqs)


def as_pending(record: StoredMessage) -> PendingMessage:
    """A record to be stored once more, all as it was."""
    return PendingMessage(
        topic=record.topic,
        queue_id=record.queue_id,
        flag=record.flag,
        sys_flag=record.sys_flag,
        born_timestamp=record.born_timestamp,
        born_host=record.born_host,
        store_host=record.store_host,
        reconsume_times=record.reconsume_times,
        prepared_transaction_offset=record.prepared_transaction_offset,
        body=record.body,
        properties=record.properties,
        copy_of=record.physical_offset,
    )
