"""The inner loop of appends: messages become records in the map and units in the tails of their queues.

Hot: every stored message passes here once. The caller has made sure that blocks are reserved up to `limit`
and calls again with more room when a message does not fit; nothing here waits, and nothing is half done.
"""
# mypy: disable-error-code="name-defined"

from __future__ import annotations

from struct import Struct
from typing import Any

try:
    import cython
except ModuleNotFoundError:
    from orbitmq import _cython_shim as cython  # type: ignore[no-redef]

from orbitmq.protocol.message import INNER_BATCH, RecordTooLarge
from orbitmq.protocol.message_cy import encode_record, record_size
from orbitmq.protocol.properties_cy import tags_code
from orbitmq.store.messages import Appended, PendingMessage, PutStatus

if cython.compiled:
    from cython.cimports.cpython.bytearray import (  # type: ignore[import-not-found]
        PyByteArray_AS_STRING,
        PyByteArray_GET_SIZE,
        PyByteArray_Resize,
    )

_UNIT = Struct(">qiq")
_BLANK_BYTES = 8

_OK = PutStatus.PUT_OK
_ILLEGAL = PutStatus.MESSAGE_ILLEGAL
_PROPERTIES_SIZE_EXCEEDED = PutStatus.PROPERTIES_SIZE_EXCEEDED


class Limits:
    """What a message may be like; see the options of the same names."""

    __slots__ = ("append_property_crc", "max_batch_bytes", "max_body_bytes", "max_record_bytes")

    def __init__(self, append_property_crc: bool) -> None:
        self.append_property_crc = append_property_crc
        self.max_body_bytes = 0
        self.max_record_bytes = 0
        self.max_batch_bytes = 0


def append_messages(
    messages: list[PendingMessage],
    index: cython.Py_ssize_t,
    out: Any,
    position: cython.Py_ssize_t,
    limit: cython.Py_ssize_t,
    segment_start: cython.longlong,
    store_timestamp: cython.longlong,
    tables: dict[str, dict[int, Any]],
    make_queue: Any,
    due_time: Any,
    limits: Limits,
    results: list[Appended],
    dirty: list[Any],
) -> tuple[int, int, int]:
    """Appends from `messages[index]` on into `out[position:limit]`, where byte 0 is physical `segment_start`.

    Gives (index, position, needed): where it ended, and how many bytes the message at `index` (its whole
    batch, if it begins one) needs, 0 when all are done. One result per message is added to `results`: a
    message that cannot be stored has a status that says so and costs the others nothing.

    `make_queue(topic, queue_id)` gives a queue that is not in `tables`, None if its name is impossible;
    `due_time(message, store_timestamp)` the tags code of a message in the topic of delayed ones.
    Queues that were not listed yet as having something new are added to `dirty`.
    """
    count: cython.Py_ssize_t = len(messages)
    max_body: cython.Py_ssize_t = limits.max_body_bytes
    max_record: cython.Py_ssize_t = limits.max_record_bytes
    append_crc: cython.bint = limits.append_property_crc
    size: cython.Py_ssize_t
    followers: cython.Py_ssize_t
    checked: cython.Py_ssize_t = index
    physical_offset: cython.longlong
    queue_offset: cython.longlong
    tag: cython.longlong
    queue_id: cython.int = 0
    topic: str | None = None
    queue: Any = None
    while index < count:
        message = messages[index]
        followers = message.followers
        if followers and checked <= index:
            # A batch is looked at as a whole first: all of it is stored, in one segment, or nothing.
            followers = min(followers, count - index - 1)
            status, size = batch_size(messages, index, followers, limits)
            if status is not None:
                results += [Appended(status) for _ in range(followers + 1)]
                index += followers + 1
                continue
            if size + _BLANK_BYTES > limit - position:
                return index, position, size
            checked = index + followers + 1
        body = message.body
        properties: bytes = message.properties
        if topic is None or message.queue_id != queue_id or message.topic != topic:
            queue = None
            queues = tables.get(message.topic)
            if queues is not None:
                queue = queues.get(message.queue_id)
            if queue is None:
                queue = make_queue(message.topic, message.queue_id)
                if queue is None:
                    results.append(Appended(_ILLEGAL))
                    topic = None
                    index += 1
                    continue
            topic = message.topic
            queue_id = message.queue_id
        if len(body) > max_body or b"\x00" in properties or message.sys_flag & INNER_BATCH:
            results.append(Appended(_ILLEGAL))
            index += 1
            continue
        if len(properties) > 32767:
            results.append(Appended(_PROPERTIES_SIZE_EXCEEDED))
            index += 1
            continue
        size = record_size(
            len(body),
            len(queue.topic_bytes),
            len(properties),
            len(message.born_host),
            len(message.store_host),
            append_crc,
        )
        if size > max_record:
            results.append(Appended(_ILLEGAL))
            index += 1
            continue
        if size + _BLANK_BYTES > limit - position:
            return index, position, size
        physical_offset = segment_start + position
        # Half messages and what takes them back are in no consume queue.
        in_queue: cython.bint = (message.sys_flag & 0xC) in (0, 8)
        queue_offset = queue.max_offset if in_queue else 0
        try:
            size = encode_record(
                out,
                position,
                message.queue_id,
                message.flag,
                queue_offset,
                physical_offset,
                message.sys_flag,
                message.born_timestamp,
                message.born_host,
                store_timestamp,
                message.store_host,
                message.reconsume_times,
                message.prepared_transaction_offset,
                body,
                queue.topic_bytes,
                properties,
                None,
                append_crc,
            )
        except RecordTooLarge:
            results.append(Appended(_PROPERTIES_SIZE_EXCEEDED))
            index += 1
            continue
        except (OverflowError, ValueError, TypeError):
            results.append(Appended(_ILLEGAL))
            index += 1
            continue
        if in_queue:
            code = message.tags_code
            if code is None:
                code = due_time(message, store_timestamp) if queue.is_schedule else tags_code(properties)
            tag = code
            if cython.compiled:
                _put_unit(queue.tail, physical_offset, cython.cast(cython.int, size), tag)
            else:
                queue.tail += _UNIT.pack(physical_offset, size, tag)
            queue.max_offset = queue_offset + 1
            if not queue.dirty:
                queue.dirty = True
                dirty.append(queue)
        results.append(Appended(_OK, physical_offset, size, queue_offset, store_timestamp))
        position += size
        index += 1
    return index, position, 0


