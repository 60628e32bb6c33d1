"""The job `lag`: how far consumer groups are behind over time, in messages and in seconds.

Every few seconds it asks brokers for the offsets of groups and adds them to a table (Parquet files); its
report covers the whole table. A job that was killed is started again and goes on with the same table.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pyarrow as pa

from orbitmq.admin.output import Column, Rows
from orbitmq.plurals import counted
from orbitmq.spark.jobs.job import QUIET, JobFailed, JobSetup, JobUi, job
from orbitmq.spark.jobs.sampling import SampleTable, admin_of, sample

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from orbitmq.spark.jobs.report import Report

SAMPLE_SCHEMA = pa.schema(
    [
        ("at", pa.timestamp("us", "UTC")),
        ("clientGroup", pa.string()),
        ("topic", pa.string()),
        ("broker", pa.string()),
        ("queueId", pa.int32()),
        ("minOffset", pa.int64()),
        ("maxOffset", pa.int64()),
        ("consumerOffset", pa.int64()),
        ("pullOffset", pa.int64()),
        ("oldestAt", pa.timestamp("us", "UTC")),
    ]
)
GAP_INTERVALS = 3
POINTS = 500
"""Of a line; more samples are thinned out."""


@dataclass(frozen=True, slots=True)
class LagOptions:
    """Place of the table and options of sampling; `samples=0` only reports from the table."""

    table: Path
    setup: JobSetup = field(default_factory=JobSetup)
    groups: tuple[str, ...] = ()
    """Empty: all but the brokers' own."""
    topics: tuple[str, ...] = ()
    """Empty: all that the groups consume, retry topics too."""
    every_s: float = 10.0
    samples: int | None = None
    """None: until Ctrl-C."""
    timeout_ms: int = 5000

    @property
    def gap_s(self) -> float:
        """After so long without a sample nobody was looking."""
        return max(GAP_INTERVALS * self.every_s, self.every_s + self.timeout_ms / 1000)


@dataclass(frozen=True, slots=True)
class LagResult:
    """Rows as `lag_tables.current_lag` has them."""

    current_lag: list[Any]
    samples: int = 0
    """Rows that this run has added to the table."""


def run(options: LagOptions, ui: JobUi = QUIET) -> LagResult:
    """Samples, and reports. Raises OrbitError."""
    setup = options.setup
    if setup.report is not None:
        from orbitmq.spark.jobs.report import Report

        Report("")  # fails before the work is done, where it cannot be made after it
    rows: list[dict[str, Any]] | None = [] if setup.dry_run else None
    added = _sample(options, ui, rows)
    with setup.session("lag") as spark:
        from orbitmq.spark.jobs.lag_tables import SAMPLE_DDL, current_lag

        if rows is None:
            seen = spark.read.schema(SAMPLE_DDL).parquet(str(options.table))
        else:
            names = [column.split()[0] for column in SAMPLE_DDL.split(", ")]
            seen = spark.createDataFrame([tuple(row[name] for name in names) for row in rows], SAMPLE_DDL)
        seen = seen.persist()
        try:
            reported = current_lag(seen, options.gap_s).collect()
            if setup.report is not None:
                report(seen, reported).write(setup.report)
        finally:
            seen.unpersist()
    return LagResult(reported, added)


def _sample(options: LagOptions, ui: JobUi, dry: list[dict[str, Any]] | None) -> int:
    """Samples into the table; of a dry run once, into `dry`. The rows that were added to the table."""
    from orbitmq.spark.jobs.lag_sampling import Sampler

    if options.samples == 0 and dry is None:
        # A table that is only reported on must not be made by that.
        SampleTable.existing(options.table, SAMPLE_SCHEMA)
        return 0
    table = None if dry is not None else SampleTable(options.table, SAMPLE_SCHEMA)
    admin = admin_of(options.setup, options.timeout_ms)
    sampler = Sampler(admin, options.groups, options.topics)
    reported: set[str] = set()

    async def look() -> str:
        seen = await sampler.look()
        if table is not None:
            table.add(seen)
        elif dry is not None:
            dry.extend(seen)
        for failure in set(sampler.failures) - reported:
            ui.warn(failure)
        reported.clear()
        reported.update(sampler.failures)
        behind = sum(max(0, one["maxOffset"] - max(one["consumerOffset"], one["minOffset"])) for one in seen)
        return f"{counted(behind, 'message')} behind"

    samples = options.samples if dry is None else 1
    try:
        sample(look, ui, "sampling", every_s=options.every_s, samples=samples, close=admin.close)
    finally:
        if table is not None:
            table.flush()
    rows = len(dry or ()) if table is None else table.rows
    if not rows and sampler.failures:
        raise JobFailed(f"nothing could be sampled: {'; '.join(sampler.failures)}")
    return 0 if table is None else rows


