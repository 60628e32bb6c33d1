"""The files of timers that are open now: others take their place where their owner or the log has changed."""

from __future__ import annotations

from orbitmq.protocol.names import TIMER_TOPIC
from orbitmq.store.files import Disk
from orbitmq.store.log.commit_log import CommitLog
from orbitmq.store.options import StoreOptions
from orbitmq.store.queue.consume_queue import QueueTable
from orbitmq.store.timer.check_point import TimerMark
from orbitmq.store.timer.files import TimerFiles


class CurrentTimers:
    """Belongs to the owner of the store; `flush` is for a thread beside it."""

    def __init__(self, options: StoreOptions, disk: Disk, commit_log: CommitLog, queues: QueueTable) -> None:
        self._options = options
        self._disk = disk
        self._log = commit_log
        self._queues = queues
        self.files: TimerFiles | None = None
        """None where timers are switched off."""

    def open(self, clean: bool, now_ms: int) -> None:
        """Opens the files. Raises StoreCorrupt, OSError."""
        queue = self._queues.find(TIMER_TOPIC, 0)
        # A replica has messages that its readers do not see yet, and they wait like the others.
        first, end = (0, 0) if queue is None else (max(0, queue.min_offset), queue.max_offset)

        def physical_of(queue_offset: int) -> int:
            queue = self._queues.find(TIMER_TOPIC, 0)
            unit = None if queue is None else self._queues.unit(queue, max(first, queue_offset))
            return self._log.max_physical if unit is None else unit[0]

        self.files = TimerFiles.open(
            self._options,
            self._disk,
            self._log,
            queue_range=(first, end),
            physical_of=physical_of,
            clean=clean,
            now_ms=now_ms,
        )

    def reopen(self, now_ms: int, mark: TimerMark | None = None) -> None:
        """Closes the files of timers, at the mark where their owner stopped if it gives one, and opens them
        again: their owner continues from `files.start`. Blocks; they are not in use. Raises OSError.
        """
        if self.files is not None:
            self.files.close(mark)
            self.open(mark is not None, now_ms)

    def cut(self, now_ms: int) -> None:
        """Opens the files again, without what they know of messages that are not in the log."""
        if self.files is not None:
            queue = self._queues.find(TIMER_TOPIC, 0)
            self.files.go_back(self._log, 0 if queue is None else queue.max_offset)
            self.files.close(None)
            self.open(False, now_ms)

    def flush(self) -> None:
        """Brings what is new to the disk. Blocks."""
        timers = self.files
        if timers is not None:
            timers.flush()

    def close(self, mark: TimerMark | None) -> None:
        """Lets go of the files; the mark says where everything stands, if it does."""
        if self.files is not None:
            self.files.close(mark)
