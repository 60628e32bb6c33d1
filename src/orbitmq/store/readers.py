"""Reads the files of a store that nobody writes to (or not at the places that are read).

For tools, tests and batch jobs: paths in, messages out. Nothing is locked, created, repaired or remembered; a
file that a broker still writes to is read as far as it is sound. It knows the formats and nothing of the code
that writes them.
"""

from __future__ import annotations

import mmap
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from orbitmq.protocol.consume_queue import (
    BATCH_UNIT_BYTES,
    UNIT_BYTES,
    BatchUnit,
    Unit,
    unpack_batch_unit,
    unpack_units,
)
from orbitmq.protocol.errors import OrbitError
from orbitmq.protocol.hashing import java_hash
from orbitmq.protocol.message import BadRecord, StoredMessage
from orbitmq.protocol.message_cy import FIXED_BYTES, Stop, decode_record, locate_records

COMMIT_LOG_FOLDER = "commitlog"
CONSUME_QUEUE_FOLDER = "consumequeue"
BATCH_QUEUE_FOLDER = "batchconsumequeue"

_NAME_DIGITS = 20
_UNITS_AT_ONCE = 8192
_NO_END = 1 << 62


class NotAStore(OrbitError):
    """The folder holds no files of a store, or files that no store has."""


@dataclass(slots=True, frozen=True)
class DamagedRecord:
    """A place in the commit log where no sound record is."""

    path: Path
    physical_offset: int
    reason: str


@dataclass(slots=True, frozen=True)
class SegmentFile:
    """One file of a log or a queue; its name is the position of its first byte in the whole."""

    path: Path
    start: int
    size: int

    @property
    def end(self) -> int:
        """The position behind its last byte."""
        return self.start + self.size


def segment_files(folder: Path) -> list[SegmentFile]:
    """The files of a log or queue in order; empty files and files of other names are left out."""
    files = []
    for path in folder.iterdir():
        if len(path.name) == _NAME_DIGITS and path.name.isdecimal() and path.is_file():
            size = path.stat().st_size
            if size:
                files.append(SegmentFile(path, int(path.name), size))
    return sorted(files, key=lambda file: file.start)


