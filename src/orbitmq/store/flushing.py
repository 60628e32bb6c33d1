"""Flushes of the log, and what waits for one."""

from __future__ import annotations

from orbitmq.store.acceptance import Acceptance
from orbitmq.store.errors import StoreUnavailable
from orbitmq.store.files import PAGE_BYTES
from orbitmq.store.options import StoreOptions
from orbitmq.store.structures import Structures


class Flushing:
    """`flush_now` and `run` are for a thread; the rest any thread may ask."""

    def __init__(self, options: StoreOptions, structures: Structures, acceptance: Acceptance) -> None:
        self._options = options
        self._is_sync = options.sync_flush
        self._log = structures.log
        self._lookup = structures.lookup
        self._newest = structures.newest
        self._checkpoint = structures.checkpoint
        self._acceptance = acceptance
        self._last_thorough = 0

    def begin(self, now_ms: int) -> None:
        """Counts the intervals from here on."""
        self._last_thorough = now_ms

    @property
    def is_wanted(self) -> bool:
        """True if readers wait for a flush: something was stored under SYNC_FLUSH and is not on the disk."""
        return self._is_sync and self.unflushed_bytes > 0 and self._log.flush_error is None

    @property
    def unflushed_bytes(self) -> int:
        return max(0, self._log.max_physical - self._log.durable)

    @property
    def unflushed_since(self) -> int:
        """Store time of the oldest message that is not on the disk, in ms; -1 if all are.

        The log itself says so: a time noted beside it would be wrong while a flush is under way.
        """
        return self._lookup.store_time_from(self._log.durable) if self.unflushed_bytes else -1

    def unflushed(self, now_ms: int) -> tuple[int, int]:
        """Bytes that were stored and are not on the disk, and the age of the oldest in ms."""
        since = self.unflushed_since
        waiting = self.unflushed_bytes
        return waiting, max(0, now_ms - since) if waiting and since >= 0 else 0

    def flush_now(self) -> int:
        """Brings the log to the disk: the shared flush of all who wait. Blocks, without the GIL: for a
        thread.

        Gives the physical offset up to which all is on the disk. Raises FlushFailed; the store takes no
        messages from then on, and nothing that was written since the last good flush is ever acknowledged.
        """
        if self._acceptance.is_closed:
            raise StoreUnavailable("the store is closed")
        timestamp = self._newest.timestamp_ms
        durable = self._log.flush()
        if self._is_sync:
            self._checkpoint.physical_timestamp_ms = timestamp
        return durable

    def run(self, now_ms: int) -> None:
        """Flushes if enough waits, or something waits for long enough."""
        waiting = self.unflushed_bytes
        thorough = now_ms - self._last_thorough >= self._options.flush_commit_log_thorough_interval
        enough = max(1, self._options.flush_commit_log_least_pages * PAGE_BYTES)
        if waiting and (thorough or waiting >= enough or self._is_sync):
            timestamp = self._newest.timestamp_ms
            self.flush_now()
            self._checkpoint.physical_timestamp_ms = timestamp
        if thorough:
            self._last_thorough = now_ms
