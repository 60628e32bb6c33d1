"""Truncation of a store at run time: the log ends earlier, and nothing derived from it knows what was behind.

The intention is a file of its own, on the disk before the first byte changes and gone after the last one did:
a start that finds it cuts the log itself and derives everything else again. So a crash at any moment leaves
either all of the log or the cut one, never a log with a hole.
"""

from __future__ import annotations

import logging
from dataclasses import InitVar, dataclass
from pathlib import Path

from orbitmq import failpoints
from orbitmq.store.acceptance import Acceptance
from orbitmq.store.errors import CannotTruncate, StoreCorrupt, StoreUnavailable
from orbitmq.store.files import Disk, replace_file
from orbitmq.store.index.index_table import Index
from orbitmq.store.log.commit_log import CommitLog
from orbitmq.store.log.sound_records import last_record_before, last_record_in
from orbitmq.store.options import StoreOptions
from orbitmq.store.queue.consume_queue import ConsumeQueue
from orbitmq.store.queue.writer import QueueWriter
from orbitmq.store.replica.raw_append import RawAppend
from orbitmq.store.structures import Structures
from orbitmq.store.timer.current import CurrentTimers

log = logging.getLogger(__name__)

FILE_NAME = "truncation"
"""Name of the file in the data folder: the physical offset at which the log is to end, in digits."""


@dataclass(eq=False, repr=False)
class Truncation:
    """Truncates an open store. Belongs to its owner."""

    options: InitVar[StoreOptions]
    _structures: Structures
    _timers: CurrentTimers
    _raw: RawAppend
    _acceptance: Acceptance

    def __post_init__(self, options: StoreOptions) -> None:
        self._root = options.root
        self._unfinished: int | None = None
        """The end of a truncation that failed on its way, for want of room for instance."""

    def run(self, physical_offset: int, now_ms: int) -> int:
        """Makes the log end at a physical offset, now and after any crash; gives where it ends.

        Records behind the offset are taken away, acknowledged or not: the caller has decided that another
        broker's log counts, and says so to its operators. An offset within a record counts as the beginning
        of that record; one at or behind the end of the log takes away nothing but a partial record.

        Queues, index, timer files, checkpoint and the confirm offset are then those of a store that never had
        more. For the owner's thread, of a broker that is not master: rules that hold state of their own begin
        anew when it becomes one (timers from `timers`, which is another object afterwards). Views that were
        given out of what is cut off see zeros, so answers that are still being sent are to be ended before.
        Other threads may flush, write queues, index and read meanwhile. It blocks as long as the
        disk does, some ms where the tail is short.

        Raises CannotTruncate for an offset before the beginning of the log, StoreUnavailable where the store
        is closed or has failed, OSError or FlushFailed where the disk does. After the latter two the store
        takes nothing, and the next call or the next start completes the truncation.
        """
        acceptance, commit_log = self._acceptance, self._structures.log
        is_resumed = self._unfinished is not None
        if (
            acceptance.is_closed
            or commit_log.flush_error is not None
            or (acceptance.half_done is not None and not is_resumed)
        ):
            raise StoreUnavailable(acceptance.refusal())
        if physical_offset < commit_log.min_physical:
            raise CannotTruncate(
                f"the log begins at {commit_log.min_physical}, and was to end at {physical_offset}: "
                "start with an empty store"
            )
        self._raw.drop_partial()
        before = commit_log.max_physical
        end = boundary(commit_log, min(physical_offset, before))
        if end == before and not is_resumed:
            return end
        with self._structures.checkpointing.lock:
            self._intend(end)
            try:
                self._cut_to(end, now_ms)
            except BaseException as error:
                self._stay_unfinished(error, end)
                raise
        acceptance.half_done = self._unfinished = None
        log.warning("%s: the log was cut from %d to %d, as asked for", self._root, before, end)
        return end

    def _intend(self, end: int) -> None:
        disk = self._structures.disk
        try:
            intend(disk, self._root, end)
        except OSError as error:
            if self._unfinished is None:
                # Nothing was cut yet, and nothing is to be cut by the next start.
                try:
                    completed(disk, self._root)
                except OSError:
                    self._stay_unfinished(error, end)
            raise

    def _stay_unfinished(self, error: BaseException, end: int) -> None:
        self._acceptance.half_done, self._unfinished = error, end

    def _cut_to(self, end: int, now_ms: int) -> None:
        structures = self._structures
        newest, reader = structures.newest, structures.reader
        changed = truncate(structures.log, structures.queue_writer, structures.index, end)
        # A truncation that failed before has changed other queues, too.
        for queue in changed if self._unfinished is None else structures.queues.all():
            reader.forget(queue)
        structures.log.reserving.run()
        last = last_record_before(structures.log, end)
        newest.physical_offset = -1 if last is None else last[0]
        newest.timestamp_ms = 0 if last is None else last[4]
        structures.arrivals.cut_to(end)
        reader.opened_end = min(reader.opened_end, end)
        structures.checkpointing.cut_to(end)
        self._timers.cut(now_ms)
        _reached("truncation.timers")
        checkpoint = structures.checkpoint
        checkpoint.index_timestamp_ms = min(checkpoint.index_timestamp_ms, newest.timestamp_ms)
        structures.queue_writer.run()
        structures.queue_writer.trim_tails()
        structures.checkpointing.write_all()
        completed(structures.disk, self._root)


def intended(disk: Disk, root: Path) -> int | None:
    """The physical offset of a truncation that was begun and not ended; None without one.

    Raises StoreCorrupt.
    """
    if FILE_NAME not in disk.names(root):
        return None
    text = disk.content(root / FILE_NAME)
    if not text.isdigit():
        raise StoreCorrupt(
            root / FILE_NAME,
            "does not hold the physical offset at which the log is to end",
            "write that offset into it, or remove it to keep all of the log",
        )
    return int(text)


def intend(disk: Disk, root: Path, physical_offset: int) -> None:
    """Notes durably that the log is to end there. Raises OSError."""
    replace_file(disk, root / FILE_NAME, b"%d" % physical_offset)


def completed(disk: Disk, root: Path) -> None:
    """Removes the note of a truncation. Raises OSError."""
    disk.remove(root / FILE_NAME)
    disk.sync_folder(root)


def boundary(commit_log: CommitLog, physical_offset: int) -> int:
    """The end of the last whole record at or before a physical offset; a segment's start stays as it is."""
    segment = commit_log.find(physical_offset)
    if segment is None or physical_offset == segment.start:
        return physical_offset
    last = last_record_in(segment, physical_offset - segment.start)
    return segment.start if last is None else last[0] + last[1]


def truncate(commit_log: CommitLog, writer: QueueWriter, index: Index, end: int) -> list[ConsumeQueue]:
    """Cuts log, consume queues and index at the end of a record; gives the queues that became shorter.

    Raises OSError.
    """
    _reached("truncation.intended")
    commit_log.cut_to(end)
    _reached("truncation.log")
    changed = writer.cut_to(end)
    _reached("truncation.queues")
    index.cut_to(end)
    _reached("truncation.index")
    return changed


def _reached(name: str) -> None:
    if failpoints.armed:
        failpoints.hit(name)
