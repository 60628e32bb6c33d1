"""The inner loop of reads: units of a consume queue become views of the records they point to.

Hot: every delivered message passes here. Each record is checked against its unit, its place, its topic and
its body's checksum before it is served; neighbours in the log become one view. Small answers are copied
instead: a view of each message would cost more than its bytes.
"""
# mypy: disable-error-code="name-defined"
# ruff: noqa: F821
# (Py_buffer is a name that only the compiler knows.)

from __future__ import annotations

from typing import Any

try:
    import cython
except ModuleNotFoundError:
    from orbitmq import _cython_shim as cython  # type: ignore[no-redef]

from orbitmq.protocol.records.message_cy import CRC_TABLES, crc32, scan_records
from orbitmq.protocol.records.queue_units import UNIT

if cython.compiled:
    from cython.cimports.cpython.buffer import (  # type: ignore[import-not-found]
        PyBUF_SIMPLE,
        PyBuffer_Release,
        PyObject_GetBuffer,
    )
    from cython.cimports.orbitmq.protocol.buffers.bounded import (  # type: ignore[import-not-found]
        Reader,
        Span,
        Writer,
        byte_of,
        find_byte,
        get_i32,
        get_i64,
        i16_of,
        i32_of,
        i64_of,
        is_same,
        no_span,
        part_of,
        put_span,
        reader_over,
        rest_of,
        skip,
        span_of,
        span_of_literal,
        span_over,
        view_of,
        writer_of,
    )
    from cython.cimports.orbitmq.protocol.buffers.crc import body_crc  # type: ignore[import-not-found]

_LONG_TOPIC_MAGIC = (-626843477).to_bytes(4, "big", signed=True)
"""Magic number of records whose topics are longer than 127 bytes."""

UNITS_PER_READ: cython.Py_ssize_t = 256
"""Units that are looked at together, where a filter may want any number of them."""
_CRC: bytes = CRC_TABLES


class Picked:
    """The result of `pick_records`."""

    __slots__ = (
        "bad",
        "cold",
        "count",
        "is_large",
        "is_old",
        "next_offset",
        "records",
        "removed",
        "size_bytes",
    )

    def __init__(self) -> None:
        self.records: list[memoryview] = []
        self.count = 0
        self.size_bytes = 0
        self.next_offset = 0
        """The queue offset behind the last unit looked at."""
        self.bad: list[tuple[int, int]] = []
        """(queue offset, physical offset) of records that are not what they have to be."""
        self.removed = False
        """Some unit pointed to where the log has nothing any more."""
        self.cold: tuple[int, int] | None = None
        """The next record is not in memory: its physical offset and size."""
        self.is_old = False
        """The last record looked at is further from the end than what counts as in memory."""
        self.is_large = False
        """There is no room to copy all the records: those that are there count for nothing."""


