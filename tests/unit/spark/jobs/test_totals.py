"""Totals of a query, while Spark forgets all but its last reports."""

from __future__ import annotations

from collections import deque
from typing import Any

from orbitmq.spark.jobs.totals import Totals


class Query:
    """A query whose reports are forgotten as Spark's are: all but the last hundred."""

    def __init__(self) -> None:
        self.recentProgress: deque[dict[str, Any]] = deque(maxlen=100)

    def report(self, batch: int, second: int, read: int, repeats: int = 0, late: int = 0) -> None:
        """The report of a batch, which began at this second."""
        operator = {
            "numRowsDroppedByWatermark": late,
            "customMetrics": {"numDroppedDuplicateRows": repeats},
        }
        self.recentProgress.append(
            {
                "batchId": batch,
                "timestamp": f"2026-01-01T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}.000Z",
                "numInputRows": read,
                "stateOperators": [operator],
            }
        )


def test_batches_count_that_spark_has_forgotten() -> None:
    query, totals = Query(), Totals()
    for batch in range(1000):
        query.report(batch, batch, read=10, repeats=3)
        if batch % 90 == 0:
            totals.count(query)
    totals.count(query)
    totals.count(query)
    assert (totals.read, totals.repeats, totals.batches, totals.late) == (10_000, 3_000, 1_000, 0)


def test_a_query_at_rest_reports_the_number_of_its_next_batch() -> None:
    query, totals = Query(), Totals()
    query.report(0, 0, read=5)
    for second in range(10, 40, 10):
        query.report(1, second, read=0)
        totals.count(query)
    query.report(1, 41, read=7, repeats=1)
    query.report(2, 51, read=0, late=2)
    totals.count(query)
    assert (totals.read, totals.repeats, totals.batches, totals.late) == (12, 1, 2, 2)


def test_a_query_that_has_reported_nothing() -> None:
    totals = Totals()
    totals.count(Query())
    assert (totals.read, totals.batches) == (0, 0)
