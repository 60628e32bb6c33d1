"""Delayed messages whose time has come, copied within the map to where they belong.

Hot: every delayed message passes here. The record is the one that waits, but for topic, queue, the two
offsets and the store time. What is not sound, or has no place yet (an unknown queue, a full segment), ends
it: the rules of `delay` decide. Interpreted, all goes that way.
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

from orbitmq.protocol.message_cy import CRC_TABLES, crc32
from orbitmq.store.room import NEAR_BYTES

if cython.compiled:
    from cython.cimports.cpython.buffer import (  # type: ignore[import-not-found]
        PyBUF_WRITABLE,
        PyBuffer_Release,
        PyObject_GetBuffer,
    )
    from cython.cimports.cpython.bytes import (  # type: ignore[import-not-found]
        PyBytes_AS_STRING,
        PyBytes_GET_SIZE,
    )
    from cython.cimports.cpython.memoryview import PyMemoryView_FromMemory  # type: ignore[import-not-found]
    from cython.cimports.cpython.unicode import PyUnicode_DecodeUTF8  # type: ignore[import-not-found]
    from cython.cimports.libc.string import memcpy  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.broker.aside import (  # type: ignore[import-not-found]
        Delayed,
        Record,
        look_at_delayed,
        look_at_record,
    )
    from cython.cimports.orbitmq.protocol.big_endian import (  # type: ignore[import-not-found]
        get_int,
        get_long,
        put_int,
        put_long,
    )
    from cython.cimports.orbitmq.protocol.crc import is_short, short_crc  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.send_header import to_number  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.store.units import put_unit  # type: ignore[import-not-found]

if TYPE_CHECKING:
    from orbitmq.store.room import Room

_CRC: bytes = CRC_TABLES
_SMALL_BYTES = 1024
"""Larger messages are counted one by one: statistics tell sizes above it apart."""


class Copied(NamedTuple):
    """What was delivered."""

    messages: int
    """How many, from the first on."""
    counted: list[tuple[str, int, int, int]]
    """Topic, queue id, messages and their bytes."""


def copy_due(units: bytes, now: cython.longlong, room: Room, refused: Container[str]) -> Copied | None:
    """Delivers messages by their units in a waiting queue, as far as they are due and need nothing but
    copying; none go to the `refused` topics. None where not even the first is delivered.
    """
    if not cython.compiled:
        return None
    at: cython.pointer[cython.const[cython.uchar]] = cython.cast(
        cython.pointer[cython.const[cython.uchar]], PyBytes_AS_STRING(units)
    )
    left: cython.Py_ssize_t = PyBytes_GET_SIZE(units)
    tables: cython.pointer[cython.const[cython.uint]] = cython.cast(
        cython.pointer[cython.const[cython.uint]], PyBytes_AS_STRING(_CRC)
    )
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
    base: cython.p_uchar
    waiting: cython.p_uchar
    out: cython.p_uchar
    done: cython.Py_ssize_t = 0
    counts: dict[Any, list[Any]] = {}
    target: Py_buffer
    PyObject_GetBuffer(room.view, cython.address(target), PyBUF_WRITABLE)
    try:
        base = cython.cast(cython.p_uchar, target.buf)
        while left >= 20:
            if get_long(at + 12) > now:
                break
            physical_offset = get_long(at)
            size = get_int(at + 8)
            begin = physical_offset - segment_start
            if begin < 0 or size <= 0 or begin + size > position or position - begin > NEAR_BYTES:
                break
            waiting = base + begin
            if (
                get_long(waiting + 28) != physical_offset
                or not look_at_record(waiting, size, cython.address(record))
                or not look_at_delayed(cython.address(record), cython.address(delayed))
            ):
                break
            if is_short(record.body_size):
                crc = short_crc(tables, record.body, record.body_size) & 0x7FFFFFFF
            else:
                crc = crc32(
                    PyMemoryView_FromMemory(cython.cast(cython.p_char, record.body), record.body_size, 0x100)
                )
            if crc != cython.cast(cython.uint, get_int(waiting + 8)):
                break
            if not to_number(delayed.queue_id, delayed.queue_id_size, cython.address(queue_id)):
                break
            topic: str = PyUnicode_DecodeUTF8(
                cython.cast(cython.p_char, delayed.topic), delayed.topic_size, cython.NULL
            )
            queues = by_topic.get(topic)
            queue = None if queues is None else queues.get(queue_id)
            if queue is None or queue.code_is_special or topic in refused:
                break
            size += delayed.topic_size - record.topic_size
            if record.body_size > max_body or size > max_record or size + 8 > limit - position:
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
            out = base + position
            # All before the topic, the topic, and the properties with their length.
            memcpy(out, waiting, record.before_topic)
            put_int(out, cython.cast(cython.uint, size))
            put_int(out + 12, cython.cast(cython.uint, queue_id))
            put_long(out + 20, queue_offset)
            put_long(out + 28, segment_start + position)
            put_long(out + record.store_time, room.store_timestamp)
            out += record.before_topic
            out[0] = cython.cast(cython.uchar, delayed.topic_size)
            memcpy(out + 1, delayed.topic, delayed.topic_size)
            memcpy(out + 1 + delayed.topic_size, record.properties - 2, record.properties_size + 2)
            put_unit(queue.tail, segment_start + position, cython.cast(cython.int, size), delayed.tags_code)
            queue.max_offset = queue_offset + 1
            room.last_record = segment_start + position
            position += size
            room.position = position
            done += 1
            at += 20
            left -= 20
    finally:
        PyBuffer_Release(cython.address(target))
    if not done:
        return None
    return Copied(done, [(key[0], key[1], count[0], count[1]) for key, count in counts.items()])