@cython.cfunc
def _put_unit(
    tail: bytearray, physical_offset: cython.longlong, size: cython.int, tag: cython.longlong
) -> cython.void:
    """Adds a unit to a tail. Compiled only."""
    length: cython.Py_ssize_t = PyByteArray_GET_SIZE(tail)
    PyByteArray_Resize(tail, length + 20)
    at: cython.p_uchar = cython.cast(cython.p_uchar, PyByteArray_AS_STRING(tail)) + length
    i: cython.int
    value: cython.ulonglong = physical_offset
    for i in range(8):
        at[7 - i] = value & 0xFF
        value >>= 8
    bits: cython.uint = size
    for i in range(4):
        at[11 - i] = bits & 0xFF
        bits >>= 8
    value = tag
    for i in range(8):
        at[19 - i] = value & 0xFF
        value >>= 8


def batch_size(
    messages: list[PendingMessage], index: int, followers: int, limits: Limits
) -> tuple[PutStatus | None, int]:
    """What keeps a batch from being stored, if anything does, and its size in bytes."""
    total = 0
    for message in messages[index : index + followers + 1]:
        if len(message.properties) > 32767:
            return _PROPERTIES_SIZE_EXCEEDED, 0
        size = record_size(
            len(message.body),
            len(message.topic.encode()),
            len(message.properties),
            len(message.born_host),
            len(message.store_host),
            limits.append_property_crc,
        )
        if (
            len(message.body) > limits.max_body_bytes
            or size > limits.max_record_bytes
            or b"\x00" in message.properties
            or message.sys_flag & INNER_BATCH
        ):
            return _ILLEGAL, 0
        total += size
    if total > limits.max_batch_bytes:
        return _ILLEGAL, 0
    return None, total