class StoreFiles:
    """The files under a store's root folder (storePathRootDir). Use it as a context manager, or `close()` it.

    `commit_log_folders` are given where the commit log is elsewhere (storePathCommitLog). Damaged records
    that were met and passed over are in `damaged`; with `strict` they raise BadRecord instead.
    Raises NotAStore where there is no commit log.
    """

    def __init__(
        self,
        root: Path | str,
        *,
        commit_log_folders: Sequence[Path | str] | None = None,
        strict: bool = False,
    ) -> None:
        self.root = Path(root)
        folders = [Path(one) for one in commit_log_folders or (self.root / COMMIT_LOG_FOLDER,)]
        for folder in folders:
            if not folder.is_dir():
                raise NotAStore(f"there is no commit log at {folder}")
        files = [file for folder in folders for file in segment_files(folder)]
        self.segments = sorted(files, key=lambda file: file.start)
        """The files of the commit log."""
        self.damaged: list[DamagedRecord] = []
        self._strict = strict
        self._starts = [file.start for file in self.segments]
        self._maps: dict[int, mmap.mmap] = {}
        for one, following in zip(self.segments, self.segments[1:], strict=False):
            if one.end > following.start:
                raise NotAStore(f"{one.path} and {following.path} overlap")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Gives the files back. Views that were handed out must not be in use any more."""
        while self._maps:
            self._maps.popitem()[1].close()

    @property
    def min_physical_offset(self) -> int:
        """Where the commit log begins; 0 without any file."""
        return self.segments[0].start if self.segments else 0

    def segment_view(self, segment: SegmentFile) -> mmap.mmap:
        """A file of the commit log as read-only memory; it stays open until `close()`."""
        view = self._maps.get(segment.start)
        if view is None:
            with segment.path.open("rb") as file:
                view = mmap.mmap(file.fileno(), segment.size, access=mmap.ACCESS_READ)
            self._maps[segment.start] = view
        return view

    # ---- the commit log ----

    def record_at(self, physical_offset: int) -> StoredMessage | None:
        """The record at a physical offset; None outside the log. Raises BadRecord if none begins there."""
        number = bisect_right(self._starts, physical_offset) - 1
        if number < 0 or physical_offset >= self.segments[number].end:
            return None
        segment = self.segments[number]
        record = decode_record(self.segment_view(segment), physical_offset - segment.start)
        if record.physical_offset != physical_offset:
            raise BadRecord(
                f"the record says that it is at {record.physical_offset}", physical_offset - segment.start
            )
        return record

    def records(
        self, from_physical_offset: int = 0, to_physical_offset: int = _NO_END
    ) -> Iterator[StoredMessage]:
        """The records that begin in a range of the commit log, in order, whatever their topic.

        `from_physical_offset` has to be where a record begins (or before the log). The end of the log is
        where nothing was written yet, or where a torn last record stands, which counts as damaged.
        """
        for segment in self.segments:
            if segment.end > from_physical_offset and segment.start < to_physical_offset:
                yield from self._segment_records(segment, from_physical_offset, to_physical_offset)

    def _segment_records(self, segment: SegmentFile, begin: int, end: int) -> Iterator[StoredMessage]:
        view = self.segment_view(segment)
        position = max(begin, segment.start) - segment.start
        limit = min(end, segment.end) - segment.start
        while position < limit:
            found = locate_records(view, position)
            numbers = memoryview(found.table).cast("q")
            for at in numbers[::8].tolist():
                if at >= limit:
                    return
                record = decode_record(view, at, check_crc=False)
                if record.physical_offset == segment.start + at:
                    yield record
                else:
                    self._met(segment, at, f"the record says that it is at {record.physical_offset}")
            position = found.position
            if found.stop is Stop.BAD and position < limit:
                self._met(segment, position, found.reason)
                size = int.from_bytes(view[position : position + 4], "big", signed=True)
                if not FIXED_BYTES <= size <= segment.size - position:
                    return
                position += size
            elif found.stop is not Stop.END:
                return

    def _met(self, segment: SegmentFile, position: int, reason: str) -> None:
        if self._strict:
            raise BadRecord(f"{segment.path}: {reason}", position)
        self.damaged.append(DamagedRecord(segment.path, segment.start + position, reason))

    # ---- queues ----

    def queues(self) -> list[tuple[str, int]]:
        """(topic, queue id) of every consume queue, sorted."""
        return _queues(self.root / CONSUME_QUEUE_FOLDER)

    def queue(self, topic: str, queue_id: int) -> QueueFiles:
        """The files of one consume queue; none where the queue does not exist."""
        return QueueFiles(self.root / CONSUME_QUEUE_FOLDER / topic / str(queue_id))

    def messages(
        self,
        topic: str,
        queue_id: int,
        from_queue_offset: int = 0,
        to_queue_offset: int = _NO_END,
        tags: frozenset[str] | None = None,
    ) -> Iterator[StoredMessage]:
        """The messages of a queue, in order; with `tags` only those that have one of them.

        A unit whose record is not there, is damaged or belongs elsewhere counts as damaged.
        """
        codes = None if tags is None else frozenset(map(java_hash, tags))
        for queue_offset, unit in self.queue(topic, queue_id).units(
            from_queue_offset, to_queue_offset, codes
        ):
            message = self._message(topic, queue_id, queue_offset, unit)
            if message is not None and (tags is None or message.tags in tags):
                yield message

    def _message(self, topic: str, queue_id: int, queue_offset: int, unit: Unit) -> StoredMessage | None:
        if unit.physical_offset < self.min_physical_offset:
            return None  # Retention removed it; its unit goes later.
        try:
            record = self.record_at(unit.physical_offset)
        except BadRecord as error:
            record, reason = None, error.reason
        else:
            reason = "the commit log has nothing there"
            if record is not None:
                found = (record.topic, record.queue_id, record.queue_offset, record.size)
                if found == (topic, queue_id, queue_offset, unit.size):
                    return record
                reason = f"the unit of {topic} {queue_id} at {queue_offset} points to the record of {found}"
        number = max(0, bisect_right(self._starts, unit.physical_offset) - 1)
        segment = self.segments[number] if self.segments else SegmentFile(self.root, 0, 0)
        self._met(segment, unit.physical_offset - segment.start, reason)
        return None

    def batch_queues(self) -> list[tuple[str, int]]:
        """(topic, queue id) of every queue of inner batches, sorted."""
        return _queues(self.root / BATCH_QUEUE_FOLDER)

    def batch_units(self, topic: str, queue_id: int) -> Iterator[BatchUnit]:
        """The units of a queue of inner batches, in order."""
        folder = self.root / BATCH_QUEUE_FOLDER / topic / str(queue_id)
        for file in segment_files(folder) if folder.is_dir() else ():
            raw = file.path.read_bytes()
            for position in range(0, len(raw) - BATCH_UNIT_BYTES + 1, BATCH_UNIT_BYTES):
                unit = unpack_batch_unit(raw, position)
                if unit.physical_offset < 0 or unit.size <= 0:
                    return
                yield unit


def _queues(folder: Path) -> list[tuple[str, int]]:
    if not folder.is_dir():
        return []
    return sorted(
        (topic.name, int(queue.name))
        for topic in folder.iterdir()
        if topic.is_dir()
        for queue in topic.iterdir()
        if queue.name.isdecimal() and queue.is_dir()
    )


class QueueFiles:
    """The files of one consume queue."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files = segment_files(folder) if folder.is_dir() else []

    @property
    def min_offset(self) -> int:
        """The queue offset of the first unit there is; 0 without any."""
        return next((offset for offset, _ in self.units()), 0)

    @property
    def max_offset(self) -> int:
        """The queue offset behind the last unit; 0 without any."""
        offset = 0
        # A new file without units says nothing of its own: the one before is full.
        for file in self.files[-2:]:
            for number, chunk in _chunks(file, 0):
                written = _count_units(chunk)
                if written:
                    offset = file.start // UNIT_BYTES + number + written
                if written < len(chunk) // UNIT_BYTES:
                    break
        return offset

    def units(
        self, from_queue_offset: int = 0, to_queue_offset: int = _NO_END, codes: frozenset[int] | None = None
    ) -> Iterator[tuple[int, Unit]]:
        """(queue offset, unit) of the units in a range, in order, as far as they were written.

        With `codes` only those whose tags code is one of them. Blank units are left out.
        """
        for file in self.files:
            first = file.start // UNIT_BYTES
            for number, chunk in _chunks(file, max(0, from_queue_offset - first)):
                for queue_offset, unit in enumerate(unpack_units(chunk), first + number):
                    if queue_offset >= to_queue_offset or unit.ends_queue:
                        return
                    if unit.is_written and (codes is None or unit.tags_code in codes):
                        yield queue_offset, unit


def _count_units(chunk: bytes) -> int:
    """How many units were written before the first one that was not."""
    for count, unit in enumerate(unpack_units(chunk)):
        if unit.ends_queue:
            return count
    return len(chunk) // UNIT_BYTES


def _chunks(file: SegmentFile, number: int) -> Iterator[tuple[int, bytes]]:
    """(number of its first unit, bytes) of pieces of a file, from a unit on."""
    with file.path.open("rb") as handle:
        handle.seek(number * UNIT_BYTES)
        while len(chunk := handle.read(_UNITS_AT_ONCE * UNIT_BYTES)) >= UNIT_BYTES:
            yield number, chunk
            number += len(chunk) // UNIT_BYTES
