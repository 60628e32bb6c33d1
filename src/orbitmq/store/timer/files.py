"""The files of timer messages together: timer log, wheel and checkpoint, in order.

The owner of the store appends and reads; `flush` and `find_head` run in a thread beside it. The order of
flushes makes a crash harmless: first the log, then the wheel, and only then the mark that says how far they
go; and the mark never covers a delivery that is not on the disk itself.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from orbitmq.store.files import Disk
from orbitmq.store.log.commit_log import CommitLog
from orbitmq.store.options import StoreOptions
from orbitmq.store.timer.check_point import TimerCheck, TimerFields, TimerMark
from orbitmq.store.timer.log import UNIT_BYTES, TimerLog
from orbitmq.store.timer.recovery import TimerRecovery, TimerStart, delivered_to_ms
from orbitmq.store.timer.wheel import TimerWheel

log = logging.getLogger(__name__)

_QUIET_FLUSHES = 10
"""Flushes of which only one is written to the disk, if nothing is new but the time."""
_HEAD_UNITS = 200_000
"""Units that one search for the head reads."""


class TimerFiles:
    """Made by `open`. `start` is where deliveries continue."""

    def __init__(self, timer_log: TimerLog, wheel: TimerWheel, check: TimerCheck, start: TimerStart) -> None:
        self.log = timer_log
        self.wheel = wheel
        self.check = check
        self.start = start
        self._head: tuple[int, int | None] = (start.head, None)
        """No unit of the timer log before this position waits; the message of the one there that does, if it
        was looked for."""
        self._wanted: TimerMark | None = None
        # If messages are scheduled again, the log is not the one that the mark describes.
        self._flushed: TimerMark | None = check.mark if start.passed_to <= start.queue_offset else None
        self._counter = 0 if check.fields is None else check.fields.counter
        self._is_check_unsynced = False
        self._last: tuple[int, int] = (-1, -1)
        self.followed: TimerFields | None = None
        """Progress of the master, as a slave was told of it last; None unless this broker follows one."""
        self._closed = False
        self._in_thread = threading.Lock()
        """Held by what a thread does with the files, so that they are not closed meanwhile."""
        self._quiet = 0

    @classmethod
    def open(
        cls,
        options: StoreOptions,
        disk: Disk,
        commit_log: CommitLog,
        *,
        queue_range: tuple[int, int],
        physical_of: Callable[[int], int],
        clean: bool,
        now_ms: int,
    ) -> TimerFiles:
        """Opens what is in the data folder and brings it in order. Raises StoreCorrupt, OSError."""
        root = options.root
        precision = options.timer_precision_ms
        timer_log = TimerLog.load(disk, root / "timerlog", options.mapped_file_size_timer_log)
        wheel = TimerWheel.load(disk, root / "timerwheel", precision)
        check = TimerCheck.load(disk, root / "config" / "timercheck", precision)
        recovery = TimerRecovery(
            timer_log=timer_log,
            wheel=wheel,
            check=check,
            commit_log=commit_log,
            queue_min=queue_range[0],
            queue_max=queue_range[1],
            physical_of=physical_of,
            clean=clean,
        )
        start = recovery.run(now_ms)
        files = cls(timer_log, wheel, check, start)
        files.find_head(start.read_ms)
        return files

    # The owner of the store.

    def note(self, fields: TimerFields, mark: TimerMark | None, now_ms: int) -> None:
        """Tells how far everything is now, and the newest mark whose deliveries are on the disk.

        Written at once, so that a kill of the process costs nothing; the next flush takes the mark on.
        Raises OSError.
        """
        if mark is not None:
            self._wanted = mark
        flushed = self._flushed
        if flushed is None:
            # Nothing was ever flushed: begin where this process began.
            start = self.start
            flushed = self._flushed = TimerMark(
                start.read_ms, start.due_ms, start.position, start.queue_offset, self.log.end, 0,
                start.passed_to,
            )  # fmt: skip
        progress = (fields.read_ms, fields.master_queue_offset)
        if progress != self._last:
            self._last = progress
            self._counter += 1
        written = self.check.fields
        timestamp = now_ms if written is None or written.counter != self._counter else written.timestamp
        fields = fields._replace(log_flushed=flushed.log_end, timestamp=timestamp, counter=self._counter)
        if self.check.write(fields, flushed):
            self._is_check_unsynced = True

    def follow(self, fields: TimerFields) -> None:
        """Notes how far a slave's master has got, for a start of this broker as master. Raises OSError.

        State that this broker has of its own time as master is let go of: the master's positions are not in
        it. Nor is the end of the master's timer log an end of this one.
        """
        if not self.log.is_empty:
            self.log.clear()
        self.check.write_fields(fields._replace(log_flushed=0))
        self.followed = fields

    def go_back(self, commit_log: CommitLog, queue_end: int) -> None:
        """Has the next opening take nothing for delivered that is not in a log that was cut, nor for taken in
        what the timer topic, which ends at `queue_end`, does not hold. Raises OSError.
        """
        fields, mark = self.check.fields, self.check.mark
        if fields is None:
            return
        fields = fields._replace(
            log_flushed=0,
            queue_offset=min(fields.queue_offset, queue_end),
            master_queue_offset=min(fields.master_queue_offset, queue_end),
        )
        if mark is not None and mark.physical_offset <= commit_log.max_physical:
            queue_offset, passed_to = min(mark.queue_offset, queue_end), min(mark.passed_to, queue_end)
            self.check.write(fields, mark._replace(queue_offset=queue_offset, log_end=0, passed_to=passed_to))
        else:
            read_ms = min(fields.read_ms, delivered_to_ms(commit_log))
            self.check.write_fields(fields._replace(read_ms=read_ms))

    # Threads.

    def flush(self) -> None:
        """Brings log and wheel to the disk, and the mark after them. Blocks, without the GIL."""
        with self._in_thread:
            if not self._closed:
                self._flush()

    def _flush(self) -> None:
        wanted = self._wanted
        self._quiet += 1
        is_busy = self.log.is_unsynced or self.wheel.is_unsynced
        if self._is_check_unsynced and (is_busy or self._quiet >= _QUIET_FLUSHES):
            self._is_check_unsynced = False
            self._quiet = 0
            self.check.sync()
        if wanted is not None and wanted != self._flushed:
            self.log.sync()
            self.wheel.sync()
            self._flushed = wanted

    def find_head(self, read_ms: int) -> None:
        """Looks which unit is the first that waits, and removes segments before it. In a thread."""
        with self._in_thread:
            if not self._closed:
                self._find_head(read_ms)

    def _find_head(self, read_ms: int) -> None:
        position, _ = self._head
        precision = self.wheel.precision_ms
        physical_offset = None
        for count, (at, unit) in enumerate(self.log.units(position, self.log.written)):
            if count > _HEAD_UNITS or unit.slot_ms // precision * precision >= read_ms:
                position, physical_offset = at, unit.physical_offset
                break
            position = at + UNIT_BYTES
        self._head = position, physical_offset
        removed = self.log.remove_before(position)
        if removed:
            log.info("%d segments of the timer log removed: nothing in them waits", removed)

    def oldest_waiting(self) -> int | None:
        """The physical offset of the oldest message that has a unit and waits; None if none does."""
        position, physical_offset = self._head
        if physical_offset is None:
            for _, unit in self.log.units(position, self.log.written):
                return unit.physical_offset
        return physical_offset

    def close(self, final: TimerMark | None) -> None:
        """Flushes and lets go. `final` is where everything stands, and all of it is on the disk."""
        with self._in_thread:
            if not self._closed:
                self._closed = True
                self._close(final)

    def _close(self, final: TimerMark | None) -> None:
        try:
            self.log.sync()
            self.wheel.sync()
            fields = self.check.fields
            if final is not None and fields is not None:
                self.check.write(fields._replace(log_flushed=final.log_end), final)
            self.check.sync()
        finally:
            self.log.close()
            self.wheel.close()
            self.check.close()