@cython.ccall
def pick_records(
    picked: Picked,
    units: bytes,
    first_offset: cython.longlong,
    queue_id: cython.int,
    topic: bytes,
    accept: Any,
    is_set: cython.bint,
    max_count: cython.Py_ssize_t,
    max_bytes: cython.longlong,
    limits: tuple[int, int, int, int],
    max_physical: cython.longlong,
    memory_bytes: cython.longlong,
    hot_from: cython.longlong,
    log: Any,
    whole: cython.bint,
    matches: Any = None,
    into: bytearray | None = None,
) -> bool:
    """Takes records for a range of units, the first of which has queue offset `first_offset`, into `picked`.

    `accept` is None, a set of tags codes (`is_set`) or a function of the tags code. `limits` are bytes and
    count of recent messages and bytes and count of old ones that one answer may hold; the first message is
    always taken. `log` has `find(physical)`, `next_segment_start(physical)` and `resident_to(physical,
    size)`; records from `hot_from` on are in memory for sure. Gives whether there is room for more.

    `whole`: records that end with a checksum over all of them have to have the right one.
    `matches(properties)` is asked of every sound record; None takes all.

    With `into` records are copied there, one behind the other, and there are no views.
    """
    memory_size: cython.longlong = limits[0]
    memory_count: cython.Py_ssize_t = limits[1]
    disk_size: cython.longlong = limits[2]
    disk_count: cython.Py_ssize_t = limits[3]
    count: cython.Py_ssize_t = len(units) // 20
    taken: cython.Py_ssize_t = picked.count
    total: cython.longlong = picked.size_bytes
    i: cython.Py_ssize_t = 0
    physical_offset: cython.longlong
    size: cython.longlong
    tag: cython.longlong
    skip_to: cython.longlong = 0
    segment_start: cython.longlong = 0
    segment_end: cython.longlong = -1
    resident_to: cython.longlong = 0
    run_start: cython.longlong = 0
    run_end: cython.longlong = -1
    view: Any = None
    is_old: cython.bint = False
    more: cython.bint = True
    good: cython.bint
    records: list[memoryview] = picked.records
    copies: cython.bint = into is not None
    room: cython.longlong = len(into) if into is not None else 0
    if cython.compiled:
        copy: Writer
        if copies:
            copy = writer_of(into)
            skip(cython.address(copy), total)
        whole_units: Span = span_of(units)
        buffer: Py_buffer
        held: cython.bint = False
        data: Span = no_span()
        record: Span
    if copies and memory_size > room and accept is None and _size_of(units, max_count) > room:
        picked.is_large = True
        return False
    try:
        while i < count:
            if cython.compiled:
                physical_offset = i64_of(whole_units, i * 20)
                size = i32_of(whole_units, i * 20 + 8)
                tag = i64_of(whole_units, i * 20 + 12)
            else:
                physical_offset, size, tag = UNIT.unpack_from(units, i * 20)
            if physical_offset < skip_to or size <= 0 or size == 0x7FFFFFFF:
                i += 1
                continue
            is_old = max_physical - physical_offset > memory_bytes
            if taken:
                if taken >= max_count or total + size > max_bytes:
                    more = False
                    break
                if is_old:
                    if total + size > disk_size or taken >= disk_count:
                        more = False
                        break
                elif total + size > memory_size or taken >= memory_count:
                    more = False
                    break
            if accept is not None and not ((tag in accept) if is_set else accept(tag)):
                i += 1
                continue
            # A damaged unit holds any number: the sum of two of them could overflow.
            if physical_offset < segment_start or physical_offset > segment_end - size:
                if run_end > run_start:
                    records.append(view[run_start - segment_start : run_end - segment_start])
                run_start = run_end = 0
                segment = log.find(physical_offset)
                if segment is None or physical_offset + size > segment.start + segment.wrote:
                    segment_end = -1
                    if segment is None and physical_offset < max_physical:
                        picked.removed = True
                        skip_to = log.next_segment_start(physical_offset)
                    else:
                        picked.bad.append((first_offset + i, physical_offset))
                    i += 1
                    continue
                view = segment.view
                segment_start = segment.start
                segment_end = segment_start + segment.wrote
                if cython.compiled:
                    if held:
                        PyBuffer_Release(cython.address(buffer))
                        held = False
                    PyObject_GetBuffer(view, cython.address(buffer), PyBUF_SIMPLE)
                    held = True
                    data = span_over(buffer.buf, buffer.len)
            if physical_offset < hot_from and physical_offset + size > resident_to:
                resident_to = log.resident_to(physical_offset, size)
                if physical_offset + size > resident_to:
                    picked.cold = (physical_offset, size)
                    more = False
                    break
            if cython.compiled:
                record = part_of(data, physical_offset - segment_start, size)
                good = record.size == size and _is_sound(
                    record, physical_offset, queue_id, first_offset + i, span_of(topic), whole
                )
            else:
                good = is_sound(
                    view,
                    segment_start,
                    physical_offset,
                    size,
                    queue_id,
                    first_offset + i,
                    topic.decode(),
                    whole,
                )
            if not good:
                picked.bad.append((first_offset + i, physical_offset))
                i += 1
                continue
            if matches is not None and not matches(
                properties_of(view, physical_offset - segment_start, size)
            ):
                i += 1
                continue
            if copies:
                if total + size > room:
                    picked.is_large = True
                    return False
                if cython.compiled:
                    put_span(cython.address(copy), record)
                elif into is not None:
                    at = physical_offset - segment_start
                    into[total : total + size] = view[at : at + size]
            elif physical_offset == run_end:
                run_end += size
            else:
                if run_end > run_start:
                    records.append(view[run_start - segment_start : run_end - segment_start])
                run_start = physical_offset
                run_end = physical_offset + size
            taken += 1
            total += size
            i += 1
        if run_end > run_start:
            records.append(view[run_start - segment_start : run_end - segment_start])
    finally:
        if cython.compiled and held:
            PyBuffer_Release(cython.address(buffer))
    picked.count = taken
    picked.size_bytes = total
    picked.next_offset = first_offset + i
    picked.is_old = is_old
    return more