def report(samples: DataFrame, current_lag: list[Any]) -> Report:
    """The page: who is behind, and lag over time."""
    from orbitmq.spark.jobs.lag_tables import over_time
    from orbitmq.spark.jobs.report import Report

    page = Report("Consumption lag", about="As brokers report it; times are UTC.")
    page.figures(
        {
            "groups": len({row.clientGroup for row in current_lag}),
            "messages behind": sum(row.lag for row in current_lag),
            "longest wait, s": max((row.waitingSeconds or 0.0 for row in current_lag), default=0.0),
            "lost": sum(row.lost for row in current_lag),
        }
    )
    page.table(
        [column.head for column in CURRENT_LAG],
        [[row[column.key] for column in CURRENT_LAG] for row in current_lag],
    )
    page.text(
        "Waiting is how long the oldest message has been stored that a group has not finished. Lost are "
        "messages that retention removed before the group came to them. Catches up: when the lag is gone if "
        "rates stay as they were; a dash where it grows."
    )
    behind = [row for row in current_lag if row.lag]
    if behind:
        names = [f"{row.clientGroup} / {row.topic}" for row in behind]
        page.bars("Messages behind now", names, [row.lag for row in behind], "messages")
    else:
        page.text("No group is behind.")
    rows = over_time(samples).collect()
    times = sorted({row["at"] for row in rows})
    kept = times[:: -max(1, -(-len(times) // POINTS))][::-1]
    by_group: dict[str, dict[Any, Any]] = {}
    for row in rows:
        by_group.setdefault(f"{row.clientGroup} / {row.topic}", {})[row["at"]] = row
    for title, key, unit in (
        ("Messages behind", "lag", "messages"),
        ("The oldest message waits", "waitingSeconds", "s"),
    ):
        lines = {
            name: [found[at][key] if at in found else None for at in kept] for name, found in by_group.items()
        }
        page.line(title, kept, lines, unit, "UTC")
    return page


CURRENT_LAG = (
    Column("clientGroup", "Group"),
    Column("topic", "Topic"),
    Column("lag", "Lag"),
    Column("lagMost", "Most"),
    Column("waitingSeconds", "Waiting s"),
    Column("inPerSecond", "In/s"),
    Column("outPerSecond", "Out/s"),
    Column("catchUpSeconds", "Catches up in s"),
    Column("lost", "Lost"),
)
EXAMPLES = """\
orbitmq job lag --table ./lag --every 10
orbitmq job lag --table ./lag --group billing --samples 360 --report lag.html
orbitmq job lag --table ./lag --samples 0 --report lag.html"""


@job(
    "lag",
    examples=EXAMPLES,
    bodies=False,
    dry_run="Take one sample and print it; write nothing.",
    report="Write an HTML page with charts.",
)
@click.option(
    "--table",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Folder for samples.",
)
@click.option("-g", "--group", "groups", multiple=True, help="Only this group. Repeatable.")
@click.option("-t", "--topic", "topics", multiple=True, help="Only this topic. Repeatable.")
@click.option(
    "--every",
    "every_s",
    type=click.FloatRange(0.1),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between two samples.",
)
@click.option(
    "--samples",
    type=click.IntRange(0),
    help="Number of samples to take; 0: only report from the table. [default: until Ctrl-C]",
)
@click.option(
    "--timeout-ms", type=click.IntRange(1), default=5000, show_default=True, help="Timeout of one request."
)
def lag(setup: JobSetup, ui: JobUi, **given: Any) -> Rows:
    """Sample the offsets of consumer groups, and report lag, waiting time and rates.

    Ctrl-C ends sampling; then the report is printed.
    """
    done = run(LagOptions(setup=setup, **given), ui)
    rows = [[row[column.key] for column in CURRENT_LAG] for row in done.current_lag]
    return Rows(CURRENT_LAG, rows, f"{counted(sum(row.lag for row in done.current_lag), 'message')} behind")
