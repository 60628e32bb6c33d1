"""The timer log: one unit for every timer message that waits, in the order in which they came.

A unit (big endian, 52 bytes) says where the message is, when it is due, and which unit of the same second
stands before it; the wheel (`wheel`) points at the last one:

    size i32 (52) | previous i64 | magic i32 | written ms i64 | delay ms i32 | physical offset i64 | size i32
    | hash of the real topic i32 | due ms i64

`due ms` is this broker's: to the millisecond, 0 if unknown. Apache writes 0 there and reads nothing.
A unit never crosses the end of its segment; what is left there begins with a blank one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from orbitmq.protocol.records.message import MAGIC_BLANK
from orbitmq.store.errors import StoreCorrupt
from orbitmq.store.files import Disk, StoreFile, segment_name, segment_starts

UNIT = Struct(">iqiqiqiiq")
UNIT_BYTES = UNIT.size
BLANK = Struct(">iqi")
_POSITION = Struct(">q")
_TIMES = Struct(">qi")

DEFAULT = 1
ROLL = 2
"""The message is due beyond the wheel: it is stored again when this unit is."""
DELETE = 4
"""The message takes back another one of the same second."""
_MAGIC_BITS = 0xF

NO_UNIT = -1
_READ_BYTES = 64 << 10
_AHEAD_BYTES = UNIT_BYTES * 64
_SCAN_BYTES = UNIT_BYTES * 16_384


class TimerUnit(NamedTuple):
    """A unit without its size word."""

    previous: int
    magic: int
    written_ms: int
    delay_ms: int
    physical_offset: int
    size_bytes: int
    topic_hash: int
    due_ms: int

    @property
    def slot_ms(self) -> int:
        return self.written_ms + self.delay_ms


def pack_unit(unit: TimerUnit) -> bytes:
    """The 52 bytes of a unit."""
    return UNIT.pack(UNIT_BYTES, *unit)


class TimerLog:
    """Segments of one size. One owner appends; whole units may be read in other threads beside it.

    One thread syncs and removes beside the owner. Both change the two collections in place, by single
    operations on them: a copy put in their stead would lose what the other one did meanwhile.
    """

    def __init__(self, disk: Disk, folder: Path, segment_bytes: int) -> None:
        if segment_bytes < UNIT_BYTES + BLANK.size:
            raise ValueError(f"a segment of the timer log has {segment_bytes} bytes")
        self._disk = disk
        self.folder = folder
        self.segment_bytes = segment_bytes
        self._segments: dict[int, StoreFile] = {}
        self._unsynced: set[int] = set()
        self._tail = bytearray()
        self._tail_start = 0
        self.end = 0
        """Position of the next unit, unless its segment is full."""

    @classmethod
    def load(cls, disk: Disk, folder: Path, segment_bytes: int) -> TimerLog:
        """The log of a folder; `end` is still to be found. Raises StoreCorrupt for files of another size."""
        log = cls(disk, folder, segment_bytes)
        starts = segment_starts(disk.names(folder))
        for start in starts:
            path = folder / segment_name(start)
            file = disk.open(path)
            if file.size != segment_bytes:
                file.close()
                if file.size == 0 and start == starts[-1]:
                    disk.remove(path)
                    continue
                raise StoreCorrupt(
                    path,
                    f"the segment has {file.size} bytes instead of {segment_bytes}",
                    f"set mappedFileSizeTimerLog={file.size} if the store was made so, or restore the file",
                )
            log._segments[start] = file
        log.end = max(log._segments, default=0)
        return log

    @property
    def is_empty(self) -> bool:
        """True if there is no segment."""
        return not self._segments

    @property
    def written(self) -> int:
        """The end of what is in the files."""
        return self._tail_start if self._has_tail else self.end

    @property
    def start(self) -> int:
        """The position of the first unit there is."""
        return min(self._segments, default=self.end)

    @property
    def last_segment(self) -> int:
        """Start of the newest segment."""
        return max(self._segments, default=0)

    # Reading.

    def read(self, position: int, length: int) -> bytes:
        """Written bytes from a position on, up to the end of its segment."""
        start = position - position % self.segment_bytes
        file = self._segments.get(start)
        if file is None:
            return b""
        return file.read(position - start, min(length, start + self.segment_bytes - position))

    def unit(self, position: int) -> TimerUnit | None:
        """The unit at a position, None if there is no sound one."""
        return _unit_of(self.read(position, UNIT_BYTES), 0)

    def units(self, position: int, end: int) -> Iterator[tuple[int, TimerUnit]]:
        """The units of a range with their positions; ends before it where one is not sound."""
        while position < end:
            data = self.read(position, min(_SCAN_BYTES, end - position))
            behind = position - position % self.segment_bytes + self.segment_bytes
            at = 0
            while at + UNIT_BYTES <= len(data):
                unit = _unit_of(data, at)
                if unit is None:
                    break
                yield position + at, unit
                at += UNIT_BYTES
            position += at
            if at and position + UNIT_BYTES <= min(end, behind):
                continue
            if not self._is_blank(position):
                return
            position = behind

    def _is_blank(self, position: int) -> bool:
        data = self.read(position, BLANK.size)
        return len(data) == BLANK.size and BLANK.unpack(data)[2] == MAGIC_BLANK

    def walk(self, position: int) -> Window:
        """A way to read units one by one whose positions are near each other."""
        return Window(self, position)

    # Appending.

    @property
    def units_left(self) -> int:
        """Number of units that fit into the segment."""
        left = self.segment_bytes - self.end % self.segment_bytes
        return (left - BLANK.size) // UNIT_BYTES

    def append(self, unit: bytes) -> int:
        """Takes a unit, or `units_left` at most, and says where it stands.

        It is in the file after `write`.
        """
        position = self.end
        left = self.segment_bytes - position % self.segment_bytes
        if left < UNIT_BYTES + BLANK.size:
            if position % self.segment_bytes:
                self.write()
                self._put(position, BLANK.pack(left, 0, MAGIC_BLANK))
                position += left
            self.end = position
        if not self._has_tail:
            self._tail = bytearray()
            self._tail_start = position
        self._tail += unit
        self.end = position + len(unit)
        return position

    def write(self) -> None:
        """Brings what was appended to the file. Raises OSError; `forget` then takes it back."""
        if self._has_tail:
            self._put(self._tail_start, self._tail)
            self._tail = bytearray()

    def forget(self, end: int) -> None:
        """Takes back everything appended from a position on, after a failed write. Needs no memory."""
        self.end = end

    @property
    def _has_tail(self) -> bool:
        """True if appended units are neither written nor removed again."""
        return bool(self._tail) and self._tail_start + len(self._tail) == self.end

    def _put(self, position: int, data: bytes | bytearray) -> None:
        start = position - position % self.segment_bytes
        file = self._segments.get(start)
        if file is None:
            self._disk.make_folder(self.folder)
            file = self._disk.open(self.folder / segment_name(start), self.segment_bytes)
            self._disk.sync_folder(self.folder)
            self._segments[start] = file
        file.write(position - start, bytes(data))
        self._unsynced.add(start)

    # Keeping in order.

    @property
    def is_unsynced(self) -> bool:
        """True if something was written that is not on the disk."""
        return bool(self._unsynced)

    def sync(self) -> None:
        """Brings what was written to the disk. Blocks, without the GIL: for a thread."""
        for start in sorted(self._unsynced):
            # Out of the set first: what is written while this one is synced puts it in again.
            self._unsynced.discard(start)
            file = self._segments.get(start)
            if file is None:
                continue
            try:
                file.sync()
            except OSError:
                self._unsynced.add(start)
                raise

    def truncate(self, end: int) -> None:
        """Makes the log end there, also on the disk: what is behind it is zero.

        Would a power cut bring the units behind it back, they would stand for the messages that have come to
        their places in the commit log since.
        """
        gone = [start for start in self._segments if start >= end and start > 0]
        for start in gone:
            self._remove(start)
        if gone:
            self._disk.sync_folder(self.folder)
        first = end - end % self.segment_bytes
        file = self._segments.get(first)
        if file is not None:
            file.cut(end - first)
            file.sync()
        self._tail = bytearray()
        self.end = end

    def clear(self) -> None:
        """Removes all segments. Raises OSError."""
        for start in sorted(self._segments, reverse=True):
            self._remove(start)
        self._disk.sync_folder(self.folder)
        self._tail = bytearray()
        self.end = 0

    def relink(self, position: int, previous: int) -> None:
        """Sets which unit stands before the one at a position. Raises OSError."""
        self._put(position + 4, _POSITION.pack(previous))

    def void(self, position: int) -> None:
        """Has a unit stand for nothing: its time is 0. Raises OSError."""
        self._put(position + 16, _TIMES.pack(0, 0))

    def remove_before(self, position: int) -> int:
        """Removes segments all of whose units stand before a position, never the last one; their number."""
        gone = [start for start in sorted(self._segments)[:-1] if start + self.segment_bytes <= position]
        for start in gone:
            self._remove(start)
        return len(gone)

    def _remove(self, start: int) -> None:
        self._segments.pop(start, None)
        self._disk.remove(self.folder / segment_name(start))

    def close(self) -> None:
        """Lets go of all files."""
        for file in self._segments.values():
            file.close()
        self._segments = {}


class Window:
    """Units read through a piece of the log in memory, forwards or backwards."""

    __slots__ = ("_data", "_log", "_start")

    def __init__(self, log: TimerLog, position: int) -> None:
        self._log = log
        self._start = position
        self._data = b""

    def unit(self, position: int, *, backwards: bool = False) -> TimerUnit | None:
        """The unit at a position; `backwards` where the next ones asked for stand before it."""
        at = position - self._start
        if not 0 <= at <= len(self._data) - UNIT_BYTES:
            first, length = position, _AHEAD_BYTES
            if backwards:
                segment = position - position % self._log.segment_bytes
                first = max(segment, position - _READ_BYTES // UNIT_BYTES * UNIT_BYTES)
                length = position + UNIT_BYTES - first
            self._data = self._log.read(first, length)
            self._start = first
            at = position - first
        return _unit_of(self._data, at)


def _unit_of(data: bytes, at: int) -> TimerUnit | None:
    if len(data) < at + UNIT_BYTES or at < 0:
        return None
    size, *rest = UNIT.unpack_from(data, at)
    unit = TimerUnit(*rest)
    if size != UNIT_BYTES or unit.magic & ~_MAGIC_BITS or unit.physical_offset < 0 or unit.size_bytes <= 0:
        return None
    return unit
