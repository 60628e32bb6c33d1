"""Timer messages on their way into the wheel: the units of a slice, without an object for each.

Hot: every timer message, check point and acknowledgement of a pop passes here. Slot `t` of the wheel is for
what is due in (t, t + precision]. It names its first unit in the timer log and its last one, and each unit
names the one before it in its slot; so a message becomes a unit that points to the last one, and then is the
last one itself.

The first message that is not plain (damaged, rolled, recalled, overdue, or of the slot that is open) ends the
slice, and the rules of `timer_intake` decide about it. Interpreted, they decide about all messages.
"""

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
    from cython.cimports.orbitmq.broker.delay.rerouting import *  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.buffers.bounded import *  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.protocol.buffers.text_hash import tag_hash  # type: ignore[import-not-found]

if TYPE_CHECKING:
    from orbitmq.store.log.log_writer import LogWriter
    from orbitmq.store.timer.wheel import Slot

_CRC: bytes = CRC_TABLES
_TOPIC: bytes = TIMER_TOPIC.encode()
_NEAR_BYTES = cython.declare(cython.longlong, NEAR_BYTES)
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
    units: _Units = _Units()
    units.begin(writer, max(0, min(most, len(entries) // 20)), first_position, slot_of)
    units.now, units.precision_ms, units.window_ms = now, precision_ms, window_ms
    units.read_ms, units.span_ms, units.open_ms = read_ms, span_ms, open_ms
    end_of_log: cython.Py_ssize_t = writer.position
    source: Py_buffer
    PyObject_GetBuffer(writer.view, cython.address(source), PyBUF_SIMPLE)
    try:
        units.log = span_over(source.buf, min(end_of_log, source.len))
        while unread(cython.address(waiting)) >= 20 and units.made < most:
            physical_offset: cython.longlong = get_i64(cython.address(waiting))
            size: cython.Py_ssize_t = get_i32(cython.address(waiting))
            get_i64(cython.address(waiting))
            if not units.add(physical_offset, size):
                break
    finally:
        PyBuffer_Release(cython.address(source))
    made: Plain | None = units.result()
    return made


@cython.final
@cython.cclass
class _Units:
    """The units of a slice, as far as they are made. Compiled only."""

    made: cython.Py_ssize_t
    # Given for the whole slice, see `plain_units`:
    log: Span
    now: cython.longlong
    precision_ms: cython.longlong
    window_ms: cython.longlong
    read_ms: cython.longlong
    span_ms: cython.longlong
    open_ms: cython.longlong
    _log_start: cython.longlong
    _with_crc: cython.bint
    _first_position: cython.longlong
    _slot_of: Any
    # The slot of the message before, for neighbours mostly have the same:
    _slot_ms: cython.longlong
    _slot: list[Any]
    # Results:
    _memory: bytearray
    _out: Writer
    _slots: dict[Any, list[Any]]
    _topics: dict[str, Any]
    _end: cython.longlong

    @cython.cfunc
    def begin(
        self, writer: Any, most: cython.Py_ssize_t, first_position: cython.longlong, slot_of: Any
    ) -> cython.int:
        """Begins with no unit, and memory for `most` of them."""
        self._log_start = writer.segment_start
        self._with_crc = writer.property_crc
        self._first_position = first_position
        self._slot_of = slot_of
        self._slot_ms = -1
        self._memory = bytearray(most * 52)
        self._out = writer_of(self._memory)
        self._slots = {}
        self._topics = {}
        return 0

    @cython.cfunc
    def add(self, physical_offset: cython.longlong, size: cython.Py_ssize_t) -> cython.bint:
        """Makes the unit of a message, and the last one of its slot; False if the message is not plain."""
        record: Record
        timer: Timer
        whole: Span = record_at(self.log, self._log_start, physical_offset, size, _NEAR_BYTES)
        if not _parse_timer_message(whole, self._with_crc, cython.address(record), cython.address(timer)):
            return False
        due_ms: cython.longlong = _due_ms(cython.address(timer), self.precision_ms)
        written_ms: cython.longlong = min(i64_of(whole, record.store_time), self.now)
        written_ms -= written_ms % self.precision_ms
        slot_ms: cython.longlong = due_ms - 1 - (due_ms - 1) % self.precision_ms
        if not self._is_ahead(slot_ms, written_ms):
            return False
        if slot_ms != self._slot_ms:
            self._choose_slot(slot_ms)
        slot = self._slot
        _put_unit(
            cython.address(self._out),
            slot[1],
            written_ms,
            slot_ms,
            physical_offset,
            size,
            timer.topic,
            due_ms,
        )
        slot[1] = self._first_position + self.made * 52
        if slot[0] == _NO_UNIT:
            slot[0] = slot[1]
        slot[2] += 1
        topic: str = text_of(timer.topic)
        self._topics[topic] = self._topics.get(topic, 0) + 1
        self._end = physical_offset + size
        self.made += 1
        return True

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _is_ahead(self, slot_ms: cython.longlong, written_ms: cython.longlong) -> cython.bint:
        """True if a slot is behind the one that is delivered, not open, and neither a unit nor the wheel says
        that it is too far ahead.
        """
        return (
            slot_ms > self.read_ms
            and slot_ms != self.open_ms
            and slot_ms - written_ms < min(self.window_ms, 2_000_000_000)
            and slot_ms - self.read_ms < self.span_ms - self.precision_ms
        )

    @cython.cfunc
    def _choose_slot(self, slot_ms: cython.longlong) -> cython.int:
        """Goes on with another slot: as this slice has left it, or as it is in the wheel."""
        found = self._slots.get(slot_ms)
        if found is None:
            found = self._slots[slot_ms] = list(self._slot_of(slot_ms))
        self._slot = found
        self._slot_ms = slot_ms
        return 0

    @cython.cfunc
    def result(self) -> Any:
        if not self.made:
            return None
        return Plain(bytes(self._memory[: self.made * 52]), self._slots, self._topics, self._end)


@cython.cfunc
@cython.inline
@cython.exceptval(-1)
def _parse_timer_message(
    whole: Span, with_crc: cython.bint, record: cython.pointer[Record], timer: cython.pointer[Timer]
) -> cython.bint:
    """True if a record is a sound timer message of the usual form. Compiled only."""
    if not parse_record(whole, record) or not is_same(record.topic, span_of(_TOPIC)):
        return False
    if not parse_timer(record, i64_of(whole, record.store_time), timer):
        return False
    return has_checksums(record, with_crc, _CRC, crc32)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _due_ms(timer: cython.pointer[Timer], precision_ms: cython.longlong) -> cython.longlong:
    """Due time of a message: the time it asks for, if its slot agrees with that. Compiled only."""
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
