"""Options of a run of `dedup`."""

from __future__ import annotations

from dataclasses import dataclass, field

from orbitmq.spark.jobs.job import JobSetup


@dataclass(frozen=True, slots=True)
class DedupOptions:
    """Source and target of a run. Exactly one of `to_topic` and `to_lake` is set."""

    topics: tuple[str, ...]
    setup: JobSetup = field(default_factory=JobSetup)
    """Its checkpoint is needed."""
    key: str = "keys"
    """See `orbitmq.spark.jobs.dedup.tables.business_key`."""
    window_ms: int = 3_600_000
    to_topic: str | None = None
    to_lake: str | None = None
    follow_s: float | None = None
    """Interval of looks for new messages, until Ctrl-C; None: end when all messages are handled."""
    allow_data_loss: bool = False
