"""Totals of a streaming query since its start; Spark itself keeps only the last hundred reports."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence


class Reporting(Protocol):
    """The part of `StreamingQuery` that is needed here."""

    @property
    def recentProgress(self) -> Sequence[Any]: ...  # noqa: N802 -- Spark's name


@dataclass(slots=True)
class Totals:
    """Sums over the micro-batches that `count` has met; it is to be called before a hundred more have run."""

    read: int = 0
    """Messages."""
    repeats: int = 0
    """Of them, those that `dropDuplicates` has left out."""
    late: int = 0
    """Of them, those that came after the watermark had passed them."""
    batches: int = 0
    """Micro-batches that had something to read."""
    _counted: tuple[int, str] = field(default=(-1, ""), repr=False)
    """Number and time of the last report. A query at rest reports the number of its next batch."""

    def count(self, query: Reporting) -> None:
        """Adds what the query has reported since the last time."""
        for report in query.recentProgress:
            at = (int(report["batchId"]), str(report["timestamp"]))
            if at > self._counted:
                self._counted = at
                self._add(report)

    def _add(self, report: Any) -> None:
        self.read += int(report["numInputRows"])
        self.batches += report["numInputRows"] > 0
        for operator in report["stateOperators"]:
            self.repeats += int(operator["customMetrics"].get("numDroppedDuplicateRows", 0))
            self.late += int(operator.get("numRowsDroppedByWatermark", 0))