@cython.cfunc
def _size_of(units: bytes, most: cython.Py_ssize_t) -> cython.longlong:
    """The bytes of the first records of a range of units, so many at most."""
    count: cython.Py_ssize_t = min(len(units) // 20, most)
    total: cython.longlong = 0
    i: cython.Py_ssize_t
    for i in range(count):
        if cython.compiled:
            total += i32_of(span_of(units), i * 20 + 8)
        else:
            total += UNIT.unpack_from(units, i * 20)[1]
    return total


@cython.final
@cython.cclass
class QueueCursor:
    """Reads one queue in one way from wherever it is asked to; see `QueueReader.cursor`, which makes it.

    The limits of one answer are settled when it is made.
    """

    queue = cython.declare(object, visibility="readonly")
    accept = cython.declare(object, visibility="readonly")
    max_count = cython.declare(cython.Py_ssize_t, visibility="readonly")
    _reader: Any
    _table: Any
    _picks: Any
    _is_set: cython.bint
    _matches: Any
    _max_bytes: cython.longlong
    _limits: tuple[int, int, int, int]
    _whole: cython.bint
    _memory_bytes: cython.longlong
    _units_per_file: cython.longlong
    _files: cython.longlong
    _most_units: cython.longlong

    def __init__(
        self,
        reader: Any,
        table: Any,
        queue: Any,
        accept: Any,
        picks: Any,
        matches: Any,
        max_count: int,
        max_bytes: int,
        limits: tuple[int, int, int, int],
        *,
        whole: bool,
        memory_bytes: int,
        units_per_file: int,
        files: int,
        most_units: int,
    ) -> None:
        """`accept` is what the reader wants, `picks` what is asked of a unit's tags code for it and `matches`
        of a record's properties. A read ends after `files` files or `most_units` units, found or not.
        """
        self.queue = queue
        self.accept = accept
        self.max_count = max_count
        self._reader = reader
        self._table = table
        self._picks = picks
        self._is_set = isinstance(picks, frozenset)
        self._matches = matches
        self._max_bytes = max_bytes
        self._limits = limits
        self._whole = whole
        self._memory_bytes = memory_bytes
        self._units_per_file = units_per_file
        self._files = files
        self._most_units = most_units

    def pick(
        self,
        units: bytes,
        queue_offset: cython.longlong,
        end: cython.longlong,
        max_physical: cython.longlong,
        hot_from: cython.longlong,
        into: bytearray | None,
    ) -> Picked:
        """Picks from `units`, if there are any, then from what has to be read, up to queue offset `end`."""
        queue: Any = self.queue
        table: Any = self._table
        topic: bytes = queue.topic_bytes
        max_count: cython.Py_ssize_t = self.max_count
        chunk: cython.longlong = UNITS_PER_READ
        count: cython.longlong
        in_file: cython.longlong
        more: cython.bint
        position: cython.longlong = queue_offset
        stop: cython.longlong = (
            queue_offset - queue_offset % self._units_per_file + self._units_per_file * self._files
        )
        stop = min(stop, end, queue_offset + max(self._most_units, max_count))
        if self._picks is None:
            # Without a filter as many units as messages; with one, more of them at a time.
            count = self._limits[1]
            chunk = min(max_count, count)
        picked = Picked()
        picked.next_offset = queue_offset
        while position < stop:
            count = min(chunk, stop - position)
            if units:
                units = units[: count * 20]
            else:
                units = table.read(queue, position, count)
                if not units:
                    break
            more = pick_records(
                picked,
                units,
                position,
                queue.queue_id,
                topic,
                self._picks,
                self._is_set,
                max_count,
                self._max_bytes,
                self._limits,
                max_physical,
                self._memory_bytes,
                hot_from,
                self._reader,
                self._whole,
                self._matches,
                into,
            )
            position = picked.next_offset
            if not more or picked.count >= max_count:
                break
            units = b""
            chunk = UNITS_PER_READ
            # Messages that were found are not kept waiting for units that are on the disk.
            in_file = min(chunk, stop - position, queue.tail_start - position)
            if picked.count and in_file > 0 and not table.is_resident(queue, position, in_file):
                break
        return picked


def properties_of(view: Any, position: cython.Py_ssize_t, size: cython.Py_ssize_t) -> bytes:
    """The property string of a sound record of `size` bytes at a position."""
    head: bytes = bytes(view[position + 4 : position + 40])
    at: cython.Py_ssize_t = position + 88
    if head[35] & 0x10:
        at += 12
    if head[35] & 0x20:
        at += 12
    at += int.from_bytes(view[at - 4 : at], "big")
    if head[:4] == _LONG_TOPIC_MAGIC:
        at += 2 + int.from_bytes(view[at : at + 2], "big")
    else:
        at += 1 + view[at]
    return bytes(view[at + 2 : position + size])


def is_sound(
    view: Any,
    base: int,
    physical_offset: int,
    size: int,
    queue_id: int,
    queue_offset: int,
    topic: str,
    whole: bool,
) -> bool:
    """True if the record at a physical offset is whole, in its place, and the one its unit means."""
    position = physical_offset - base
    scan = scan_records(view, position, position + size, base, True, whole, 1)
    if len(scan.records) != 1:
        return False
    record = scan.records[0]
    return record[1] == size and record[2] == queue_id and record[3] == queue_offset and record[6] == topic


@cython.cfunc
@cython.exceptval(check=False)
def _differing_bits(at: Span) -> cython.int:
    """In how many bits memory differs from the name of the checksum's property. Compiled only."""
    name: Span = span_of_literal(b"__CRC32#\x01")
    count: cython.int = 0
    bits: cython.int
    i: cython.Py_ssize_t
    for i in range(name.size):
        bits = byte_of(at, i) ^ byte_of(name, i)
        while bits:
            bits &= bits - 1
            count += 1
    return count


@cython.cfunc
def _is_sound(
    record: Span,
    physical_offset: cython.longlong,
    queue_id: cython.int,
    queue_offset: cython.longlong,
    topic: Span,
    whole: cython.bint,
) -> cython.bint:
    """`is_sound` on the memory of a record. Compiled only."""
    magic: cython.int
    fixed: cython.Py_ssize_t
    body_length: cython.Py_ssize_t
    place: cython.Py_ssize_t
    length: cython.Py_ssize_t
    crc: cython.uint
    i: cython.int
    different: cython.int
    if record.size < 91 or i32_of(record, 0) != record.size:
        return False
    magic = i32_of(record, 4)
    if magic != -626843481 and magic != -626843477:
        return False
    if (
        i32_of(record, 12) != queue_id
        or i64_of(record, 20) != queue_offset
        or i64_of(record, 28) != physical_offset
    ):
        return False
    fixed = 88
    if i32_of(record, 36) & 0x10:
        fixed += 12
    if i32_of(record, 36) & 0x20:
        fixed += 12
    if fixed + 3 > record.size:
        return False
    body_length = i32_of(record, fixed - 4)
    if body_length < 0 or body_length > record.size - fixed - 3:
        return False
    place = fixed + body_length
    if magic == -626843481:
        length = byte_of(record, place)
        place += 1
    else:
        length = i16_of(record, place)
        place += 2
    if not is_same(part_of(record, place, length), topic):
        return False
    place += topic.size + 2
    length = i16_of(record, place - 2)
    if length != record.size - place or find_byte(part_of(record, place, length), 0) >= 0:
        return False
    different = 2
    if whole and length >= 20:
        different = _differing_bits(rest_of(record, record.size - 20))
    if different == 1:
        return False  # its name is damaged, it is not that of another property
    if different == 0:
        crc = crc32(view_of(part_of(record, 0, record.size - 20)))
        for i in range(10):
            if byte_of(record, record.size - 11 + i) != 48 + crc % 10:
                return False
            crc //= 10
        if crc or byte_of(record, record.size - 1) != 2:
            return False
    crc = body_crc(part_of(record, fixed, body_length), _CRC, crc32)
    return crc == cython.cast(cython.uint, i32_of(record, 8))


def arrivals(
    topic: str, queue_id: int, units: bytes, first_offset: cython.longlong
) -> list[tuple[str, int, int, int]]:
    """(topic, queue id, queue offset behind it, tags code) of each unit."""
    told: list[tuple[str, int, int, int]] = []
    offset: cython.longlong = first_offset
    for _, _, tag in UNIT.iter_unpack(units):
        offset += 1
        told.append((topic, queue_id, offset, tag))
    return told


def count_valid(units: bytes) -> int:
    """Number of valid units at the beginning: physical offset not negative, size more than 0."""
    count: cython.Py_ssize_t = len(units) // 20
    i: cython.Py_ssize_t
    if cython.compiled:
        source: Reader = reader_over(span_of(units))
    for i in range(count):
        if cython.compiled:
            damaged: cython.bint = get_i64(cython.address(source)) < 0
            if get_i32(cython.address(source)) <= 0 or damaged:
                return i
            get_i64(cython.address(source))
        else:
            physical_offset, size, _ = UNIT.unpack_from(units, i * 20)
            if physical_offset < 0 or size <= 0:
                return i
    return count


def record_offsets(records: list[Any]) -> list[int]:
    """The queue offsets of records that `pick_records` gave: each of `records` is one or several of them."""
    offsets: list[int] = []
    position: cython.Py_ssize_t
    length: cython.Py_ssize_t
    size: cython.int
    for record in records:
        length = len(record)
        position = 0
        if cython.compiled:
            if length < 28:
                continue
            view: cython.const[cython.uchar][::1] = record
            data: Span = span_over(cython.address(view[0]), len(view))
            while position + 28 <= length:
                offsets.append(cython.cast(cython.longlong, i64_of(data, position + 20)))
                size = i32_of(data, position)
                position += max(size, 28)
        else:
            while position + 28 <= length:
                offsets.append(int.from_bytes(record[position + 20 : position + 28], "big"))
                position += max(int.from_bytes(record[position : position + 4], "big", signed=True), 28)
    return offsets
