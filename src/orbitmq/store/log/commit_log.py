"""The commit log: segments of one size, side by side, mapped into memory; records are appended to the last.

Physical offsets run through all segments: segment `s` holds the bytes from `s.start` on. A record never
crosses the end of its segment; what it leaves free there is marked blank.

A mapped byte is written only below `Segment.reserved`: for what is beyond, the file system has promised no
block, and on a full disk a write there would be a SIGBUS. Blocks are reserved ahead, off the loop, in steps.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
import zlib
from collections.abc import Iterator
from concurrent.futures import Executor
from pathlib import Path

from orbitmq.protocol.records.message import BLANK_BYTES, FIXED_BYTES, BadRecord, StoredMessage
from orbitmq.protocol.records.message_cy import decode_record, read_header
from orbitmq.protocol.records.plain import encode_blank
from orbitmq.protocol.records.scanning_cy import scan_records
from orbitmq.protocol.records.scans import ScannedRecord
from orbitmq.store import failpoints
from orbitmq.store.errors import DiskStalled, FlushFailed, StoreCorrupt
from orbitmq.store.files import (
    NO_SPACE,
    SCARCE,
    Disk,
    StoreFile,
    is_segment_name,
    segment_name,
    segment_starts,
)

log = logging.getLogger(__name__)

RESERVE_STEP_BYTES = 64 << 20
"""Blocks are reserved ahead of the write position in steps of this size."""
RESERVE_LEAST_BYTES = 1 << 20
"""The step on a disk that has no room for the large one."""
NEXT_SEGMENT_BYTES = 256 << 20
"""The next segment is made when less than this is left of the present one."""
ROOM_WAIT_SECONDS = 0.02
"""The owner waits so long for the thread that reserves; then messages are refused until it has room."""

_PIECE_BYTES = 4 << 20
_SEARCH_BYTES = 4 << 20
_BACK_BYTES = 64 << 10
"""Bytes before the end in which the last record is searched first."""
_MAGIC_START = b"\xda\xa3\x20"
"""First bytes of the magic numbers of both kinds of records."""
_ZEROS = bytes(64 << 10)
UNFLUSHED = "unflushed"
"""Name of a file beside the log: from the physical offset that it holds on, a flush has failed."""


class Segment:
    """One file of the log. `wrote`, `reserved` and `synced` are positions within it."""

    __slots__ = ("file", "removed", "reserved", "size", "start", "synced", "view", "wrote")

    def __init__(self, start: int, file: StoreFile) -> None:
        self.start = start
        self.file = file
        self.size = file.size
        self.view = file.view()
        self.wrote = 0
        self.reserved = 0
        self.synced = 0
        self.removed = False

    @property
    def end(self) -> int:
        """The physical offset behind the segment."""
        return self.start + self.size

    def reserve(self, up_to: int) -> None:
        """Reserves blocks up to a position. Raises OSError where even the smallest step does not fit."""
        for step in (RESERVE_STEP_BYTES, RESERVE_LEAST_BYTES, 4096):
            target = min(self.size, -(-up_to // step) * step)
            if target <= self.reserved:
                return
            try:
                if failpoints.armed:
                    failpoints.hit("commitlog.reserve")
                self.file.reserve(self.reserved, target - self.reserved)
            except OSError as error:
                if error.errno not in NO_SPACE or step == 4096:
                    raise
            else:
                self.reserved = target
                return

    def clear_ahead(self) -> None:
        """Makes everything zero that is reserved and not written."""
        for at in range(self.wrote, self.reserved, len(_ZEROS)):
            end = min(at + len(_ZEROS), self.reserved)
            self.view[at:end] = _ZEROS[: end - at]


class CommitLog:
    """All segments. Appends and removals come from different threads: `_change` guards the list and nothing
    else.
    """

    def __init__(self, disk: Disk, folder: Path, segment_bytes: int) -> None:
        self._disk = disk
        self.folder = folder
        self.segment_bytes = segment_bytes
        self.segments: list[Segment] = []
        self._change = threading.Lock()
        self._flushing = threading.Lock()
        self._making = threading.Lock()
        self._next: Segment | None = None
        self._without_room = False
        self._ahead_bytes = min(RESERVE_STEP_BYTES, segment_bytes)
        self._next_bytes = min(NEXT_SEGMENT_BYTES, segment_bytes)
        self._reserver: Executor | None = None
        self._is_reserving = False
        self._room_came = threading.Event()
        """Set whenever the reserver has got on."""
        self._needed_bytes = 0
        """Bytes that the owner waits for."""
        self._room_error: OSError | None = None
        """Why the reserver's last round found no room."""
        self._is_late = False
        """The owner has waited in vain, and the reserver has not come to an end since."""
        self.durable = 0
        """Everything below is on the disk. Moves in the thread that flushes."""
        self.flush_error: OSError | None = None
        self._flushing_since = 0.0

    # Opening.

    @classmethod
    def load(cls, disk: Disk, folder: Path, segment_bytes: int, cut: int | None = None) -> CommitLog:
        """The log of a folder; every segment counts as full until recovery has found its end.

        With a `cut`, where a truncation was to end the log, segments from there on are removed first.
        Raises StoreCorrupt for segments of another size, and for a gap between them.
        """
        commit_log = cls(disk, folder, segment_bytes)
        disk.make_folder(folder)
        names = disk.names(folder)
        for name in names:
            if not is_segment_name(name):
                log.warning("%s is no segment of the commit log: left alone", folder / name)
        starts = segment_starts(names)
        while cut is not None and len(starts) > 1 and starts[-1] >= cut:
            disk.remove(folder / segment_name(starts.pop()))
        for start in starts:
            commit_log._load_segment(start, last=start == starts[-1])
        return commit_log

    def _load_segment(self, start: int, last: bool) -> None:
        path = self.folder / segment_name(start)
        file = self._disk.open(path)
        if file.size == 0 and last:
            # The process died between creating the file and giving it its size.
            file.close()
            self._disk.remove(path)
            log.warning("%s is empty: removed", path)
            return
        if file.size != self.segment_bytes:
            raise StoreCorrupt(
                path,
                f"the segment has {file.size} bytes instead of {self.segment_bytes}",
                f"set mappedFileSizeCommitLog={file.size} if the store was made so, or restore the file",
            )
        if self.segments and self.segments[-1].end != start:
            raise StoreCorrupt(
                self.folder,
                f"there is no segment from {self.segments[-1].end} to {start}",
                "restore it, or move all segments before the gap away",
            )
        segment = Segment(start, file)
        segment.wrote = segment.synced = segment.reserved = segment.size
        self.segments.append(segment)

    # Where things are.

    @property
    def min_physical(self) -> int:
        """Physical offset of the first byte there is."""
        segments = self.segments
        return segments[0].start if segments else 0

    @property
    def max_physical(self) -> int:
        """Physical offset at which the next record goes, unless it does not fit there."""
        segments = self.segments
        return segments[-1].start + segments[-1].wrote if segments else 0

    def find(self, physical_offset: int) -> Segment | None:
        """The segment that holds a byte, None if there is none (any more)."""
        segments = self.segments
        if not segments:
            return None
        index = (physical_offset - segments[0].start) // self.segment_bytes
        return segments[index] if 0 <= index < len(segments) else None

    def stored_ms(self, physical_offset: int) -> int | None:
        """When the record at a physical offset was stored; None if none is there."""
        size = int.from_bytes(self.read(physical_offset, 4), "big", signed=True)
        try:
            return int(read_header(self.read(physical_offset, max(0, size)))[6])
        except BadRecord:
            return None

    def segment_before(self, time_ms: int) -> int:
        """See `MessageStore.segment_before`."""
        for segment in reversed(self.segments):
            first = self.stored_ms(segment.start)
            if first is not None and first < time_ms:
                return segment.start
        return self.min_physical

    def next_segment_start(self, physical_offset: int) -> int:
        """The start of the segment after the one that holds a byte."""
        return physical_offset - physical_offset % self.segment_bytes + self.segment_bytes

    def read(self, physical_offset: int, size: int) -> bytes:
        """A copy of written bytes; what reaches beyond the segment or the log is missing."""
        segment = self.find(physical_offset)
        if segment is None:
            return b""
        position = physical_offset - segment.start
        size = min(size, segment.wrote - position)
        return segment.file.read(position, size) if size > 0 else b""

    def records(self, physical_offset: int) -> Iterator[StoredMessage]:
        """The records from a physical offset on, read a piece at a time and not through the map.

        Bytes that cannot be read as a record are passed over, up to the next segment. Raises OSError.
        """
        position = max(physical_offset, self.min_physical)
        while position < self.max_physical:
            data = self.read(position, _PIECE_BYTES)
            size = int.from_bytes(data[:4], "big", signed=True)
            if size > len(data):
                data = self.read(position, size)
            at = 0
            while (size := int.from_bytes(data[at : at + 4], "big", signed=True)) >= FIXED_BYTES:
                if size > len(data) - at:
                    break
                with contextlib.suppress(BadRecord):
                    yield decode_record(data, at, False)
                at += size
            position = position + at if at else self.next_segment_start(position)

    def next_sound_record(
        self, segment: Segment, position: int, end: int | None = None
    ) -> tuple[int, ScannedRecord] | None:
        """The first sound record of a segment from a position on: its position, and itself. With an `end` the
        search goes little further than to that position.

        For going on behind damage. A record has to say of itself that it stands where it does, and to have
        the right checksum; so nothing inside of a body is taken for one.
        """
        end = segment.size if end is None else end
        while position < end:
            chunk = segment.file.read(position, _SEARCH_BYTES + 8)
            at = chunk.find(_MAGIC_START, 4)
            while 4 <= at < _SEARCH_BYTES + 4:
                record = self.sound_record(segment, position + at - 4)
                if record is not None:
                    return position + at - 4, record
                at = chunk.find(_MAGIC_START, at + 1)
            position += _SEARCH_BYTES
        return None

    def last_record_in(self, segment: Segment, end: int) -> ScannedRecord | None:
        """The last sound record of a segment that ends at a position of it or before; None without one."""
        window, begin = _BACK_BYTES, end
        while begin > 0:
            begin = max(0, end - window)
            window *= 16
            last = None
            found = self.next_sound_record(segment, begin, end)
            while found is not None and found[0] + found[1][1] <= end:
                last = found[1]
                position = found[0] + last[1]
                following = self.sound_record(segment, position)
                found = (
                    self.next_sound_record(segment, position, end)
                    if following is None
                    else (position, following)
                )
            if last is not None:
                return last
        return None

    def last_record_before(self, physical_offset: int) -> ScannedRecord | None:
        """The last sound record that ends at a physical offset or before; None without one."""
        for segment in reversed(self.segments):
            if segment.start < physical_offset:
                last = self.last_record_in(segment, min(physical_offset - segment.start, segment.size))
                if last is not None:
                    return last
        return None

    def sound_record(self, segment: Segment, position: int) -> ScannedRecord | None:
        """The record at a position of a segment, None if there is no sound one."""
        size = int.from_bytes(segment.file.read(position, 4), "big", signed=True)
        if not FIXED_BYTES <= size <= segment.size - position:
            return None
        scan = scan_records(segment.file.read(position, size), 0, size, segment.start + position)
        return scan.records[0] if scan.records else None

    def record_checksum(self, physical_offset: int) -> int | None:
        """A checksum of all of the record there, None where there is no sound one."""
        segment = self.find(physical_offset)
        if segment is None:
            return None
        position = physical_offset - segment.start
        record = self.sound_record(segment, position)
        return None if record is None else zlib.crc32(segment.file.read(position, record[1]))

    # Appending: only the owner of the store.

    def reserve_in(self, reserver: Executor) -> None:
        """From now on only this thread reserves blocks and makes segments: the owner waits for it, not for
        the disk.
        """
        self._reserver = reserver

    def ensure_space(self, needed_bytes: int, wait_seconds: float = ROOM_WAIT_SECONDS) -> Segment:
        """The segment that takes so many bytes more, and a blank record's, at its write position.

        Reserves blocks if they were not reserved ahead; goes on to a new segment if the present one is too
        full. Raises OSError if the disk has no room, DiskStalled where the thread that reserves does not get
        there in time.
        """
        needed_bytes += BLANK_BYTES
        if needed_bytes > self.segment_bytes:
            raise ValueError(f"{needed_bytes} bytes do not fit into a segment")
        if not self._has_room(needed_bytes):
            if self._reserver is None:
                self._reserve(needed_bytes)
            else:
                self._wait_for_room(needed_bytes, wait_seconds)
        if self.segments and self.segments[-1].wrote + needed_bytes <= self.segments[-1].size:
            return self.segments[-1]
        following = self._next
        assert following is not None
        with self._change:
            if self.segments:
                self._fill_up(self.segments[-1])
            self.segments = [*self.segments, following]
            self._next = None
        return following

    def _segment_for(self, needed_bytes: int) -> Segment | None:
        """The segment that so many bytes would go to; None if it has not been made."""
        if self.segments and self.segments[-1].wrote + needed_bytes <= self.segments[-1].size:
            return self.segments[-1]
        return self._next

    def _has_room(self, needed_bytes: int) -> bool:
        segment = self._segment_for(needed_bytes)
        return segment is not None and segment.wrote + needed_bytes <= segment.reserved

    def _reserve(self, needed_bytes: int) -> None:
        segment = self._segment_for(needed_bytes) or self._take_next()
        segment.reserve(segment.wrote + needed_bytes)

    def _wait_for_room(self, needed_bytes: int, wait_seconds: float) -> None:
        """Waits for the reserver once; until it comes to an end, nobody else waits."""
        until = time.monotonic() + (0 if self._is_late else wait_seconds)
        tried = False
        while True:
            self._room_came.clear()
            if self._has_room(needed_bytes):
                return
            if tried and not self._is_reserving and self._room_error is not None:
                raise self._room_error
            tried = tried or not self._is_reserving
            self._needed_bytes = needed_bytes
            self.reserve_soon()
            left = until - time.monotonic()
            if left <= 0 or not self._room_came.wait(left):
                self._is_late = True
                raise DiskStalled(f"the disk has reserved nothing for {wait_seconds * 1000:.0f} ms")

    def reserve_soon(self) -> None:
        """Has the reserver begin now, unless it is at work."""
        if self._reserver is not None and not self._is_reserving:
            self._is_reserving = True
            self._reserver.submit(self._reserve_beside)

    def _reserve_beside(self) -> None:
        try:
            self.reserve_ahead()
        except OSError as error:
            self._room_error = error
            log.exception("no room could be reserved in %s", self.folder)
        finally:
            self._is_late = False
            self._is_reserving = False
            self._room_came.set()

    def begin_at(self, physical_offset: int) -> None:
        """Has an empty log begin with the segment at a physical offset, for a slave whose master's does."""
        if self.max_physical:
            raise ValueError(f"the log ends at {self.max_physical}, it is not empty")
        with self._making, self._change:
            for segment in (*self.segments, *([] if self._next is None else [self._next])):
                self._remove(segment)
            self._next = None
            self.segments = [self._create(physical_offset)]
        self.durable = max(self.durable, physical_offset)

    def end_segment(self) -> None:
        """Ends the last segment with a blank record: the next one begins a new one."""
        segment = self.ensure_space(0)
        self._fill_up(segment)

    def _fill_up(self, segment: Segment) -> None:
        left = segment.size - segment.wrote
        if left >= BLANK_BYTES and segment.wrote + BLANK_BYTES <= segment.reserved:
            encode_blank(segment.view, segment.wrote, left)
        segment.wrote = segment.size

    def _take_next(self) -> Segment:
        following = self._next
        if following is not None:
            return following
        with self._making:
            if self._next is None:
                self._next = self._create(self.segments[-1].end if self.segments else 0)
            return self._next

    def _create(self, start: int) -> Segment:
        if failpoints.armed:
            failpoints.hit("commitlog.create")
        file = self._disk.open(self.folder / segment_name(start), self.segment_bytes)
        try:
            # A power cut may lose a name or a size and keep those of later segments, which leaves a gap.
            file.sync()
            self._disk.sync_folder(self.folder)
        except OSError:
            file.close()
            raise
        return Segment(start, file)

    @property
    def wants_room(self) -> bool:
        """True if half of what is kept ahead of the writer is used up."""
        if not self.segments:
            return False
        active = self.segments[-1]
        wrote, reserved = active.wrote, active.reserved
        if reserved < active.size and reserved - wrote < self._ahead_bytes // 2:
            return True
        return self._next is None and active.size - wrote < self._next_bytes

    @property
    def is_without_room(self) -> bool:
        """True if the disk had no room, or memory, when something was to be reserved last."""
        return self._without_room

    def reserve_ahead(self) -> None:
        """Keeps blocks reserved in front of the writer, and the next segment ready. In a thread.

        A disk without room, or no memory, is no error here: the append that needs it gets one.
        """
        self._room_error = None
        try:
            if self._needed_bytes:
                # The waiting append waits for this, and a disk that is nearly full has room for no more.
                needed, self._needed_bytes = self._needed_bytes, 0
                if not self._has_room(needed):
                    self._reserve(needed)
                self._room_came.set()
            if not self.segments:
                return
            active = self.segments[-1]
            ahead = self._ahead_bytes
            if active.reserved < active.size and active.reserved - active.wrote < ahead // 2:
                active.reserve(min(active.size, active.wrote + ahead))
                self._room_came.set()
            if active.size - active.wrote < self._next_bytes:
                self._take_next().reserve(ahead)
                self._room_came.set()
        except OSError as error:
            self._room_error = error
            if error.errno not in SCARCE:
                raise
            if not self._without_room:
                log.warning("no room to reserve in %s: %s", self.folder, error)
            self._without_room = True
        else:
            if self._without_room:
                log.warning("room again in %s", self.folder)
            self._without_room = False

    # Flushing: in a thread.

    def flush(self) -> int:
        """Brings everything written so far to the disk; gives the physical offset up to which that is so.

        Raises FlushFailed, from then on always: pages that a failed fsync has dropped are marked clean, and
        the next one would succeed without them.
        """
        with self._flushing:
            if self.flush_error is not None:
                raise FlushFailed(f"an earlier flush failed: {self.flush_error}")
            target = self.max_physical
            if target <= self.durable:
                return self.durable
            self._flushing_since = time.monotonic()
            try:
                self._sync_segments()
            finally:
                self._flushing_since = 0.0
            if failpoints.armed:
                failpoints.hit("commitlog.after_flush")
            self.durable = max(self.durable, target)
            return self.durable

    def _sync_segments(self) -> None:
        for segment in self.segments:
            wrote = segment.wrote
            if segment.end <= self.durable or segment.synced == wrote or segment.removed:
                continue
            try:
                if failpoints.armed:
                    failpoints.hit("commitlog.flush")
                segment.file.sync()
            except OSError as error:
                self.flush_error = error
                self._leave_word()
                raise FlushFailed(f"{segment.file.path}: {error}") from error
            segment.synced = wrote

    def _leave_word(self) -> None:
        """Tells the next process from where on pages count as written that are not: its flush would succeed
        without them. Nothing is synced, for where memory is lost those pages are, too.
        """
        data = b"%d" % self.durable
        try:
            self._disk.open(self._word, len(data)).write(0, data)
        except OSError as error:
            log.error("%s cannot be written: %s", self._word, error)

    @property
    def _word(self) -> Path:
        return self.folder.with_name(UNFLUSHED)

    def flush_again(self) -> None:
        """Flushes, and first writes once more what a flush of an earlier process has failed to.

        Recovery only. Raises OSError, FlushFailed.
        """
        if UNFLUSHED in self._disk.names(self.folder.parent):
            text = self._disk.content(self._word)
            position = int(text) if text.isdigit() else 0
            log.warning("a flush failed before: the log is written once more from %d on", position)
            self.durable = min(self.durable, position)
            for segment in self.segments:
                at = max(0, position - segment.start)
                while at < segment.wrote:
                    data = segment.file.read(at, min(_PIECE_BYTES, segment.wrote - at))
                    segment.file.write(at, data)
                    at += len(data)
                    segment.synced = -1
        self.flush()
        self._disk.remove(self._word)

    @property
    def flushing_ms(self) -> int:
        """For how long the flush has taken that is under way; 0 without one."""
        since = self._flushing_since
        return int((time.monotonic() - since) * 1000) if since else 0

    # Taking away.

    def truncate(self, physical_offset: int) -> None:
        """Makes the log end there: nothing behind it is left, not even as bytes. Recovery only."""
        while self.segments and self.segments[-1].start >= physical_offset:
            if len(self.segments) == 1 and self.segments[0].start == physical_offset:
                break
            self._remove(self.segments.pop())
        if self.segments:
            segment = self.segments[-1]
            segment.wrote = segment.synced = physical_offset - segment.start
            segment.file.cut(segment.wrote)
            segment.reserved = segment.wrote
        self._disk.sync_folder(self.folder)

    def cut_to(self, physical_offset: int) -> None:
        """Makes the log end there while it is in use, the end of a record or the start of a segment: what
        stood behind it is zero, also on the disk. Raises OSError; nothing is flushed any more then.

        The file keeps its size and its map: a view of what is cut off sees zeros, and that of a segment that
        goes as a whole what it saw before.
        """
        with self._making, self._flushing:
            with self._change:
                gone = [segment for segment in self.segments[1:] if segment.start >= physical_offset]
                self.segments = self.segments[: len(self.segments) - len(gone)]
                ahead, self._next = self._next, None
            self.durable = min(self.durable, physical_offset)
            last = self.segments[-1]
            position, wrote = physical_offset - last.start, last.wrote
            last.wrote = last.reserved = position
            try:
                for segment in (*([] if ahead is None else [ahead]), *reversed(gone)):
                    self._remove(segment)
                for at in range(position, wrote, len(_ZEROS)):
                    last.file.write(at, _ZEROS[: wrote - at])
                last.file.sync()
                self._disk.sync_folder(self.folder)
            except OSError as error:
                self.flush_error = error
                raise
            last.synced = position

    def end_at(self, physical_offset: int) -> None:
        """Sets the end of the log where nothing but zeros and empty segments follows. Recovery only."""
        while len(self.segments) > 1 and self.segments[-1].start >= physical_offset:
            # A segment made ahead; it is made again when it is needed.
            self._remove(self.segments.pop())
        if self.segments:
            segment = self.segments[-1]
            segment.wrote = segment.synced = segment.reserved = physical_offset - segment.start

    def remove_first(self) -> int:
        """Removes the oldest segment, if it is not the only one; gives its size. In a thread.

        The file is unlinked at once; its memory goes when the last reader lets go of it.
        """
        with self._change:
            if len(self.segments) < 2:
                return 0
            segment, *self.segments = self.segments
        self._remove(segment)
        self._disk.sync_folder(self.folder)
        return segment.size

    def _remove(self, segment: Segment) -> None:
        segment.removed = True
        self._disk.remove(segment.file.path)

    def close(self) -> None:
        """Lets go of all files. A segment made ahead and never used is removed."""
        if self._next is not None:
            self._next.file.close()
            if self.segments:
                self._disk.remove(self._next.file.path)
            self._next = None
        for segment in self.segments:
            segment.view = memoryview(b"")
            segment.file.close()
