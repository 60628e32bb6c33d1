"""The start of a store, which brings what is in its folder in order, and its orderly end."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from orbitmq.store.acceptance import Acceptance
from orbitmq.store.errors import StoreCorrupt
from orbitmq.store.files import NO_SPACE, NoFile, replace_file
from orbitmq.store.lock import StoreLock
from orbitmq.store.options import StoreOptions
from orbitmq.store.queue.loading import load_queues
from orbitmq.store.recovery.deleted_topics import load_deletions
from orbitmq.store.recovery.log_recovery import Recovery
from orbitmq.store.recovery.queue_checkpoint import QueueCheckpoint
from orbitmq.store.recovery.recovered import Recovered
from orbitmq.store.replica.truncation import completed
from orbitmq.store.structures import Structures
from orbitmq.store.timer.check_point import TimerMark
from orbitmq.store.timer.current import CurrentTimers

log = logging.getLogger(__name__)

ABORT = "abort"
"""Name of the file in the data folder that an end in order removes."""
INDEX_SLICES_AT_END = 512
FAR_AHEAD_MS = 366 * 24 * 3600_000
"""Store times do not go back where the clock was set back, by up to so much."""


@contextmanager
def locked(root: Path) -> Iterator[StoreLock]:
    """The lock of a data folder, which is made if there is none. It is released where the block fails.

    Raises StoreLocked; StoreCorrupt, also for what the block finds to be no folder, no file or out of reach.
    """
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreCorrupt(
            root, f"cannot be made a data folder ({error.strerror})", "choose another one"
        ) from None
    lock = StoreLock.acquire(root)
    try:
        yield lock
    except BaseException as error:
        lock.release()
        path = Path(getattr(error, "filename", None) or root)
        if isinstance(error, FileExistsError):
            raise StoreCorrupt(path, "is a file where a folder has to be", "move it away") from None
        if isinstance(error, NoFile):
            raise StoreCorrupt(path, "is no regular file", "move it away") from None
        if isinstance(error, PermissionError | IsADirectoryError | NotADirectoryError):
            raise StoreCorrupt(
                path, f"cannot be used ({error.strerror})", "make it readable and writable for this user"
            ) from None
        raise


def start(
    options: StoreOptions, structures: Structures, timers: CurrentTimers, cut: int | None, now_ms: int
) -> Recovered:
    """Brings log, queues, index and timers in order, in this order; gives what was found.

    `cut` is the physical offset of a truncation that the last process did not complete: it is carried out
    first. Raises StoreCorrupt, OSError.
    """
    root, disk, commit_log = options.root, structures.disk, structures.log
    disk.make_folder(root / "consumequeue")
    disk.make_folder(root / "config")
    clean = ABORT not in disk.names(root) and cut is None
    # A mark that was there is missing at no moment: it shows a crash.
    replace_file(disk, root / ABORT, str(os.getpid()).encode())
    if cut is not None:
        log.warning("%s: a truncation of the log to %d had not ended: it is carried out now", root, cut)
        commit_log.truncate(cut)
        structures.checkpoint.index_timestamp_ms = 0  # the newest index file may be half cut
    recovery = _recover_queues(options, structures, clean, cut is not None)
    _apply_recovered(recovery.found, structures, now_ms)
    structures.index.load(clean, recovery.queue_checkpoint, anew=recovery.is_other_log)
    structures.reader.opened_end = commit_log.max_physical
    structures.arrivals.begin()
    structures.checkpointing.begin(
        now_ms,
        written_to=commit_log.max_physical if structures.queue_writer.error is None else 0,
        synced_to=commit_log.max_physical if clean else commit_log.min_physical,
    )
    if not commit_log.segments:
        commit_log.ensure_space(0)
    commit_log.reserving.run()
    if options.timer_wheel_enable:
        timers.open(clean, now_ms)
    if cut is not None:
        timers.cut(now_ms)
        structures.checkpointing.save_all()
        completed(disk, root)
    return recovery.found


def _recover_queues(options: StoreOptions, structures: Structures, clean: bool, is_cut: bool) -> Recovery:
    """Finds the end of the log, and makes the queues agree with it."""
    disk, queues = structures.disk, structures.queues
    queues.batch_topics = frozenset(disk.names(options.root / "batchconsumequeue"))
    if queues.batch_topics:
        log.warning(
            "batch queues are not supported: topics %s can be neither read nor written",
            ", ".join(sorted(queues.batch_topics)),
        )
    load_queues(queues)
    checkpoint = structures.checkpoint
    recovery = Recovery(
        options,
        structures.log,
        queues,
        structures.queue_writer,
        checkpoint,
        None if is_cut else QueueCheckpoint.load(disk, options.root, checkpoint.mark),
        clean,
        load_deletions(disk, options.root, structures.log),
    )
    found = recovery.run()
    try:
        structures.queue_writer.run()
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise
        log.error("rebuilt consume queues cannot be written: %s; no messages are taken", error)
    structures.queue_writer.trim_tails()
    if found.scanned:
        log.info(
            "%s: recovered%s; the log was read from %d on and ends at %d, %d queue entries were put "
            "back, %d bytes cut off",
            *(options.root, "" if clean else " after an end that was not in order", found.read_from),
            *(structures.log.max_physical, found.rebuilt_units, found.cut_bytes),
        )
    return recovery


def _apply_recovered(found: Recovered, structures: Structures, now_ms: int) -> None:
    """The newest record, damaged ones, and the begin of the log."""
    structures.newest.physical_offset = found.last_record
    # No checksum is over a time: one that far ahead is damaged, and must not become that of new records.
    is_time = found.last_timestamp_ms < now_ms + FAR_AHEAD_MS
    structures.newest.timestamp_ms = found.last_timestamp_ms if is_time else now_ms
    for physical_offset in found.bad_records:
        structures.reader.note_bad(physical_offset, "", -1, -1)
    structures.queue_writer.raise_min_offsets(structures.log.min_physical)


def finish(
    options: StoreOptions,
    structures: Structures,
    timers: CurrentTimers,
    mark: TimerMark | None,
    acceptance: Acceptance,
) -> None:
    """Writes and flushes everything, and marks the end as one in order if it is. Raises OSError, FlushFailed.

    `mark` says where the owner of the timers stopped.
    """
    commit_log, index, queue_writer = structures.log, structures.index, structures.queue_writer
    commit_log.flush()
    # Units go to their files, whatever replicas have: what is in the log counts at the next start.
    if structures.confirm.replicated is not None:
        structures.arrivals.replicas_reached(None)
    structures.arrivals.show_confirmed()
    queue_writer.run()
    queue_writer.trim_tails()
    index.build(commit_log.max_physical, structures.newest.timestamp_ms, INDEX_SLICES_AT_END)
    is_whole = acceptance.half_done is None
    if is_whole:
        structures.checkpointing.save_all()
    timers.close(mark)
    if is_whole and commit_log.flush_error is None and index.sync_error is None:
        structures.disk.remove(options.root / ABORT)
