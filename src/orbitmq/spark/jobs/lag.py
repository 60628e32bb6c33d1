"""The job `lag`: how far consumer groups are behind over time, in messages and in seconds.

Every few seconds it asks brokers for the offsets of groups and adds them to a table (Parquet files); its
report covers the whole table. A job that was killed is started again and continues the same table.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pyarrow as pa

from orbitmq.admin.output import Rows, columns
from orbitmq.plurals import counted
from orbitmq.spark.jobs.figures import Row, Samples
from orbitmq.spark.jobs.job import QUIET, JobFailed, JobSetup, JobUi, job
from orbitmq.spark.jobs.lag_figures import current_lag, over_time
from orbitmq.spark.jobs.sampling import SampleTable, admin_of, sample, sampling_flags

if TYPE_CHECKING:
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
        """Longer times between samples do not count."""
        return max(GAP_INTERVALS * self.every_s, self.every_s + self.timeout_ms / 1000)


@dataclass(frozen=True, slots=True)
class LagResult:
    """Rows as `lag_figures.current_lag` has them."""

    current_lag: list[Row]
    samples: int = 0
    """Rows that this run has added to the table."""


def run(options: LagOptions, ui: JobUi = QUIET) -> LagResult:
    """Samples, and reports. Raises OrbitError."""
    setup = options.setup
    rows: list[Row] | None = [] if setup.dry_run else None
    added = _sample(options, ui, rows)
    seen = SampleTable.read(options.table, SAMPLE_SCHEMA) if rows is None else _table(rows)
    with Samples(seen) as samples:
        reported = current_lag(samples, options.gap_s)
        if setup.report is not None:
            report(samples, reported).write(setup.report)
    return LagResult(reported, added)


def _table(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, SAMPLE_SCHEMA)


def _sample(options: LagOptions, ui: JobUi, dry: list[Row] | None) -> int:
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


def report(samples: Samples, reported: list[Row]) -> Report:
    """The page: who is behind, and lag over time."""
    from orbitmq.spark.jobs.report import Report

    page = Report("Consumption lag", about="As brokers report it; times are UTC.")
    page.figures(
        {
            "groups": len({row["clientGroup"] for row in reported}),
            "messages behind": sum(row["lag"] for row in reported),
            "longest wait, s": max((row["waitingSeconds"] or 0.0 for row in reported), default=0.0),
            "lost": sum(row["lost"] for row in reported),
        }
    )
    page.table(
        [column.head for column in CURRENT_LAG],
        [[row[column.key] for column in CURRENT_LAG] for row in reported],
    )
    page.text(
        "Waiting is how long the oldest message has been stored that a group has not finished. Lost are "
        "messages that retention removed before the group came to them. Catches up: when the lag is gone if "
        "rates stay as they were; a dash where it grows."
    )
    behind = [row for row in reported if row["lag"]]
    if behind:
        page.bars("Messages behind now", map(_name, behind), [row["lag"] for row in behind], "messages")
    else:
        page.text("No group is behind.")
    charts = (
        ("Messages behind", "lag", "messages"),
        ("The oldest message waits", "waitingSeconds", "s"),
    )
    return page.over_time(over_time(samples), _name, charts)


def _name(row: Row) -> str:
    return f"{row['clientGroup']} / {row['topic']}"


CURRENT_LAG = columns(
    "clientGroup topic lag lagMost waitingSeconds inPerSecond outPerSecond catchUpSeconds lost",
    clientGroup="Group",
    lagMost="Most",
    waitingSeconds="Waiting s",
    inPerSecond="In/s",
    outPerSecond="Out/s",
    catchUpSeconds="Catches up in s",
)
EXAMPLES = """\
orbitmq job lag --table ./lag --every 10
orbitmq job lag --table ./lag --group billing --samples 360 --report lag.html
orbitmq job lag --table ./lag --samples 0 --report lag.html"""


@job(
    "lag",
    examples=EXAMPLES,
    spark=False,
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
@sampling_flags("samples", every_s=10.0, timeout_ms=5000)
def lag(setup: JobSetup, ui: JobUi, **given: Any) -> Rows:
    """Sample the offsets of consumer groups, and report lag, waiting time and rates.

    Ctrl-C ends sampling; then the report is printed.
    """
    done = run(LagOptions(setup=setup, **given), ui)
    note = f"{counted(sum(row['lag'] for row in done.current_lag), 'message')} behind"
    return Rows.picked(CURRENT_LAG, done.current_lag, note)
