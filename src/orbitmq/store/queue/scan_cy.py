"""The inner loop of reads: units of a consume queue become views of the records they point to.

Hot: every delivered message passes here. A queue is read by its cursor, which a repeated pull keeps.
`QueueCursor.pick` reads ranges of units and gives them to a `Picked`, which looks at one unit behind the
other: at the limits of an answer, the filter, the segment that the record is in, and whether that is in
memory. Then the record is checked against its unit, its place, its topic and its checksums (`sound.pxd`): a
bad one is never served. Neighbours in the log become one view. Small answers are copied instead, for a view
of each message would cost more than its bytes.
"""

from __future__ import annotations

from typing import Any

try:
    import cython
except ModuleNotFoundError:
    from orbitmq import _cython_shim as cython  # type: ignore[no-redef]

from orbitmq.protocol.records.checksums_cy import CRC_TABLES, crc32
from orbitmq.protocol.records.queue_units import UNIT
from orbitmq.store.queue.records_cy import is_sound, properties_of

if cython.compiled:
    from cython.cimports.cpython.buffer import (  # type: ignore[import-not-found]
        PyBUF_SIMPLE,
        PyBuffer_Release,
        PyObject_GetBuffer,
    )
    from cython.cimports.orbitmq.protocol.buffers.bounded import *  # type: ignore[import-not-found]
    from cython.cimports.orbitmq.store.queue.sound import (  # type: ignore[import-not-found]
        is_sound as record_is_sound,
    )

UNITS_PER_READ: cython.Py_ssize_t = 256
"""Units that are looked at together, where a filter may want any number of them."""
_CRC: bytes = CRC_TABLES


