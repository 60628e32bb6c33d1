"""Plain numbers about an open store."""

from __future__ import annotations

from pathlib import Path

from orbitmq.store.acceptance import Acceptance
from orbitmq.store.flushing import Flushing
from orbitmq.store.metrics import StoreFigures
from orbitmq.store.structures import Structures


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
        queues=sum(map(len, queues.by_topic.values())),
        writable=not refusal,
        refusal=refusal,
        flushing_ms=commit_log.flushing_ms,
        busy_refusals=acceptance.busy_refusals,
    )
