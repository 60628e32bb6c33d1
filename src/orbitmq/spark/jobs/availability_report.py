"""The page of the job `availability`."""

from __future__ import annotations

from operator import itemgetter

from orbitmq.admin.output import Column
from orbitmq.spark.jobs.availability_figures import COLUMNS, over_time
from orbitmq.spark.jobs.figures import Row, Samples
from orbitmq.spark.jobs.report import Report

POINTS = 120
MORE = (
    Column("observedSeconds", "Observed s"),
    Column("downSeconds", "Down s"),
    Column("latencyP99Ms", "P99 ms"),
)
CHARTS = (
    ("What worked", "good", "% of tries"),
    ("How long tries took, on average", "latencyMs", "ms"),
)
OUTAGE = ("broker", "topic", "operation", "began", "ended", "seconds", "failures")

DEFINITIONS = (
    "The result of a try holds until the next one. If that comes after more than {gap:g} s, nobody was "
    "looking: the time counts neither as up nor as down. An outage is a run of failures; it ends with the "
    "next success. Time availability is the share of the observed time that was not down, A. Nines are "
    "-log10(1 - A), a dash where nothing failed. MTBF is the time that was up by the number of outages, MTTR "
    "the time that was down by the number of outages. At least: the nines that so many tries prove with "
    "95 % confidence."
)


def report(seen: Samples, figures: list[Row], outages: list[Row], gap_s: float) -> Report:
    """The figures, when what was down, and how long tries took."""
    page = Report("Availability", about="As clients see it; times are UTC.")
    page.figures(
        {
            "tried": sum(row["observations"] for row in figures),
            "failed": sum(row["failures"] for row in figures),
            "outages": len(outages),
            "down now": sum(not row["up"] for row in figures),
        }
    )
    columns = (*COLUMNS, *MORE)
    page.table([one.head for one in columns], [[row[one.key] for one in columns] for row in figures])
    page.text(DEFINITIONS.format(gap=gap_s))
    names = [" ".join(filter(None, (row["broker"], row["topic"], row["operation"]))) for row in figures]
    page.bars("Time down", names, [row["downSeconds"] for row in figures], "s")
    page.over_time(over_time(seen, POINTS), itemgetter("broker"), CHARTS)
    page.heading("Outages")
    page.table(
        [*OUTAGE, "first error"],
        [[row[name] for name in (*OUTAGE, "error")] for row in outages],
    )
    return page