@cython.final
@cython.cclass
class Picked:
    """Records that were found for the units of a queue, and what the search for them needs.

    `pick` is called with one range of units behind the other; each call looks at a unit, the limits, the
    filter, the segment of the record and the record itself, in this order, because each costs more than the
    one before.
    """

    # Results:
    records = cython.declare(list, visibility="readonly")
    """Views, each of one record or several that are neighbours; none where records are copied."""
    count = cython.declare(cython.Py_ssize_t, visibility="readonly")
    size_bytes = cython.declare(cython.longlong, visibility="readonly")
    next_offset = cython.declare(cython.longlong, visibility="public")
    """The queue offset behind the last unit that was looked at."""
    bad = cython.declare(list, visibility="readonly")
    """(queue offset, physical offset) of records that are not what they have to be."""
    removed = cython.declare(cython.bint, visibility="readonly")
    """Some unit pointed to where the log has nothing any more."""
    cold = cython.declare(object, visibility="readonly")
    """The next record is not in memory: its physical offset and size."""
    is_old = cython.declare(cython.bint, visibility="readonly")
    """The last record is further from the end than what counts as in memory."""
    is_large = cython.declare(cython.bint, visibility="readonly")
    """There is no space to copy all the records: those that are there count for nothing."""

    # Given:
    _queue_id: cython.int
    _topic: bytes
    _accept: Any
    _is_set: cython.bint
    _matches: Any
    _max_count: cython.Py_ssize_t
    _max_bytes: cython.longlong
    _memory_bytes_limit: cython.longlong
    _memory_count_limit: cython.Py_ssize_t
    _disk_bytes_limit: cython.longlong
    _disk_count_limit: cython.Py_ssize_t
    _max_physical: cython.longlong
    _memory_bytes: cython.longlong
    _hot_from: cython.longlong
    _log: Any
    _whole: cython.bint
    _into: bytearray | None
    _space: cython.longlong

    # The unit at hand, and the segment of the record before:
    _physical_offset: cython.longlong
    _size: cython.longlong
    _tags_code: cython.longlong
    _skip_to: cython.longlong
    _segment_start: cython.longlong
    _segment_end: cython.longlong
    _resident_to: cython.longlong
    _run_start: cython.longlong
    _run_end: cython.longlong
    _view: Any

    def __init__(
        self,
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
    ) -> None:
        """`accept` is None, a set of tags codes (`is_set`) or a function of the tags code. `limits` are
        bytes and count of recent messages and bytes and count of old ones that one answer may hold; the
        first message is always picked. `log` has `find(physical)`, `next_segment_start(physical)` and
        `resident_to(physical, size)`; records from `hot_from` on are in memory for sure.

        `whole`: records that end with a checksum over all of them have to have the right one.
        `matches(properties)` is asked of every sound record; None takes all. With `into` records are copied
        there, one behind the other.
        """
        self.records = []
        self.bad = []
        self.count = 0
        self.size_bytes = 0
        self.next_offset = 0
        self.removed = False
        self.cold = None
        self.is_old = False
        self.is_large = False
        self._queue_id = queue_id
        self._topic = topic
        self._accept = accept
        self._is_set = is_set
        self._matches = matches
        self._max_count = max_count
        self._max_bytes = max_bytes
        self._memory_bytes_limit = limits[0]
        self._memory_count_limit = limits[1]
        self._disk_bytes_limit = limits[2]
        self._disk_count_limit = limits[3]
        self._max_physical = max_physical
        self._memory_bytes = memory_bytes
        self._hot_from = hot_from
        self._log = log
        self._whole = whole
        self._into = into
        self._space = len(into) if into is not None else 0
        self._view = None

    @cython.ccall
    def pick(self, units: bytes, first_offset: cython.longlong) -> bool:
        """Picks records for a range of units, the first of which has queue offset `first_offset`.

        Gives whether there is space for more.
        """
        count: cython.Py_ssize_t = len(units) // 20
        i: cython.Py_ssize_t = 0
        more: cython.bint = True
        self._skip_to = 0
        self._segment_start = self._run_start = self._run_end = self._resident_to = 0
        self._segment_end = -1
        if self._is_too_large(units):
            self.is_large = True
            return False
        if cython.compiled:
            buffer: Py_buffer
            held: cython.bint = False
            data: Span = no_span()
            record: Span
        try:
            while i < count:
                if cython.compiled:
                    self._physical_offset = i64_of(span_of(units), i * 20)
                    self._size = i32_of(span_of(units), i * 20 + 8)
                    self._tags_code = i64_of(span_of(units), i * 20 + 12)
                else:
                    self._physical_offset, self._size, self._tags_code = UNIT.unpack_from(units, i * 20)
                if self._physical_offset < self._skip_to or self._size <= 0 or self._size == 0x7FFFFFFF:
                    i += 1  # a blank at the end of a file
                    continue
                if not self._may_have_more():
                    more = False
                    break
                if self._accept is not None and not self._is_accepted():
                    i += 1
                    continue
                # A damaged unit holds any number: the sum of two of them could overflow.
                if (
                    self._physical_offset < self._segment_start
                    or self._physical_offset > self._segment_end - self._size
                ):
                    if not self._open_segment(first_offset + i):
                        i += 1
                        continue
                    if cython.compiled:
                        if held:
                            PyBuffer_Release(cython.address(buffer))
                            held = False
                        PyObject_GetBuffer(self._view, cython.address(buffer), PyBUF_SIMPLE)
                        held = True
                        data = span_over(buffer.buf, buffer.len)
                if self._physical_offset < self._hot_from and not self._is_resident():
                    more = False
                    break
                if cython.compiled:
                    record = part_of(data, self._physical_offset - self._segment_start, self._size)
                    if record.size != self._size or not record_is_sound(
                        record,
                        self._physical_offset,
                        self._queue_id,
                        first_offset + i,
                        span_of(self._topic),
                        self._whole,
                        _CRC,
                        crc32,
                    ):
                        self.bad.append((first_offset + i, self._physical_offset))
                        i += 1
                        continue
                elif not self._is_sound_interpreted(first_offset + i):
                    self.bad.append((first_offset + i, self._physical_offset))
                    i += 1
                    continue
                if self._matches is not None and not self._matches(
                    properties_of(self._view, self._physical_offset - self._segment_start, self._size)
                ):
                    i += 1
                    continue
                if self._into is None:
                    self._extend_run()
                elif self.size_bytes + self._size > self._space:
                    self.is_large = True
                    return False
                elif cython.compiled:
                    _copy(self._into, self.size_bytes, record)
                else:
                    self._copy_interpreted()
                self.count += 1
                self.size_bytes += self._size
                i += 1
            self._end_run()
        finally:
            if cython.compiled and held:
                PyBuffer_Release(cython.address(buffer))
        self.next_offset = first_offset + i
        return more

    @cython.cfunc
    def _is_too_large(self, units: bytes) -> cython.bint:
        """True if there is no space to copy the first records: found out before any of them is read."""
        return (
            self._into is not None
            and self._memory_bytes_limit > self._space
            and self._accept is None
            and _size_of(units, self._max_count) > self._space
        )

    @cython.cfunc
    @cython.exceptval(check=False)
    def _may_have_more(self) -> cython.bint:
        """True if the limits of an answer allow the record at hand, too."""
        size: cython.longlong = self.size_bytes + self._size
        self.is_old = self._max_physical - self._physical_offset > self._memory_bytes
        if not self.count:
            return True
        if self.count >= self._max_count or size > self._max_bytes:
            return False
        if self.is_old:
            return size <= self._disk_bytes_limit and self.count < self._disk_count_limit
        return size <= self._memory_bytes_limit and self.count < self._memory_count_limit

    @cython.cfunc
    def _is_accepted(self) -> cython.bint:
        if self._is_set:
            return self._tags_code in self._accept
        return bool(self._accept(self._tags_code))

    @cython.cfunc
    def _open_segment(self, queue_offset: cython.longlong) -> cython.bint:
        """Goes on with the segment of the record at hand; False, with a note, if no segment has all of it."""
        self._end_run()
        self._run_start = self._run_end = 0
        segment = self._log.find(self._physical_offset)
        if segment is not None and self._physical_offset + self._size <= segment.start + segment.wrote:
            self._view = segment.view
            self._segment_start = segment.start
            self._segment_end = self._segment_start + segment.wrote
            return True
        self._segment_end = -1
        if segment is None and self._physical_offset < self._max_physical:
            self.removed = True
            self._skip_to = self._log.next_segment_start(self._physical_offset)
        else:
            self.bad.append((queue_offset, self._physical_offset))
        return False

    @cython.cfunc
    def _is_resident(self) -> cython.bint:
        """True if the record at hand is in the page cache; False, with a note, if reading it would wait."""
        end: cython.longlong = self._physical_offset + self._size
        if end > self._resident_to:
            self._resident_to = self._log.resident_to(self._physical_offset, self._size)
            if end > self._resident_to:
                self.cold = (self._physical_offset, self._size)
                return False
        return True

    @cython.cfunc
    def _extend_run(self) -> cython.int:
        """Adds the record at hand to its neighbours, or begins a new view."""
        if self._physical_offset != self._run_end:
            self._end_run()
            self._run_start = self._physical_offset
        self._run_end = self._physical_offset + self._size
        return 0

    @cython.cfunc
    def _end_run(self) -> cython.int:
        if self._run_end > self._run_start:
            start: cython.longlong = self._segment_start
            self.records.append(self._view[self._run_start - start : self._run_end - start])
        return 0

    def _is_sound_interpreted(self, queue_offset: int) -> bool:
        return is_sound(
            self._view,
            self._segment_start,
            self._physical_offset,
            self._size,
            self._queue_id,
            queue_offset,
            self._topic.decode(),
            self._whole,
        )

    def _copy_interpreted(self) -> None:
        at = self._physical_offset - self._segment_start
        assert self._into is not None
        self._into[self.size_bytes : self.size_bytes + self._size] = self._view[at : at + self._size]


@cython.cfunc
@cython.exceptval(check=False)
def _copy(into: bytearray, place: cython.longlong, record: Span) -> cython.void:
    """Copies a record to a place of memory that has space for it. Compiled only."""
    out: Writer = writer_of(into)
    skip(cython.address(out), place)
    put_span(cython.address(out), record)


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

    The limits of one answer are fixed when it is made.
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
        picked: Picked = Picked(
            queue.queue_id,
            queue.topic_bytes,
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
        picked.next_offset = queue_offset
        while position < stop:
            count = min(chunk, stop - position)
            if units:
                units = units[: count * 20]
            else:
                units = table.read(queue, position, count)
                if not units:
                    break
            more = picked.pick(units, position)
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
