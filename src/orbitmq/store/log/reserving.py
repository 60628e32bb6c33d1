"""Disk blocks reserved ahead of a log's writer, and the next segment, ready before the writer gets there.

Otherwise the writer would wait for the file system. If a thread reserves, the writer waits for it for a
moment at most; then messages are refused until the thread has reserved more.
"""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import Executor
from pathlib import Path
from typing import Protocol

from orbitmq.store.errors import DiskStalled
from orbitmq.store.files import SCARCE
from orbitmq.store.log.segment import RESERVE_STEP_BYTES, Segment

log = logging.getLogger(__name__)

NEXT_SEGMENT_BYTES = 256 << 20
"""The next segment is made when less than this is left of the present one."""


class GrowingLog(Protocol):
    """The part of a commit log that reserving needs."""

    @property
    def folder(self) -> Path: ...
    @property
    def segment_bytes(self) -> int: ...
    @property
    def segments(self) -> list[Segment]: ...
    @property
    def next_segment(self) -> Segment | None: ...
    def make_next(self) -> Segment: ...


class Reserving:
    """`has_room`, `make_room` and `begin_soon` are for the owner of the store; `run` is for the thread, if
    there is one.
    """

    def __init__(self, commit_log: GrowingLog) -> None:
        self._log = commit_log
        self._ahead_bytes = min(RESERVE_STEP_BYTES, commit_log.segment_bytes)
        self._next_bytes = min(NEXT_SEGMENT_BYTES, commit_log.segment_bytes)
        self._thread: Executor | None = None
        self._is_under_way = False
        self._got_on = threading.Event()
        """Set at the end of each run of the thread."""
        self._needed_bytes = 0
        """Bytes that the owner waits for."""
        self._error: OSError | None = None
        """The reason why the thread's last round could not reserve blocks."""
        self._is_late = False
        """The owner has waited in vain, and the thread has not come to an end since."""
        self.is_without_room = False
        """True if the disk had no room, or memory, when something was to be reserved last."""

    def use_thread(self, thread: Executor) -> None:
        """From now on only this thread reserves blocks and makes segments: the owner waits for it, not for
        the disk.
        """
        self._thread = thread

    def has_room(self, needed_bytes: int) -> bool:
        """True if so many bytes can be written without waiting."""
        segment = self._segment_for(needed_bytes)
        return segment is not None and segment.wrote + needed_bytes <= segment.reserved

    def make_room(self, needed_bytes: int, wait_seconds: float) -> None:
        """Reserves so many bytes, or waits until the thread has.

        Raises OSError if the disk has no room, DiskStalled where the thread does not get there in time.
        """
        if self._thread is None:
            self._reserve(needed_bytes)
        else:
            self._wait(needed_bytes, wait_seconds)

    def _segment_for(self, needed_bytes: int) -> Segment | None:
        """The segment that so many bytes would go to; None if it has not been made."""
        segments = self._log.segments
        if segments and segments[-1].wrote + needed_bytes <= segments[-1].size:
            return segments[-1]
        return self._log.next_segment

    def _reserve(self, needed_bytes: int) -> None:
        segment = self._segment_for(needed_bytes) or self._log.make_next()
        segment.reserve(segment.wrote + needed_bytes)

    def _wait(self, needed_bytes: int, wait_seconds: float) -> None:
        """Waits for the thread once; until it comes to an end, no other caller waits."""
        until = time.monotonic() + (0 if self._is_late else wait_seconds)
        tried = False
        while True:
            self._got_on.clear()
            if self.has_room(needed_bytes):
                return
            if tried and not self._is_under_way and self._error is not None:
                raise self._error
            tried = tried or not self._is_under_way
            self._needed_bytes = needed_bytes
            self._begin()
            left = until - time.monotonic()
            if left <= 0 or not self._got_on.wait(left):
                self._is_late = True
                raise DiskStalled(f"the disk has reserved nothing for {wait_seconds * 1000:.0f} ms")

    def begin_soon(self) -> None:
        """Wakes the thread if half of the reserved blocks are used up."""
        if self.is_wanted and not self.is_without_room:
            self._begin()

    def _begin(self) -> None:
        if self._thread is not None and not self._is_under_way:
            self._is_under_way = True
            self._thread.submit(self._run_in_thread)

    def _run_in_thread(self) -> None:
        try:
            self.run()
        except OSError as error:
            self._error = error
            log.exception("no room could be reserved in %s", self._log.folder)
        finally:
            self._is_late = False
            self._is_under_way = False
            self._got_on.set()

    @property
    def is_wanted(self) -> bool:
        """True if half of what is kept ahead of the writer is used up."""
        segments = self._log.segments
        if not segments:
            return False
        active = segments[-1]
        wrote, reserved = active.wrote, active.reserved
        if reserved < active.size and reserved - wrote < self._ahead_bytes // 2:
            return True
        return self._log.next_segment is None and active.size - wrote < self._next_bytes

    def run(self) -> None:
        """Keeps blocks reserved in front of the writer, and the next segment ready.

        A disk without room, or no memory, is no error here: the append that needs it gets one.
        """
        self._error = None
        try:
            self._reserve_needed()
            if not self._log.segments:
                return
            self._reserve_ahead()
        except OSError as error:
            self._error = error
            if error.errno not in SCARCE:
                raise
            if not self.is_without_room:
                log.warning("no room to reserve in %s: %s", self._log.folder, error)
            self.is_without_room = True
        else:
            if self.is_without_room:
                log.warning("room again in %s", self._log.folder)
            self.is_without_room = False

    def _reserve_needed(self) -> None:
        """Reserves what an append waits for: a disk that is nearly full has room for no more."""
        if not self._needed_bytes:
            return
        needed, self._needed_bytes = self._needed_bytes, 0
        if not self.has_room(needed):
            self._reserve(needed)
        self._got_on.set()

    def _reserve_ahead(self) -> None:
        active, ahead = self._log.segments[-1], self._ahead_bytes
        if active.reserved < active.size and active.reserved - active.wrote < ahead // 2:
            active.reserve(min(active.size, active.wrote + ahead))
            self._got_on.set()
        if active.size - active.wrote < self._next_bytes:
            self._log.make_next().reserve(ahead)
            self._got_on.set()
