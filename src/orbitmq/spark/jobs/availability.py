"""The job `availability`: nines, MTBF and MTTR of brokers and topics, as clients see them.

It probes: every few seconds each name server is asked for routes, and on each broker a message is sent to a
topic of its own and read back, and topics that are named are read. The results go into a log (Parquet files),
and the figures are computed from the whole log. A job that was killed is started again: the time without
probes counts neither as up nor as down. Or it looks at message trace, in which clients report their sends.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pyarrow as pa

from orbitmq.admin.output import Column, Rows
from orbitmq.flags import Seconds
from orbitmq.protocol.names import check_topic
from orbitmq.spark.errors import BadOption, SparkSourceError
from orbitmq.spark.jobs.availability_figures import COLUMNS, figures_of
from orbitmq.spark.jobs.figures import Row, Samples
from orbitmq.spark.jobs.job import QUIET, JobFailed, JobSetup, JobUi, job
from orbitmq.spark.jobs.preflight import need_topics, need_trace
from orbitmq.spark.jobs.probing import PROBE_TOPIC, Observation, Prober
from orbitmq.spark.jobs.sampling import SampleTable, admin_of, sample, sampling_flags

if TYPE_CHECKING:
    from pyarrow import dataset

LOG_SCHEMA = pa.schema(
    [
        ("at", pa.timestamp("us", "UTC")),
        ("broker", pa.string()),
        ("address", pa.string()),
        ("topic", pa.string()),
        ("operation", pa.string()),
        ("ok", pa.bool_()),
        ("latencyMs", pa.float64()),
        ("error", pa.string()),
    ]
)
TRACE_BUCKET_S = 10
GAP_INTERVALS = 3
"""So many intervals without a probe are a gap."""


@dataclass(frozen=True, slots=True)
class AvailabilityOptions:
    """Place of the log and options of probes; `samples=0` only reports what the log holds."""

    log: Path | None = None
    setup: JobSetup = field(default_factory=JobSetup)
    topics: tuple[str, ...] = ()
    """Topics to read besides the probe topic."""
    probe_topic: str = PROBE_TOPIC
    """Topic to send to, made where it is not there; empty: nothing is sent."""
    every_s: float = 5.0
    samples: int | None = None
    """None: until Ctrl-C."""
    timeout_ms: int = 3000
    trace: str | None = None
    """Report on this trace topic, or folder of the job `trace`, in place of a log."""
    max_gap_s: float | None = None
    """None: three times `every_s`, and at least the timeout more."""

    @property
    def gap_s(self) -> float:
        """Longer times between observations do not count."""
        if self.max_gap_s is not None:
            return self.max_gap_s
        if self.trace is not None:
            return GAP_INTERVALS * TRACE_BUCKET_S
        return max(GAP_INTERVALS * self.every_s, self.every_s + self.timeout_ms / 1000)


@dataclass(frozen=True, slots=True)
class AvailabilityResult:
    """Rows of `availability_figures.figures_of`."""

    figures: list[Row]
    outages: list[Row]
    probes: int = 0
    """Observations of this run."""
    planned: tuple[str, ...] = ()
    """Of a dry run: what would be tried."""


def run(options: AvailabilityOptions, ui: JobUi = QUIET) -> AvailabilityResult:
    """Probes, unless the options name a trace or no samples, and reports. Raises JobFailed."""
    setup = options.setup
    if setup.dry_run:
        return AvailabilityResult([], [], planned=_plan(options))
    probes = 0
    if options.trace is not None:
        need_trace(setup, options.trace)
    else:
        if options.log is None:
            raise JobFailed("availability needs a log, or a trace to look at")
        probes = _probe(options, options.log, ui)
    with Samples(observations(options)) as seen:
        figures, outages = figures_of(seen, options.gap_s)
        if setup.report is not None:
            from orbitmq.spark.jobs.availability_report import report

            report(seen, figures, outages, options.gap_s).write(setup.report)
    return AvailabilityResult(figures, outages, probes)


def observations(options: AvailabilityOptions) -> pa.Table | dataset.Dataset:
    """Observations from the log or the trace; only a trace needs Spark."""
    if options.trace is None:
        assert options.log is not None
        return SampleTable.read(options.log, LOG_SCHEMA)
    from orbitmq.spark.jobs import trace_tables
    from orbitmq.spark.jobs.trace_records import traced

    folder = need_trace(options.setup, options.trace)
    with options.setup.session("availability") as spark:
        recorded = traced(spark, options.setup, options.trace, folder)
        return trace_tables.observations(trace_tables.distinct(recorded), TRACE_BUCKET_S).toArrow()


def _plan(options: AvailabilityOptions) -> tuple[str, ...]:
    import asyncio

    async def ask() -> tuple[str, ...]:
        async with admin_of(options.setup, options.timeout_ms) as admin:
            prober = _prober(options, admin)
            brokers = await prober.discover()
            plan = [f"route: name server {address}" for address in admin.namesrv]
            for one in brokers:
                if options.probe_topic:
                    plan.append(f"send, receive: {one.name} {one.address} {options.probe_topic}")
                plan += [f"receive: {one.name} {one.address} {topic}" for topic in options.topics]
            return tuple(plan)

    return asyncio.run(ask())


def _prober(options: AvailabilityOptions, admin: Any) -> Prober:
    return Prober(admin, (options.probe_topic,) if options.probe_topic else (), options.topics)


def _probe(options: AvailabilityOptions, log: Path, ui: JobUi) -> int:
    if options.samples == 0:
        # A log that is only reported on must not be made by that.
        SampleTable.existing(log, LOG_SCHEMA)
        return 0
    if options.probe_topic:
        check_topic(options.probe_topic)
    table = SampleTable(log, LOG_SCHEMA)
    before = table.last()
    _need_known(options, {row["topic"] for row in before}, table)
    admin = admin_of(options.setup, options.timeout_ms)
    prober = _prober(options, admin)
    # A broker that was gone before this run began is known from the run before.
    for row in before:
        if row["operation"] != "route":
            prober.brokers[row["broker"]] = row["address"]
    ready = False

    async def look() -> str:
        nonlocal ready
        if not ready and options.probe_topic:
            ready = await _made(prober, options.probe_topic, ui)
        seen: list[Observation] = await prober.look()
        table.add(seen)
        failed = [one for one in seen if not one["ok"]]
        return f"{len(failed)} of {len(seen)} failed" + (f": {failed[0]['error']}" if failed else "")

    try:
        sample(look, ui, "probing", every_s=options.every_s, samples=options.samples, close=admin.close)
    finally:
        table.flush()
    return table.rows


def _need_known(options: AvailabilityOptions, lately: set[str], log: SampleTable) -> None:
    """Raises BadOption for an unknown topic that was never tried: a mistake would be an outage for good.

    A topic that was there in an earlier run and is gone is down; so is what cannot be asked. A log may be
    long: all of it is only read for a topic that would be refused.
    """
    for topic in set(options.topics) - lately:
        try:
            need_topics(options.setup, [topic])
        except BadOption:
            if not log.holds("topic", topic):
                raise
        except SparkSourceError:
            return


async def _made(prober: Prober, topic: str, ui: JobUi) -> bool:
    from orbitmq.protocol.errors import OrbitError

    try:
        await prober.make_topic(topic)
    except OrbitError as error:
        # A missing broker shows in the probes; once it is there, the topic is made.
        ui.say(f"topic {topic} cannot be made yet: {error}")
        return False
    return True


EXAMPLES = """\
orbitmq job availability --log ./probes --topic orders
orbitmq job availability --log ./probes --samples 720 --report availability.html
orbitmq job availability --log ./probes --samples 0 --json
orbitmq job availability --trace ./trace --report availability.html"""


@job(
    "availability",
    examples=EXAMPLES,
    dry_run="Show what would be probed; send and write nothing.",
    report="Write an HTML page with charts.",
)
@click.option(
    "--log", type=click.Path(path_type=Path, file_okay=False), metavar="FOLDER", help="The log of probes."
)
@click.option(
    "-t", "--topic", "topics", multiple=True, help="Topic whose last message is read as a probe. Repeatable."
)
@click.option(
    "--probe-topic",
    default=PROBE_TOPIC,
    help="Topic to send small messages to; created if it does not exist. Empty: send nothing.",
)
@sampling_flags("probes", every_s=5.0, timeout_ms=3000)
@click.option("--trace", metavar="TOPIC|FOLDER", help="Report from this trace instead of a log.")
@click.option(
    "--max-gap",
    "max_gap_s",
    type=Seconds(0),
    help="Longest gap between observations; longer gaps count as not observed. [default: 3 intervals]",
)
def availability(setup: JobSetup, ui: JobUi, **given: Any) -> Rows:
    """Report availability, MTBF and MTTR of brokers and topics as clients see them, from probes or traces.

    Ctrl-C ends probing; then the report is printed.
    """
    if (given["log"] is None) == (given["trace"] is None):
        raise click.UsageError("give --log FOLDER, or --trace TOPIC|FOLDER")
    if given["trace"] is not None and (setup.dry_run or given["topics"] or given["samples"] is not None):
        raise click.UsageError("--topic, --samples and --dry-run are for probes, and go with --log")
    done = run(AvailabilityOptions(setup=setup, **given), ui)
    if setup.dry_run:
        return Rows((Column("try", "Would try"),), [(one,) for one in done.planned])
    ongoing = sum(one["ongoing"] for one in done.outages)
    return Rows.picked(COLUMNS, done.figures, f"{len(done.outages)} outages, {ongoing} of them last")
