"""The commit log: segments of one size, side by side, mapped into memory; records are appended to the last.

Physical offsets run through all segments: segment `s` holds the bytes from `s.start` on. A record never
crosses the end of its segment; what it leaves free there is marked blank.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from orbitmq import failpoints
from orbitmq.protocol.records.message import BLANK_BYTES, FIXED_BYTES, BadRecord, StoredMessage
from orbitmq.protocol.records.message_cy import decode_record, read_header
from orbitmq.protocol.records.plain import encode_blank
from orbitmq.store.errors import FlushFailed, StoreCorrupt
from orbitmq.store.files import Disk, is_segment_name, segment_name, segment_starts
from orbitmq.store.log.reserving import Reserving
from orbitmq.store.log.segment import ZEROS, Segment

log = logging.getLogger(__name__)

ROOM_WAIT_SECONDS = 0.02
"""The owner waits so long for the thread that reserves; then messages are refused until it has room."""

_PIECE_BYTES = 4 << 20
UNFLUSHED = "unflushed"
"""Name of a file beside the log: from the physical offset that it holds on, a flush has failed."""


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
        self.next_segment: Segment | None = None
        """The segment behind the last one, made ahead."""
        self.reserving = Reserving(self)
        self.durable = 0
        """Everything below is on the disk. Moves in the thread that flushes."""
        self.flush_error: OSError | None = None
        self.flushing_since = 0.0
        """The beginning of the flush that is under way (monotonic); 0 without one."""

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

    # Places of records and segments.

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
        """Store time of the record at a physical offset; None if none is there."""
        size = int.from_bytes(self.read(physical_offset, 4), "big", signed=True)
        try:
            return int(read_header(self.read(physical_offset, max(0, size)))[6])
        except BadRecord:
            return None

    def segment_before(self, time_ms: int) -> int:
        """The start of the last segment whose first record was stored before a time; of the first one if
        none was. Everything stored at that time or later stands behind it.
        """
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

    # Appending: only the owner of the store.

    def ensure_space(self, needed_bytes: int, wait_seconds: float = ROOM_WAIT_SECONDS) -> Segment:
        """The segment that takes so many bytes more, and a blank record's, at its write position.

        Reserves blocks if they were not reserved ahead; continues in a new segment if the present one is too
        full. Raises OSError if the disk has no room, DiskStalled where the thread that reserves does not get
        there in time.
        """
        needed_bytes += BLANK_BYTES
        if needed_bytes > self.segment_bytes:
            raise ValueError(f"{needed_bytes} bytes do not fit into a segment")
        if not self.reserving.has_room(needed_bytes):
            self.reserving.make_room(needed_bytes, wait_seconds)
        if self.segments and self.segments[-1].wrote + needed_bytes <= self.segments[-1].size:
            return self.segments[-1]
        following = self.next_segment
        assert following is not None
        with self._change:
            if self.segments:
                self._fill_up(self.segments[-1])
            self.segments = [*self.segments, following]
            self.next_segment = None
        return following

    def begin_at(self, physical_offset: int) -> None:
        """Has an empty log begin with the segment at a physical offset, for a slave whose master's does."""
        if self.max_physical:
            raise ValueError(f"the log ends at {self.max_physical}, it is not empty")
        with self._making, self._change:
            for segment in (*self.segments, *([] if self.next_segment is None else [self.next_segment])):
                self._remove(segment)
            self.next_segment = None
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

    def make_next(self) -> Segment:
        """The segment behind the last one, made now if it is not there."""
        following = self.next_segment
        if following is not None:
            return following
        with self._making:
            if self.next_segment is None:
                self.next_segment = self._create(self.segments[-1].end if self.segments else 0)
            return self.next_segment

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
            self.flushing_since = time.monotonic()
            try:
                self._sync_segments()
            finally:
                self.flushing_since = 0.0
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
                self._record_unsynced()
                raise FlushFailed(f"{segment.file.path}: {error}") from error
            segment.synced = wrote

    def _record_unsynced(self) -> None:
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
        since = self.flushing_since
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
                ahead, self.next_segment = self.next_segment, None
            self.durable = min(self.durable, physical_offset)
            last = self.segments[-1]
            position, wrote = physical_offset - last.start, last.wrote
            last.wrote = last.reserved = position
            try:
                for segment in (*([] if ahead is None else [ahead]), *reversed(gone)):
                    self._remove(segment)
                for at in range(position, wrote, len(ZEROS)):
                    last.file.write(at, ZEROS[: wrote - at])
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
        if self.next_segment is not None:
            self.next_segment.file.close()
            if self.segments:
                self._disk.remove(self.next_segment.file.path)
            self.next_segment = None
        for segment in self.segments:
            segment.view = memoryview(b"")
            segment.file.close()
