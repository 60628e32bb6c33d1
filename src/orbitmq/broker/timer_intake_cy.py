"""Timer messages on their way into the wheel: the units of a slice, without an object for each.

Hot: every timer message, check point and acknowledgement of a pop passes here. Whatever is not plain, because
it is damaged, rolled, recalled, overdue or of the slot that is open, ends it: the rules of `timer_intake`
decide. Interpreted, all goes that way.
"""

# mypy: disable-error-code="name-defined,misc,untyped-decorator,unused-ignore"
# ruff: noqa: F821
# (Py_buffer and the C structures are names that only the compiler knows.)

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

try:
    import cython
except ModuleNotFoundError:
    from orbitmq import _cython_shim as cython  # type: ignore[no-redef]

from orbitmq.protocol.message_cy import CRC_TABLES, crc32
from orbitmq.protocol.names import TIMER_TOPIC
from orbitmq.store.room import NEAR_BYTES

if cython.compiled:
    from cython.cimports.cpython.buffer import (  # type: ignore[import-not-found]
        PyBUF_SIMPLE,
        PyBuffer_Release,
        PyObject_GetBuffer,
    )
    from cython.cimports.cpython.bytearray import PyByteArray_AS_STRING  # type: ignore[import-not-found]
    from cython.cimports.cpython.bytes import (  # type: ignore[import-not-found]
        PyBytes_AS_STRING,
        PyBytes_GET_SIZE,
    )
    from cython.cimports.cpython.memoryview import PyMemoryView_FromMemory  # type: ignore[import-not-found]
    from cython.cimports.cpython.unicode import PyUnicode_DecodeUTF8  # type: ignore[import-not-found]
    from cython.cimports.libc.string import memcmp  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.broker.aside import (  # type: ignore[import-not-found]
        Record,
        Timer,
        look_at_record,
        look_at_timer,
        tag_hash,
    )
    from cython.cimports.orbitmq.protocol.big_endian import (  # type: ignore[import-not-found]
        get_int,
        get_long,
        put_int,
        put_long,
    )
    from cython.cimports.orbitmq.protocol.crc import short_crc  # type: ignore[import-not-found]

if TYPE_CHECKING:
    from orbitmq.store.room import Room
    from orbitmq.store.timer_wheel import Slot

_CRC: bytes = CRC_TABLES
_TOPIC: bytes = TIMER_TOPIC.encode()
_NO_UNIT = -1


class Plain(NamedTuple):
    """Units for the timer log, in the order of their messages."""

    units: bytes
    slots: dict[int, list[int]]
    """Time of the slot -> its first unit, its last one, and how many it has, with these."""
    topics: dict[str, int]
    """How many messages are for a topic."""
    end: int
    """The physical offset behind the last message."""


