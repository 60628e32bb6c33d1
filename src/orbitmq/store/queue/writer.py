"""Writes units of all queues from memory to their files, in bulk, in a thread.

All writes, flushes and deletions of queue files run here, one after another, so a queue that was deleted and
created again cannot meet its own old files.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from orbitmq import failpoints
from orbitmq.store.files import PAGE_BYTES, Disk, FileSystem, StoreFile, segment_name
from orbitmq.store.queue.consume_queue import (
    BLANK_UNIT,
    UNIT_BYTES,
    ConsumeQueue,
    OpenFiles,
    QueueTable,
    queue_folder,
)
from orbitmq.store.queue.extension import ExtensionFiles
from orbitmq.store.queue.loading import wipe_behind

T = TypeVar("T")

log = logging.getLogger(__name__)

MANY_FILES = 256
"""From this number of files on, syncing the whole file system is quicker than syncing one after another."""
TRIMMED_PER_CALL = 1_000
"""Queues whose units in files an append or a read drops from memory: some ms."""


class QueueWriter:
    """The writer of consume queues: units to write, and units written."""

    def __init__(self, disk: Disk, table: QueueTable, extension: ExtensionFiles, least_pages: int) -> None:
        self._disk = disk
        self._table = table
        self._extension = extension
        self._least_bytes = least_pages * PAGE_BYTES
        self.files = OpenFiles(disk, table.folder, table.file_bytes)
        self.busy = threading.Lock()
        """Held while units are written: tails only grow then."""
        self.written: deque[ConsumeQueue] = deque()
        """Queues whose tail begins with units that are in files by now."""
        self._deleted: deque[ConsumeQueue] = deque()
        self._unsynced: dict[ConsumeQueue, tuple[int, ...]] = {}
        """Starts of files with something that is not on the disk. Not held open for that."""
        self._unnamed: set[ConsumeQueue] = set()
        """Queues with names of files or folders that are not on the disk."""
        self._file_system: FileSystem | None = None
        """Open before the first write: it reports errors since then."""
        self.error: OSError | None = None
        """The error that ended the last run; None after a complete one."""
        self.sync_error: OSError | None = None
        """The error of a sync that failed; it stays. Pages that a failed sync has dropped are marked clean,
        and the next one would succeed without them.
        """

    def mark_deleted(self, queues: list[ConsumeQueue]) -> None:
        """Schedules the files of deleted queues for removal by the next run."""
        self._deleted.extend(queues)

    def run(self, unwritten: Callable[[], list[ConsumeQueue]] | None = None) -> None:
        """Writes all new units and removes files of deleted queues. Raises OSError; the rest is written
        later.

        `unwritten` gives the queues with new units; without it all queues are checked.
        """
        with self.busy:
            try:
                self._watch_errors()
                self._remove_deleted()
                end = self._table.writable_end
                looked_at = self._table.all() if unwritten is None or self.error is not None else unwritten()
                for queue in [queue for queue in looked_at if queue.written_to < end(queue)]:
                    # Checked again: a queue may be listed twice.
                    if not queue.removed and queue.written_to < end(queue):
                        self._write(queue)
                        if queue.unsynced_bytes >= self._least_bytes > 0:
                            self._sync(queue)
            except OSError as error:
                self.error = error
                raise
            self.error = None

    def _write(self, queue: ConsumeQueue) -> None:
        if self._deleted:
            # Deleted and made again since this run began: the old files go first.
            self._remove_deleted()
        first = queue.written_to
        skip = (first - queue.tail_start) * UNIT_BYTES
        count = self._table.writable_end(queue) - first
        units = bytes(memoryview(bytes(queue.tail))[skip : skip + count * UNIT_BYTES])
        self._extension.write(queue)  # first what these units point to
        if failpoints.armed:
            failpoints.hit("consumequeue.write")
        if first == queue.base:
            self._blank_before(queue)
        self._write_at(queue, first * UNIT_BYTES, units)
        queue.unsynced_bytes += len(units)
        queue.written_to = first + len(units) // UNIT_BYTES
        self.written.append(queue)

    def roll_back(self, queue: ConsumeQueue) -> None:
        """Makes units zero that were written of messages which are not in the log after all. Call with `busy`
        held. Raises OSError.
        """
        end = queue.max_offset
        if queue.written_to > end:
            self._write_at(queue, end * UNIT_BYTES, bytes((queue.written_to - end) * UNIT_BYTES))
            queue.written_to = end

    def cut_to(self, physical_offset: int) -> list[ConsumeQueue]:
        """Drops the units of all messages from a physical offset on, out of memory and files; gives the
        queues that had some. The owner's. Raises OSError.

        A queue that has begun behind the offset is removed, as if there had never been one.
        """
        changed = []
        with self.busy:
            for queue in self._table.all():
                end = self._table.end_before(queue, physical_offset)
                if end == queue.max_offset:
                    continue
                changed.append(queue)
                self.files.forget(queue)
                if end == 0 or end <= queue.base:
                    self._table.remove(queue)
                    self._extension.forget(queue)
                    self._deleted.append(queue)
                    continue
                self._table.cut(queue, end)
                queue.written_to = min(queue.written_to, end)
                self.note_unsynced(queue, wipe_behind(self._table, queue))
            self._remove_deleted()
        return changed

    def _write_at(self, queue: ConsumeQueue, position: int, units: bytes) -> None:
        view = memoryview(units)
        while view:
            start = position - position % self._table.file_bytes
            file = self._file(queue, start)
            part = view[: start + self._table.file_bytes - position]
            file.write(position - start, part)
            self._note_unsynced(queue, start)
            if position in (start, queue.base * UNIT_BYTES):
                self._unnamed.add(queue)  # the file is new
            view = view[len(part) :]
            position += len(part)

    def _blank_before(self, queue: ConsumeQueue) -> None:
        """A queue that does not begin at the start of a file has blank units there."""
        position = queue.base * UNIT_BYTES
        start = position - position % self._table.file_bytes
        if position > start:
            self._file(queue, start).write(0, BLANK_UNIT * ((position - start) // UNIT_BYTES))

    def _file(self, queue: ConsumeQueue, start: int) -> StoreFile:
        file = self.files.get(queue, start, create=True)
        assert file is not None
        return file

    def _sync(self, queue: ConsumeQueue) -> None:
        for start in () if queue.removed else self._unsynced.get(queue, ()):
            file = self.files.get(queue, start)
            if file is not None:
                self._once(file.sync)
        self._note_synced(queue)

    def _note_unsynced(self, queue: ConsumeQueue, start: int) -> None:
        starts = self._unsynced.get(queue, ())
        if start not in starts:
            self._unsynced[queue] = *starts, start

    def _note_synced(self, queue: ConsumeQueue) -> None:
        self._unsynced.pop(queue, None)
        queue.unsynced_bytes = 0

    def _once(self, sync: Callable[[], T]) -> T:
        """Syncs, unless it has failed before."""
        if self.sync_error is not None:
            raise OSError(self.sync_error.errno, f"an earlier sync failed: {self.sync_error.strerror}")
        try:
            if failpoints.armed:
                failpoints.hit("consumequeue.sync")
            return sync()
        except OSError as error:
            self.sync_error = error
            raise

    def note_unsynced(self, queue: ConsumeQueue, starts: list[int]) -> None:
        """Schedules a sync of a queue's folder, and of files that recovery has written. For recovery only."""
        self._watch_errors()
        for start in starts:
            self._note_unsynced(queue, start)
        self._unnamed.add(queue)

    def _watch_errors(self) -> None:
        if self._file_system is None:
            self._file_system = self._disk.file_system(self._table.folder)

    def sync_all(self) -> None:
        """Brings everything written so far to the disk. Raises OSError, once it did for good."""
        with self.busy:
            self._once(self._extension.sync)
            file_system, names_are_there = self._file_system, False
            if file_system is not None and len(self._unsynced) + len(self._unnamed) >= MANY_FILES:
                names_are_there = self._once(file_system.write_out)
                if names_are_there and file_system.reports_errors:
                    for queue in list(self._unsynced):
                        self._note_synced(queue)
            for queue in list(self._unsynced):
                self._sync(queue)
            # A file that the disk has no name of is gone with the next power cut, whatever was synced of it.
            for folder in set() if names_are_there else self._unnamed_folders():
                self._once(partial(self._sync_names, folder))
            self._unnamed.clear()

    def _unnamed_folders(self) -> set[Path]:
        folders = {queue_folder(self._table.folder, queue) for queue in self._unnamed}
        return folders and {*folders, *(folder.parent for folder in folders), self._table.folder}

    def _sync_names(self, folder: Path) -> None:
        with contextlib.suppress(FileNotFoundError):  # its queue was removed
            self._disk.sync_folder(folder)

    def trim_tails(self, most: int = sys.maxsize) -> None:
        """Drops written units from the tails of up to `most` queues. Called by the owner, which never waits
        for a running write.
        """
        if not self.busy.acquire(blocking=False):
            return
        try:
            for _ in range(min(most, len(self.written))):
                queue = self.written.popleft()
                count = queue.written_to - queue.tail_start
                if count > 0 and not queue.removed:
                    last = min(count * UNIT_BYTES, len(queue.tail)) - UNIT_BYTES
                    queue.newest_at = int.from_bytes(queue.tail[last : last + 8])
                    if count * UNIT_BYTES >= len(queue.tail):
                        queue.tail = bytearray()
                    else:
                        del queue.tail[: count * UNIT_BYTES]
                    queue.tail_start += count
                    self._extension.trim_tail(queue)
        finally:
            self.busy.release()

    def _remove_deleted(self) -> None:
        while self._deleted:
            queue = self._deleted.popleft()
            self.files.forget(queue)
            folder = queue_folder(self._table.folder, queue)
            self._note_synced(queue)
            for start in self._table.file_starts(queue):
                self._disk.remove(folder / segment_name(start))
            self._disk.remove_folder(folder)
            self._disk.remove_folder(folder.parent)
            self._extension.remove(queue)

    # Retention.

    def raise_min_offsets(self, min_physical: int) -> None:
        """Moves the first offset of every queue to where its messages are still in the log; deletes what is
        before.

        The last file of a queue stays: its name holds the queue's offset.
        """
        with self.busy:
            for queue in self._table.all():
                if queue.min_offset >= queue.max_offset:
                    continue
                first = self._table.unit(queue, queue.min_offset, self.files)
                if first is not None and first[0] >= min_physical:
                    continue
                queue.min_offset = self._table.first_from(queue, min_physical, self.files)
                self._remove_files_before(queue)

    def _remove_files_before(self, queue: ConsumeQueue) -> None:
        folder = queue_folder(self._table.folder, queue)
        for start in self._table.file_starts(queue)[:-1]:
            if start + self._table.file_bytes <= queue.min_offset * UNIT_BYTES:
                self._disk.remove(folder / segment_name(start))
        first = self._table.unit(queue, queue.min_offset, self.files)
        if first is not None:
            self._extension.remove_before(queue, first[2])

    def close(self) -> None:
        """Lets go of all files."""
        self.files.clear()
        self._unsynced.clear()
        if self._file_system is not None:
            self._file_system.close()
            self._file_system = None
