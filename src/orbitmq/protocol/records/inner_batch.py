"""Several messages stored as one record (sysFlag 0x40 and 0x80): what a consumer sees of it."""

from __future__ import annotations

from dataclasses import replace

from orbitmq.protocol.records.batch_cy import split_batch
from orbitmq.protocol.records.compression import inflate
from orbitmq.protocol.records.message import (
    COMPRESSED,
    COMPRESSION_MASK,
    INNER_BATCH,
    NEED_UNWRAP,
    BadRecord,
    StoredMessage,
)
from orbitmq.protocol.records.properties import find_property


def plain_messages(record: StoredMessage, limit_bytes: int) -> list[StoredMessage]:
    """The messages in a record, their bodies inflated: one, or those of an inner batch.

    The messages of a batch have their own flag, body and properties and follow each other in queue offset;
    the rest is the record's. The bits of sysFlag that said how the body was packed are cleared. `limit_bytes`
    bounds what a body may inflate to. Raises CompressionError, BadRecord.
    """
    if record.sys_flag & COMPRESSED:
        record = record.with_body(inflate(record.body, record.sys_flag, limit_bytes))
    if not is_inner_batch(record.sys_flag):
        return [record]
    sys_flag = record.sys_flag & ~(NEED_UNWRAP | INNER_BATCH | COMPRESSED | COMPRESSION_MASK)
    base = base_queue_offset(record)
    return [
        replace(
            record,
            flag=flag,
            body=body,
            properties=properties,
            sys_flag=sys_flag,
            queue_offset=base + place,
        )
        for place, (flag, body, properties) in enumerate(split_batch(record.body))
    ]


def is_inner_batch(sys_flag: int) -> bool:
    """True if a record holds several messages."""
    return sys_flag & (NEED_UNWRAP | INNER_BATCH) == NEED_UNWRAP | INNER_BATCH


def base_queue_offset(record: StoredMessage) -> int:
    """Queue offset of a record's first message: INNER_BASE, which the broker wrote, else the record's own.

    Raises BadRecord for an INNER_BASE that is no number.
    """
    text = find_property(record.properties, b"INNER_BASE")
    if text is None:
        return record.queue_offset
    if not text.isdigit() or len(text) > 19:
        raise BadRecord(f"INNER_BASE {text[:24]!r} is no queue offset")
    return int(text)
