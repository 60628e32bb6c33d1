"""The sweep: units of all queues from memory to their files, in bulk, in a thread.

Whatever writes, flushes or deletes files of queues runs here, one after another, so that a queue that was
deleted and made again cannot meet its own old files.
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

from orbitmq.store import failpoints
from orbitmq.store.consume_queue import (
    BLANK_UNIT,
    UNIT_BYTES,
    ConsumeQueue,
    OpenFiles,
    QueueTable,
    queue_folder,
)
from orbitmq.store.extension import ExtensionFiles
from orbitmq.store.files import Disk, StoreFile, segment_name

log = logging.getLogger(__name__)

PAGE_BYTES = 4096
MANY_FILES = 256
"""To sync so many one after the other takes longer than to have the file system write all it has."""


class Sweep:
    """What waits to be written, and what was."""

    def __init__(self, disk: Disk, table: QueueTable, extension: ExtensionFiles, least_pages: int) -> None:
        self._disk = disk
        self._table = table
        self._extension = extension
        self._least_bytes = least_pages * PAGE_BYTES
        self.files = OpenFiles(disk, table.folder, table.file_bytes)
        self.busy = threading.Lock()
        """Held while a sweep runs: tails only grow then."""
        self.swept: deque[ConsumeQueue] = deque()
        """Queues whose tail begins with units that are in files by now."""
        self._doomed: deque[ConsumeQueue] = deque()
        self._unsynced: set[tuple[ConsumeQueue, int]] = set()
        """Files, by their start, with something that is not on the disk. Not held open for that."""
        self._unnamed: set[Path] = set()
        """Folders with names of files or folders that are not on the disk."""
        self.error: OSError | None = None
        """Why the last sweep did not get through; None after one that did."""
        self.sync_error: OSError | None = None
        """Why a sync has failed, for good: pages that a failed one has dropped are marked clean, and the next
        would succeed without them.
        """

    def doom(self, queues: list[ConsumeQueue]) -> None:
        """Has the files of deleted queues removed by the next sweep."""
        self._doomed.extend(queues)

    def run(self, stirred: Callable[[], list[ConsumeQueue]] | None = None) -> None:
        """Writes all that waits, removes what is doomed. Raises OSError; what was not written still waits.

        With `stirred`, which tells the queues with something new, it does not look at all the others.
        """
        with self.busy:
            try:
                self._remove_doomed()
                end = self._table.end
                looked_at = self._table.all() if stirred is None or self.error is not None else stirred()
                for queue in [queue for queue in looked_at if queue.swept_to < end(queue)]:
                    # Once more: one may be listed twice.
                    if not queue.removed and queue.swept_to < end(queue):
                        self._write(queue)
                        if queue.unsynced_bytes >= self._least_bytes > 0:
                            self._sync(queue)
            except OSError as error:
                self.error = error
                raise
            self.error = None

    def _write(self, queue: ConsumeQueue) -> None:
        if self._doomed:
            # Deleted and made again since this sweep began: the old files go first.
            self._remove_doomed()
        first = queue.swept_to
        skip = (first - queue.tail_start) * UNIT_BYTES
        count = self._table.end(queue) - first
        units = bytes(memoryview(bytes(queue.tail))[skip : skip + count * UNIT_BYTES])
        self._extension.write(queue)  # first what these units point to
        if failpoints.armed:
            failpoints.hit("consumequeue.write")
        if first == queue.base:
            self._blank_before(queue)
        self._write_at(queue, first * UNIT_BYTES, units)
        queue.unsynced_bytes += len(units)
        queue.swept_to = first + len(units) // UNIT_BYTES
        self.swept.append(queue)

    def take_back(self, queue: ConsumeQueue) -> None:
        """Makes units zero that were written of messages which are not in the log after all. Call with `busy`
        held. Raises OSError.
        """
        end = queue.max_offset
        if queue.swept_to > end:
            self._write_at(queue, end * UNIT_BYTES, bytes((queue.swept_to - end) * UNIT_BYTES))
            queue.swept_to = end

    def _write_at(self, queue: ConsumeQueue, position: int, units: bytes) -> None:
        view = memoryview(units)
        while view:
            start = position - position % self._table.file_bytes
            file = self._file(queue, start)
            part = view[: start + self._table.file_bytes - position]
            file.write(position - start, part)
            self._unsynced.add((queue, start))
            if position in (start, queue.base * UNIT_BYTES):
                self._note_unnamed(queue)  # the file is new
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
        for key in [key for key in self._unsynced if key[0] is queue]:
            self._sync_file(*key)
        queue.unsynced_bytes = 0

    def _sync_file(self, queue: ConsumeQueue, start: int) -> None:
        if not queue.removed:
            file = self.files.get(queue, start)
            if file is not None:
                self._once(file.sync)
        self._unsynced.discard((queue, start))

    def _once(self, sync: Callable[[], None]) -> None:
        """Syncs, unless it has failed before."""
        if self.sync_error is not None:
            raise OSError(self.sync_error.errno, f"an earlier sync failed: {self.sync_error.strerror}")
        try:
            if failpoints.armed:
                failpoints.hit("consumequeue.sync")
            sync()
        except OSError as error:
            self.sync_error = error
            raise

    def note_unsynced(self, queue: ConsumeQueue, starts: list[int]) -> None:
        """Has a queue's names synced, and files that somebody else has written to; before the first sweep."""
        self._unsynced.update((queue, start) for start in starts)
        self._note_unnamed(queue)

    def _note_unnamed(self, queue: ConsumeQueue) -> None:
        folder = queue_folder(self._table.folder, queue)
        self._unnamed.update((folder, folder.parent, self._table.folder))

    def sync_all(self) -> None:
        """Brings everything written so far to the disk. Raises OSError, once it did for good."""
        with self.busy:
            self._once(self._extension.sync)
            names_are_there = False
            if len(self._unsynced) + len(self._unnamed) >= MANY_FILES:
                names_are_there = self._disk.write_out(self._table.folder)
            for queue, start in list(self._unsynced):
                self._sync_file(queue, start)
                queue.unsynced_bytes = 0
            # A file that the disk has no name of is gone with the next power cut, whatever was synced of it.
            for folder in [] if names_are_there else list(self._unnamed):
                self._once(partial(self._sync_names, folder))
            self._unnamed.clear()

    def _sync_names(self, folder: Path) -> None:
        with contextlib.suppress(FileNotFoundError):  # its queue was removed
            self._disk.sync_folder(folder)

    def take_in(self, most: int = sys.maxsize) -> None:
        """Drops swept units from the tails of up to `most` queues: the owner's part, which never waits for a
        running sweep.
        """
        if not self.busy.acquire(blocking=False):
            return
        try:
            for _ in range(min(most, len(self.swept))):
                queue = self.swept.popleft()
                count = queue.swept_to - queue.tail_start
                if count > 0 and not queue.removed:
                    if count * UNIT_BYTES >= len(queue.tail):
                        queue.tail = bytearray()
                    else:
                        del queue.tail[: count * UNIT_BYTES]
                    queue.tail_start += count
                    self._extension.take_in(queue)
        finally:
            self.busy.release()

    def _remove_doomed(self) -> None:
        while self._doomed:
            queue = self._doomed.popleft()
            self.files.forget(queue)
            folder = queue_folder(self._table.folder, queue)
            for start in self._table.file_starts(queue):
                self._unsynced.discard((queue, start))
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
