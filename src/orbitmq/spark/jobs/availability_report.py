"""The page of the job `availability`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as sf

from orbitmq.spark.jobs.report import Report

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

POINTS = 120
COLUMNS = {
    "broker": "broker",
    "topic": "topic",
    "operation": "operation",
    "up": "up now",
    "observations": "tried",
    "failures": "failed",
    "observedSeconds": "observed s",
    "downSeconds": "down s",
    "timeAvailability": "available",
    "timeNines": "nines",
    "requestNinesAtLeast": "at least",
    "outages": "outages",
    "mtbfSeconds": "MTBF s",
    "mttrSeconds": "MTTR s",
    "latencyP99Ms": "p99 ms",
}

DEFINITIONS = (
    "The result of a try holds until the next one. If that comes after more than {gap:g} s, nobody was "
    "looking: the time counts neither as up nor as down. An outage is a run of failures; it ends with the "
    "next success. Time availability is the share of the observed time that was not down, A. Nines are "
    "-log10(1 - A), a dash where nothing failed. MTBF is the time that was up by the number of outages, MTTR "
    "the time that was down by the number of outages. At least: the nines that so many tries prove with "
    "95 % confidence."
)


def report(seen: DataFrame, figures: list[Any], outages: list[Any], gap_s: float) -> Report:
    """The figures, when what was down, and how long tries took."""
    page = Report("Availability", about="As clients see it; times are UTC.")
    page.figures(
        {
            "tried": sum(row.observations for row in figures),
            "failed": sum(row.failures for row in figures),
            "outages": len(outages),
            "down now": sum(not row.up for row in figures),
        }
    )
    page.table(list(COLUMNS.values()), [[row[name] for name in COLUMNS] for row in figures])
    page.text(DEFINITIONS.format(gap=gap_s))
    names = [" ".join(filter(None, (row.broker, row.topic, row.operation))) for row in figures]
    page.bars("Time down", names, [row.downSeconds for row in figures], "s")
    _over_time(page, seen)
    page.heading("Outages")
    page.table(
        ("broker", "topic", "operation", "began", "ended", "seconds", "failures", "first error"),
        [
            (row.broker, row.topic, row.operation, row.began, row.ended, row.seconds, row.failures, row.error)
            for row in outages
        ],
    )
    return page


def _over_time(page: Report, seen: DataFrame) -> None:
    span = seen.select(sf.max(sf.unix_seconds("at")) - sf.min(sf.unix_seconds("at"))).first()
    if span is None or span[0] is None:
        return
    seconds = max(1, -(-int(span[0]) // POINTS))
    start = sf.timestamp_seconds(sf.floor(sf.unix_seconds("at") / seconds) * seconds)
    rows = (
        seen.groupBy(start.alias("at"), "broker")
        .agg((100 * sf.avg(sf.col("ok").cast("int"))).alias("good"), sf.avg("latencyMs").alias("latencyMs"))
        .orderBy("at")
        .collect()
    )
    times = sorted({row["at"] for row in rows})
    by_broker: dict[str, dict[Any, Any]] = {}
    for row in rows:
        by_broker.setdefault(row["broker"], {})[row["at"]] = row
    for title, column, unit in (
        ("What worked", "good", "% of tries"),
        ("How long tries took, on average", "latencyMs", "ms"),
    ):
        lines = {
            broker: [found[at][column] if at in found else None for at in times]
            for broker, found in sorted(by_broker.items())
        }
        page.line(title, times, lines, unit, "UTC")
