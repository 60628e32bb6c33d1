"""Timer messages on their way into the wheel: the units of a slice, without an object for each.

Hot: every timer message, check point and acknowledgement of a pop passes here. A message that is not plain,
because it is damaged, rolled, recalled, overdue or of the slot that is open, ends it: the rules of
`timer_intake` decide. Interpreted, all goes that way.
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

from orbitmq.protocol.names import TIMER_TOPIC
from orbitmq.protocol.records.checksums_cy import CRC_TABLES, crc32
from orbitmq.store.log.log_writer import NEAR_BYTES

if cython.compiled:
    from cython.cimports.cpython.buffer import (  # type: ignore[import-not-found]
        PyBUF_SIMPLE,
        PyBuffer_Release,
        PyObject_GetBuffer,
    )
    from cython.cimports.orbitmq.broker.delay.rerouting import (  # type: ignore[import-not-found]
        Record,
        Timer,
        parse_record,
        parse_timer,
    )
    from cython.cimports.orbitmq.protocol.buffers.bounded import (  # type: ignore[import-not-found]
        Reader,
        Span,
        Writer,
        get_i32,
        get_i64,
        i32_of,
        i64_of,
        is_same,
        part_of,
        put_u32,
        put_u64,
        reader_over,
        span_of,
        span_over,
        text_of,
        unread,
        writer_of,
    )
    from cython.cimports.orbitmq.protocol.buffers.crc import body_crc  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.buffers.text_hash import tag_hash  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.records.record import (  # type: ignore[import-not-found]
        property_crc_holds,
    )

if TYPE_CHECKING:
    from orbitmq.store.log.log_writer import LogWriter
    from orbitmq.store.timer.wheel import Slot

_CRC: bytes = CRC_TABLES
_TOPIC: bytes = TIMER_TOPIC.encode()
_NO_UNIT = -1


class Plain(NamedTuple):
    """Units for the timer log, in the order of their messages."""

    units: bytes
    slots: dict[int, list[int]]
    """Time of the slot -> its first unit, its last one, and how many it has, with these."""
    topics: dict[str, int]
    """Number of messages for each topic."""
    end: int
    """The physical offset behind the last message."""


def plain_units(
    entries: bytes,
    now: cython.longlong,
    writer: LogWriter,
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
    waiting: Reader = reader_over(span_of(entries))
    position: cython.Py_ssize_t = writer.position
    segment_start: cython.longlong = writer.segment_start
    physical_offset: cython.longlong
    end: cython.longlong = 0
    begin: cython.longlong
    size: cython.Py_ssize_t
    record: Record
    timer: Timer
    due_ms: cython.longlong
    written_ms: cython.longlong
    slot_ms: cython.longlong
    known_ms: cython.longlong = -1
    slot: list[Any] = []
    slots: dict[Any, list[Any]] = {}
    topics: dict[str, Any] = {}
    topic: str
    made: cython.Py_ssize_t = 0
    units: bytearray = bytearray(max(0, min(most, len(entries) // 20)) * 52)
    unit: Writer = writer_of(units)
    with_crc: cython.bint = writer.property_crc
    log: Span
    whole: Span
    source: Py_buffer
    PyObject_GetBuffer(writer.view, cython.address(source), PyBUF_SIMPLE)
    try:
        log = span_over(source.buf, min(position, source.len))
        while unread(cython.address(waiting)) >= 20 and made < most:
            physical_offset = get_i64(cython.address(waiting))
            size = get_i32(cython.address(waiting))
            get_i64(cython.address(waiting))
            # Damaged units hold any number: no sum of two of them may overflow.
            if physical_offset < segment_start or physical_offset > segment_start + position:
                break
            begin = physical_offset - segment_start
            if size < 91 or begin + size > position or position - begin > NEAR_BYTES:
                break
            whole = part_of(log, begin, size)
            if i64_of(whole, 28) != physical_offset or not _parse_timer_message(
                whole, with_crc, cython.address(record), cython.address(timer)
            ):
                break
            due_ms = _due_ms(cython.address(timer), precision_ms)
            written_ms = min(i64_of(whole, record.store_time), now)
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
            topic = text_of(timer.topic)
            topics[topic] = topics.get(topic, 0) + 1
            _put_unit(
                cython.address(unit), slot[1], written_ms, slot_ms, physical_offset, size, timer.topic, due_ms
            )
            end = physical_offset + size
            slot[1] = first_position + made * 52
            if slot[0] == _NO_UNIT:
                slot[0] = slot[1]
            slot[2] += 1
            made += 1
    finally:
        PyBuffer_Release(cython.address(source))
    if not made:
        return None
    return Plain(bytes(units[: made * 52]), slots, topics, end)


@cython.cfunc
@cython.inline
@cython.exceptval(-1)
def _parse_timer_message(
    whole: Span, with_crc: cython.bint, record: cython.pointer[Record], timer: cython.pointer[Timer]
) -> cython.int:
    """1 if a record is a sound timer message of the usual form, and 0 if it is not. Compiled only."""
    if not parse_record(whole, record) or not is_same(record.topic, span_of(_TOPIC)):
        return 0
    if not parse_timer(record, i64_of(whole, record.store_time), timer):
        return 0
    crc: cython.uint = body_crc(record.body, _CRC, crc32)
    if crc != cython.cast(cython.uint, i32_of(whole, 8)):
        return 0
    return 1 if not with_crc or property_crc_holds(whole, _CRC, crc32) else 0


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _due_ms(timer: cython.pointer[Timer], precision_ms: cython.longlong) -> cython.longlong:
    """When a message is due: as it asks, where its slot agrees with that. Compiled only."""
    if timer.out_ms < timer.asked_ms <= timer.out_ms + max(precision_ms, 1000):
        return timer.asked_ms
    return timer.out_ms + precision_ms


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _put_unit(
    out: cython.pointer[Writer], previous: cython.longlong, written_ms: cython.longlong,
    slot_ms: cython.longlong, physical_offset: cython.longlong, size: cython.Py_ssize_t, topic: Span,
    due_ms: cython.longlong,
) -> cython.void:  # fmt: skip
    """Writes a unit of the timer log, as `store.timer.log` shows it. Compiled only."""
    put_u32(out, 52)
    put_u64(out, previous)
    put_u32(out, 1)
    put_u64(out, written_ms)
    put_u32(out, cython.cast(cython.uint, slot_ms - written_ms))
    put_u64(out, physical_offset)
    put_u32(out, cython.cast(cython.uint, size))
    put_u32(out, cython.cast(cython.uint, tag_hash(topic)))
    put_u64(out, due_ms)