def plain_units(
    entries: bytes,
    now: cython.longlong,
    room: Room,
    first_position: cython.longlong,
    most: cython.Py_ssize_t,
    slot_of: Callable[[int], Slot],
    precision_ms: cython.longlong,
    window_ms: cython.longlong,
    read_ms: cython.longlong,
    span_ms: cython.longlong,
    open_ms: cython.longlong,
) -> Plain | None:
    """The units of messages by their entries in the timer topic, as far as they are plain, `most` of them.

    None if the first is not plain. The first unit stands at `first_position`.

    `slot_of` gives a slot of the wheel, which reaches `span_ms`; `read_ms` is the slot that is delivered,
    `open_ms` the one that is open, -1 for none. No message waits further ahead than `window_ms`.
    """
    if not cython.compiled:
        return None
    at: cython.pointer[cython.const[cython.uchar]] = cython.cast(
        cython.pointer[cython.const[cython.uchar]], PyBytes_AS_STRING(entries)
    )
    left: cython.Py_ssize_t = PyBytes_GET_SIZE(entries)
    tables: cython.pointer[cython.const[cython.uint]] = cython.cast(
        cython.pointer[cython.const[cython.uint]], PyBytes_AS_STRING(_CRC)
    )
    position: cython.Py_ssize_t = room.position
    segment_start: cython.longlong = room.segment_start
    physical_offset: cython.longlong
    begin: cython.longlong
    size: cython.Py_ssize_t
    crc: cython.uint
    record: Record
    timer: Timer
    stored_ms: cython.longlong
    due_ms: cython.longlong
    written_ms: cython.longlong
    slot_ms: cython.longlong
    known_ms: cython.longlong = -1
    slot: list[Any] = []
    slots: dict[Any, list[Any]] = {}
    topics: dict[str, Any] = {}
    topic: str
    made: cython.Py_ssize_t = 0
    units: bytearray = bytearray(max(0, min(most, left // 20)) * 52)
    unit: cython.p_uchar
    base: cython.p_uchar
    source: Py_buffer
    PyObject_GetBuffer(room.view, cython.address(source), PyBUF_SIMPLE)
    try:
        base = cython.cast(cython.p_uchar, source.buf)
        while left >= 20 and made < most:
            physical_offset = get_long(at)
            size = get_int(at + 8)
            begin = physical_offset - segment_start
            if begin < 0 or size < 91 or begin + size > position or position - begin > NEAR_BYTES:
                break
            if (
                get_long(base + begin + 28) != physical_offset
                or not look_at_record(base + begin, size, cython.address(record))
                or record.topic_size != PyBytes_GET_SIZE(_TOPIC)
                or memcmp(record.topic, PyBytes_AS_STRING(_TOPIC), record.topic_size) != 0
            ):
                break
            stored_ms = get_long(base + begin + record.store_time)
            if not look_at_timer(cython.address(record), stored_ms, cython.address(timer)):
                break
            if record.body_size <= 512:
                crc = short_crc(tables, record.body, record.body_size) & 0x7FFFFFFF
            else:
                crc = crc32(
                    PyMemoryView_FromMemory(cython.cast(cython.p_char, record.body), record.body_size, 0x100)
                )
            if crc != cython.cast(cython.uint, get_int(base + begin + 8)):
                break
            due_ms = timer.asked_ms
            if not timer.out_ms < due_ms <= timer.out_ms + max(precision_ms, 1000):
                due_ms = timer.out_ms + precision_ms
            written_ms = min(stored_ms, now)
            written_ms -= written_ms % precision_ms
            slot_ms = due_ms - 1 - (due_ms - 1) % precision_ms
            if (
                slot_ms <= read_ms
                or slot_ms == open_ms
                or slot_ms - written_ms >= min(window_ms, 2_000_000_000)
                or slot_ms - read_ms >= span_ms - precision_ms
            ):
                break
            if slot_ms != known_ms:
                found = slots.get(slot_ms)
                if found is None:
                    found = slots[slot_ms] = list(slot_of(slot_ms))
                slot = found
                known_ms = slot_ms
            topic = PyUnicode_DecodeUTF8(
                cython.cast(cython.p_char, timer.topic), timer.topic_size, cython.NULL
            )
            topics[topic] = topics.get(topic, 0) + 1
            unit = cython.cast(cython.p_uchar, PyByteArray_AS_STRING(units)) + made * 52
            put_int(unit, 52)
            put_long(unit + 4, cython.cast(cython.longlong, slot[1]))
            put_int(unit + 12, 1)
            put_long(unit + 16, written_ms)
            put_int(unit + 24, cython.cast(cython.uint, slot_ms - written_ms))
            put_long(unit + 28, physical_offset)
            put_int(unit + 36, cython.cast(cython.uint, size))
            put_int(
                unit + 40,
                cython.cast(cython.uint, tag_hash(cython.cast(cython.p_char, timer.topic), timer.topic_size)),
            )
            put_long(unit + 44, due_ms)
            slot[1] = first_position + made * 52
            if slot[0] == _NO_UNIT:
                slot[0] = slot[1]
            slot[2] += 1
            made += 1
            at += 20
            left -= 20
    finally:
        PyBuffer_Release(cython.address(source))
    if not made:
        return None
    return Plain(bytes(units[: made * 52]), slots, topics, get_long(at - 20) + get_int(at - 12))
