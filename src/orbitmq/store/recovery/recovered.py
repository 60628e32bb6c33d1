"""Findings of a recovery."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Recovered:
    """Findings of a recovery."""

    last_record: int = -1
    """Physical offset of the last record; -1 in an empty log."""
    last_timestamp_ms: int = 0
    """Its store time."""
    bad_records: list[int] = field(default_factory=list)
    """Physical offsets of damaged records, which were skipped."""
    rebuilt_units: int = 0
    lost_units: int = 0
    """Queue offsets for which the log has no message any more, though it has later ones."""
    cut_bytes: int = 0
    """Bytes behind the end of the log that were discarded."""
    scanned: bool = False
    read_from: int = 0
    """Physical offset from which the log was read, if it was."""

    def note_damage(self, physical_offset: int, reason: str) -> None:
        """Counts a damaged record that is skipped, once: the log may be read twice."""
        if physical_offset not in self.bad_records:
            log.error("the record at %d is damaged (%s): stepped over", physical_offset, reason or "zeros")
            self.bad_records.append(physical_offset)
