"""Delayed messages whose time has come, copied within the map to where they belong.

Hot: every delayed message passes here. The record is the one that waits, but for topic, queue, the two
offsets and the store time. A record that is not sound, or has no place yet (an unknown queue, a full
segment), ends it: the rules of `delay` decide. Interpreted, all goes that way.
"""

# mypy: disable-error-code="name-defined,misc,untyped-decorator,unused-ignore"
# ruff: noqa: F821
# (Py_buffer and the C structures are names that only the compiler knows.)

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, Any, NamedTuple

try:
    import cython
except ModuleNotFoundError:
    from orbitmq import _cython_shim as cython  # type: ignore[no-redef]

from orbitmq.protocol.records.message_cy import CRC_TABLES, crc32
from orbitmq.store.queue.room import NEAR_BYTES

if cython.compiled:
    from cython.cimports.cpython.buffer import (  # type: ignore[import-not-found]
        PyBUF_WRITABLE,
        PyBuffer_Release,
        PyObject_GetBuffer,
    )
    from cython.cimports.orbitmq.broker.delay.rerouting import (  # type: ignore[import-not-found]
        Delayed,
        Record,
        look_at_delayed,
        look_at_record,
    )
    from cython.cimports.orbitmq.protocol.buffers.bounded import (  # type: ignore[import-not-found]
        Reader,
        Span,
        Writer,
        get_i32,
        get_i64,
        i32_of,
        i64_of,
        part_of,
        put_span,
        put_u8,
        put_u16,
        reader_over,
        set_u32,
        set_u64,
        skip,
        span_of,
        span_written,
        text_of,
        unread,
        writer_over,
    )
    from cython.cimports.orbitmq.protocol.buffers.crc import body_crc  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.remoting.send_header import to_number  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.store.queue.units import put_unit  # type: ignore[import-not-found]

if TYPE_CHECKING:
    from orbitmq.store.queue.room import Room

_CRC: bytes = CRC_TABLES
_SMALL_BYTES = 1024
"""Larger messages are counted one by one: statistics tell sizes above it apart."""


class Copied(NamedTuple):
    """Result of a delivery."""

    messages: int
    """Number of messages delivered, from the first on."""
    counted: list[tuple[str, int, int, int]]
    """Topic, queue id, messages and their bytes."""


def copy_due(units: bytes, now: cython.longlong, room: Room, refused: Container[str]) -> Copied | None:
    """Delivers messages by their units in a waiting queue, as far as they are due and need nothing but
    copying; none go to the `refused` topics. None where not even the first is delivered.
    """
    if not cython.compiled:
        return None
    source: Reader = reader_over(span_of(units))
    position: cython.Py_ssize_t = room.position
    limit: cython.Py_ssize_t = room.limit
    segment_start: cython.longlong = room.segment_start
    max_body: cython.Py_ssize_t = room.max_body_bytes
    max_record: cython.Py_ssize_t = room.max_record_bytes
    by_topic: dict[str, Any] = room.queues
    dirty: list[Any] = room.dirty
    physical_offset: cython.longlong
    begin: cython.longlong
    size: cython.Py_ssize_t
    crc: cython.uint
    record: Record
    delayed: Delayed
    queue_id: cython.longlong = 0
    queue: Any
    queue_offset: cython.longlong
    waiting: Span
    due: cython.longlong
    done: cython.Py_ssize_t = 0
    counts: dict[Any, list[Any]] = {}
    target: Py_buffer
    PyObject_GetBuffer(room.view, cython.address(target), PyBUF_WRITABLE)
    try:
        log: Writer = writer_over(target.buf, min(limit, target.len))
        skip(cython.address(log), position)
        while unread(cython.address(source)) >= 20:
            physical_offset = get_i64(cython.address(source))
            size = get_i32(cython.address(source))
            due = get_i64(cython.address(source))
            if due > now:
                break
            # Damaged units hold any number: no sum of two of them may overflow.
            if physical_offset < segment_start or physical_offset > segment_start + position:
                break
            begin = physical_offset - segment_start
            if size <= 0 or begin + size > position or position - begin > NEAR_BYTES:
                break
            waiting = part_of(span_written(cython.address(log)), begin, size)
            if (
                i64_of(waiting, 28) != physical_offset
                or not look_at_record(waiting, cython.address(record))
                or not look_at_delayed(cython.address(record), cython.address(delayed))
            ):
                break
            crc = body_crc(record.body, _CRC, crc32)
            if crc != cython.cast(cython.uint, i32_of(waiting, 8)):
                break
            if not to_number(delayed.queue_id, cython.address(queue_id)):
                break
            topic: str = text_of(delayed.topic)
            queues = by_topic.get(topic)
            queue = None if queues is None else queues.get(queue_id)
            if queue is None or queue.code_is_special or topic in refused:
                break
            size += delayed.topic.size - record.topic.size
            if record.body.size > max_body or size > max_record or size + 8 > limit - position:
                break
            # Statistics tell large ones apart: each counts by itself.
            key = (topic, queue_id, -1 if size <= _SMALL_BYTES else done)
            count = counts.get(key)
            if count is None:
                count = counts[key] = [0, 0]
            count[0] += 1
            count[1] += size
            if not queue.dirty:
                dirty.append(queue)
                queue.dirty = True
            queue_offset = queue.max_offset
            # All before the topic, the topic, and the properties with their length.
            put_span(cython.address(log), part_of(waiting, 0, record.before_topic))
            set_u32(cython.address(log), position, cython.cast(cython.uint, size))
            set_u32(cython.address(log), position + 12, cython.cast(cython.uint, queue_id))
            set_u64(cython.address(log), position + 20, queue_offset)
            set_u64(cython.address(log), position + 28, segment_start + position)
            set_u64(cython.address(log), position + record.store_time, room.store_timestamp)
            put_u8(cython.address(log), cython.cast(cython.uchar, delayed.topic.size))
            put_span(cython.address(log), delayed.topic)
            put_u16(cython.address(log), cython.cast(cython.uint, record.properties.size))
            put_span(cython.address(log), record.properties)
            if log.overflow:
                raise SystemError("a delayed message was measured smaller than it is")
            put_unit(queue.tail, segment_start + position, cython.cast(cython.int, size), delayed.tags_code)
            queue.max_offset = queue_offset + 1
            room.last_record = segment_start + position
            position += size
            room.position = position
            done += 1
    finally:
        PyBuffer_Release(cython.address(target))
    if not done:
        return None
    return Copied(done, [(key[0], key[1], count[0], count[1]) for key, count in counts.items()])
