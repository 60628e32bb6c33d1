"""The decision if a store takes messages now, and the reason if it does not."""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.store.log.commit_log import CommitLog
from orbitmq.store.log.retention import Retention
from orbitmq.store.options import StoreOptions
from orbitmq.store.queue.reader import memory_bytes
from orbitmq.store.queue.writer import QueueWriter

BUSY_SHARE_OF_MEMORY = 10
"""A tenth of memory that waits for the disk is much: at a fifth Linux stops who writes (vm.dirty_ratio)."""


@dataclass(eq=False, repr=False)
class Acceptance:
    """Belongs to the owner of the store, which asks before each append."""

    _options: StoreOptions
    _log: CommitLog
    _queue_writer: QueueWriter
    _retention: Retention

    def __post_init__(self) -> None:
        self.takes_messages = True
        """True if anything but a master's log is stored: only while this broker is master itself."""
        self.is_paused = False
        """See `MessageStore.is_paused`."""
        self.is_closed = False
        self.half_done: BaseException | None = None
        """The error that ended an append or a truncation halfway; the store then accepts nothing more."""
        self.busy_bytes = memory_bytes() // BUSY_SHARE_OF_MEMORY
        """Bytes that wait for the disk from which on a long flush counts as a stalled disk."""
        self.busy_refusals = 0
        """Messages that were not taken since the disk had stalled."""

    @property
    def takes_nothing(self) -> bool:
        """True if nothing of this broker's own is stored now."""
        return not self.takes_messages or self.is_paused or bool(self.refusal())

    def refusal(self) -> str:
        """The reason why nothing can be stored now; empty if messages are taken."""
        if self.is_closed:
            return "the store is closed"
        if self.half_done is not None:
            return f"an append or a truncation ended halfway: {self.half_done!r}"
        if self._log.flush_error is not None:
            return f"a flush of the commit log failed: {self._log.flush_error}"
        if self._retention.disk_is_full:
            return "the disk is too full"
        if self._queue_writer.sync_error is not None:
            return f"a flush of consume queues failed: {self._queue_writer.sync_error}"
        if self._queue_writer.error is not None:
            return f"consume queues cannot be written: {self._queue_writer.error}"
        return ""

    @property
    def is_page_cache_busy(self) -> bool:
        """True if the disk has stalled: a flush takes too long, and much memory is dirty.

        The kernel stops a process that writes on then sooner or later, and everybody with it. So senders are
        sent elsewhere before.
        """
        log = self._log
        return (
            log.flushing_since > 0
            and log.flushing_ms > self._options.os_page_cache_busy_time_out_mills
            and log.max_physical - log.durable > self.busy_bytes
        )
