"""Checkpoints while a store is open: they say from where the next start after a crash reads the log again.

A checkpoint may name a record only if the units of all records before it are on the disk. So the order is:
the log, the queues, the index, the file `checkpoint`, and the queue checkpoint, which names the others. Under
SYNC_FLUSH units wait in memory until their messages are confirmed: a checkpoint names none of those.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from orbitmq.store.files import Disk
from orbitmq.store.index.index_table import Index
from orbitmq.store.log.commit_log import CommitLog
from orbitmq.store.log.newest import NewestRecord
from orbitmq.store.log.sound_records import last_record_before
from orbitmq.store.options import StoreOptions
from orbitmq.store.queue.arrivals import Arrivals
from orbitmq.store.queue.consume_queue import QueueTable
from orbitmq.store.queue.writer import QueueWriter
from orbitmq.store.recovery.checkpoint import Checkpoint
from orbitmq.store.recovery.queue_checkpoint import QueueCheckpoint

EVERY_BYTES = 128 << 20
"""By how much the log may grow before its queues and the queue checkpoint are brought to the disk: a start
after a crash reads it again from there."""
EVERY_BYTES_PER_QUEUE = 8 << 10
"""With many queues it may grow by more: the queue checkpoint names each."""


@dataclass(eq=False, repr=False)
class Checkpointing:
    """Writes queues, and checkpoints from time to time. `run` is for a thread beside the store's owner."""

    _options: StoreOptions
    _disk: Disk
    _log: CommitLog
    _queues: QueueTable
    _queue_writer: QueueWriter
    _index: Index
    _arrivals: Arrivals
    _checkpoint: Checkpoint
    _newest: NewestRecord

    def __post_init__(self) -> None:
        self.lock = threading.Lock()
        """Held while the queue checkpoint is made and written: it is of one log, not half of the one before a
        cut.
        """
        self._last_sync_ms = 0
        self._opened_end = 0
        """Physical offset before which all units were in files when the store was opened."""
        self._synced_to = 0
        """Physical offset before which everything was in queues that are on the disk, at the last look."""

    def begin(self, now_ms: int, *, written_to: int, synced_to: int) -> None:
        """Starts with queues whose units are in files, and on the disk, up to physical offsets."""
        self._last_sync_ms, self._opened_end, self._synced_to = now_ms, written_to, synced_to

    def cut_to(self, end: int) -> None:
        """Follows a log that was truncated."""
        self._opened_end = min(self._opened_end, end)
        self._synced_to = min(self._synced_to, end)

    def run_soon(self) -> None:
        """Makes the next `run` write checkpoints."""
        self._last_sync_ms = 0

    def run(self, now_ms: int) -> None:
        """Writes new units of queues to their files; if it is time, brings all to the disk and writes
        checkpoints. Blocks.
        """
        with self.lock:
            thorough = now_ms - self._last_sync_ms >= self._options.flush_consume_queue_thorough_interval
            end = self._writable_end
            to_sync = thorough or end - self._synced_to >= self._every_bytes
            if thorough:
                # Not at the end: a deletion of a topic meanwhile asks for a queue checkpoint without it.
                self._last_sync_ms = now_ms
            self._queue_writer.run(None if to_sync else self._arrivals.drain_unwritten)
            if to_sync:
                self._write(end, with_index=thorough)
                self._synced_to = end

    def save_all(self) -> None:
        """Brings queues, index and checkpoints to the disk. All units have been written to files."""
        with self.lock:
            self.write_all()

    def write_all(self) -> None:
        """Does what `save_all` does, for a caller that holds the lock."""
        self._write(self._writable_end, with_index=True)

    @property
    def _writable_end(self) -> int:
        """The physical offset before which the units of all records are in files after the next write."""
        return max(self._arrivals.visible_end, self._opened_end)

    @property
    def _every_bytes(self) -> int:
        """Number of bytes that the log may grow before the queue checkpoint is written again."""
        queues = self._queues.count
        # Without a queue checkpoint recovery goes back only so many segments.
        segments = max(1, self._options.commit_log_recover_max_num // 2)
        return min(max(EVERY_BYTES, EVERY_BYTES_PER_QUEUE * queues), segments * self._log.segment_bytes)

    def _write(self, written_to: int, *, with_index: bool) -> None:
        """The units of all records that end at `written_to` or before were written to files.

        The index may be left out: its slots are spread over all of a file, and a start does not wait for it.
        """
        last = last_record_before(self._log, written_to)
        replay_from, timestamp = (self._log.min_physical, 0) if last is None else (last[0], last[4])
        self._log.flush()
        self._queue_writer.sync_all()
        queue_checkpoint = QueueCheckpoint(
            durable=self._log.durable,
            end=self._log.max_physical,
            last_record=self._newest.physical_offset,
            replay_from=replay_from,
            last_timestamp_ms=timestamp,
        )
        if with_index:
            self._index.sync()
        self._index.note_in(queue_checkpoint)
        self._checkpoint.physical_timestamp_ms = timestamp
        self._checkpoint.logics_timestamp_ms = timestamp
        self._checkpoint.save()
        queue_checkpoint.checkpoint = self._checkpoint.mark
        queue_checkpoint.note_records(self._log)
        queue_checkpoint.save(self._disk, self._options.root, self._queues.all())
