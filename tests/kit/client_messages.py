"""Received messages for tests that need some."""

from __future__ import annotations

from orbitmq.client.core.message import ReceivedMessage
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.records.encoding_cy import encode_record, record_size
from orbitmq.protocol.records.ids import pack_host
from orbitmq.protocol.records.message import StoredMessage
from orbitmq.protocol.records.properties import encode_properties

QUEUE = MessageQueue("T", "broker-a", 0)
HOST = pack_host("127.0.0.1", 10911)


def stored(
    queue_offset: int = 0,
    body: bytes = b"body",
    *,
    topic: str = "T",
    reconsume_times: int = 0,
    sys_flag: int = 0,
    **properties: str,
) -> StoredMessage:
    return StoredMessage(
        topic,
        body,
        encode_properties(properties),
        0,
        queue_offset,
        queue_offset * 100,
        0,
        sys_flag,
        1_700_000_000_000,
        HOST,
        1_700_000_000_001,
        HOST,
        reconsume_times,
        0,
        0,
        0,
    )


def received(queue_offset: int = 0, body: bytes = b"body", **changes: object) -> ReceivedMessage:
    return ReceivedMessage(stored(queue_offset, body, **changes), QUEUE, "T")  # type: ignore[arg-type]


def record(message: StoredMessage) -> bytes:
    """The bytes of a record that holds this."""
    topic = message.topic.encode()
    out = bytearray(record_size(len(message.body), len(topic), len(message.properties)))
    encode_record(
        out,
        0,
        queue_id=message.queue_id,
        flag=message.flag,
        queue_offset=message.queue_offset,
        physical_offset=message.physical_offset,
        sys_flag=message.sys_flag,
        born_timestamp=message.born_timestamp,
        born_host=message.born_host,
        store_timestamp=message.store_timestamp,
        store_host=message.store_host,
        reconsume_times=message.reconsume_times,
        prepared_transaction_offset=message.prepared_transaction_offset,
        body=message.body,
        topic=topic,
        properties=message.properties,
    )
    return bytes(out)
