"""Numbers about an open store, for metrics and runtime info. Sizes are bytes, times ms, ratios 0 to 1."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from orbitmq.store.acceptance import Acceptance
from orbitmq.store.flushing import Flushing
from orbitmq.store.structures import Structures


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
    """The reason why the store takes no messages; empty if it takes them."""
    flushing_ms: int = 0
    """For how long the flush of the log has taken that is under way."""
    busy_refusals: int = 0
    """Messages that were not taken since the disk had stalled."""


def figures(root: Path, structures: Structures, flushing: Flushing, acceptance: Acceptance) -> StoreFigures:
    """The numbers at this moment."""
    commit_log, queues = structures.log, structures.queues
    total, free = structures.disk.space(root)
    ratio = 1 - free / total if total else 0.0
    refusal = acceptance.refusal()
    return StoreFigures(
        min_physical_offset=commit_log.min_physical,
        max_physical_offset=commit_log.max_physical,
        durable_offset=commit_log.durable,
        dispatch_behind_bytes=max(0, commit_log.max_physical - structures.confirm.offset),
        index_behind_bytes=structures.index.behind(commit_log.max_physical),
        unflushed_bytes=flushing.unflushed_bytes,
        unflushed_since_ms=flushing.unflushed_since,
        earliest_store_time_ms=structures.lookup.earliest_store_time(),
        commit_log_disk_ratios={str(commit_log.folder): ratio},
        consume_queue_disk_ratio=ratio,
        disk_total_bytes=total,
        disk_free_bytes=free,
        bad_records=structures.reader.bad_record_count,
        open_queue_files=len(queues.reading) + len(structures.queue_writer.files),
        queues=queues.count,
        writable=not refusal,
        refusal=refusal,
        flushing_ms=commit_log.flushing_ms,
        busy_refusals=acceptance.busy_refusals,
    )
