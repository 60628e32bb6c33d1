"""Plain numbers about a store, for whoever shows them. Sizes are bytes, times ms, ratios 0 to 1."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class StoreFigures:
    """A store at one moment."""

    min_physical_offset: int = 0
    max_physical_offset: int = 0
    durable_offset: int = 0
    dispatch_behind_bytes: int = 0
    """Stored and not yet seen by readers: what SYNC_FLUSH holds back."""
    index_behind_bytes: int = 0
    """Stored and not yet found by key."""
    unflushed_bytes: int = 0
    """Acknowledged, under ASYNC_FLUSH, and not yet on the disk."""
    unflushed_since_ms: int = -1
    """When the oldest of that was stored; -1 if there is nothing."""
    earliest_store_time_ms: int = -1
    commit_log_disk_ratios: dict[str, float] = field(default_factory=dict)
    """Used part of the disk, by path of the commit log."""
    consume_queue_disk_ratio: float = 0.0
    disk_total_bytes: int = 0
    disk_free_bytes: int = 0
    bad_records: int = 0
    """Damaged records met since the start; they are never served."""
    open_queue_files: int = 0
    queues: int = 0
    writable: bool = True
    refusal: str = ""
    """Why the store takes no messages, if it does not."""
    flushing_ms: int = 0
    """For how long the flush of the log has taken that is under way."""
    busy_refusals: int = 0
    """Messages that were not taken since the disk had stalled."""
