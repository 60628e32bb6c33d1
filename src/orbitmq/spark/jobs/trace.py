"""The job `trace`: what became of messages, out of the trace that clients write.

Without a folder it looks at what the trace topic holds. With one (`--tables`), records are first brought
into a table there, each message of the topic once over crashes and restarts, and everything is computed from
that table: brokers forget traces after some days, the table does not.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from orbitmq.admin.output import Column, Rows, columns
from orbitmq.flags import Moment
from orbitmq.plurals import counted
from orbitmq.protocol.names import TRACE_TOPIC
from orbitmq.spark import functions as sf
from orbitmq.spark.folders import local_path
from orbitmq.spark.jobs.job import QUIET, JobFailed, JobSetup, JobUi, job
from orbitmq.spark.jobs.preflight import is_begun, names_towards, need_order, need_topics, was_written
from orbitmq.spark.lake.storage import LocalStorage
from orbitmq.spark.session.start_retry import retry_start

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RECORDS = "records"
DERIVED = ("latency", "sending", "consumers", "first_attempt_failures", "failed_sends")
"""Folders of tables that are made again from the records."""


@dataclass(frozen=True, slots=True)
class TraceOptions:
    """Options of the job. `tables` is a folder that every worker sees."""

    setup: JobSetup = field(default_factory=JobSetup)
    topic: str = TRACE_TOPIC
    tables: Path | None = None
    since_ms: int | None = None
    "Only traces stored at this time or later."
    until_ms: int | None = None
    message: str | None = None
    """Tell only the life of messages with this id or key."""
    slow_ms: int = 1000
    allow_data_loss: bool = False


@dataclass(frozen=True, slots=True)
class TraceResult:
    """Rows as the tables of `trace_tables` have them."""

    added: int = 0
    """Trace messages that came into the table in this run; of a dry run: that would have come."""
    records: int = 0
    bad: int = 0
    """Parts of trace messages that are no records."""
    latency: list[Any] = field(default_factory=list)
    life: list[Any] = field(default_factory=list)


def run(options: TraceOptions, ui: JobUi = QUIET) -> TraceResult:
    """Raises JobFailed, and what the source raises."""
    setup = options.setup
    need_order(options.since_ms, options.until_ms)
    if options.tables is not None:
        _need_tables(options.tables, local_path(_checkpoint(options)))
    if options.tables is None or _committed(options) is None:
        need_topics(setup, [options.topic])  # later a stream waits for what is away
    with setup.session("trace") as spark:
        added = 0
        if options.tables is not None:
            if setup.dry_run:
                return TraceResult(added=_outstanding(spark, options))
            added = retry_start(lambda: _bring_in(spark, options, ui))
        return _report(spark, options, ui, added)


def _source(options: TraceOptions) -> dict[str, str]:
    return options.setup.reading_options | {
        "subscribe": options.topic,
        "columns": "body,bornHost,storeTimestamp",
        "failOnDataLoss": "false" if options.allow_data_loss else "true",
    }


def _live(spark: SparkSession, options: TraceOptions) -> DataFrame:
    given = _source(options)
    if options.since_ms is not None:
        given |= {"startingTimestamp": str(options.since_ms), "startingOffsetsByTimestampStrategy": "latest"}
    if options.until_ms is not None:
        given["endingTimestamp"] = str(options.until_ms)
    return spark.read.format("orbitmq").options(**given).load()


def _bring_in(spark: SparkSession, options: TraceOptions, ui: JobUi) -> int:
    """Brings the table up to date; the trace messages that came in."""
    from orbitmq.spark.jobs.trace_records import records

    assert options.tables is not None
    if _committed(options) is None:
        _need_traces(spark, options)
    stream = spark.readStream.format("orbitmq").options(**_source(options), startingOffsets="earliest").load()
    with ui.spark_progress(spark, "trace into the table"):
        query = (
            records(stream)
            .withColumn("day", sf.to_date("storedAt"))
            .writeStream.format("parquet")
            .partitionBy("day")
            .option("checkpointLocation", _checkpoint(options))
            .trigger(availableNow=True)
            .start(str(options.tables / RECORDS))
        )
        try:
            query.awaitTermination()
        finally:
            query.stop()
    return sum(int(progress["numInputRows"]) for progress in query.recentProgress)


def _need_tables(tables: Path, checkpoint: Path | None) -> None:
    """Raises JobFailed for a folder that holds more than this job has written with this checkpoint."""
    above = next(one for one in (tables, *tables.absolute().parents) if one.exists())
    if not above.is_dir():
        raise JobFailed(f"{above} is no folder")
    if above != tables:
        return
    # Later there may be a report beside the records.
    if not (tables / RECORDS).exists():
        known = {*DERIVED, "checkpoint", *names_towards(tables, checkpoint)}
        strange = sorted(one.name for one in tables.iterdir() if one.name not in known and one.name[0] != ".")
        if strange:
            raise JobFailed(
                f"{tables} holds other things, as {strange[0]}: give --tables a folder of its own"
            )
    is_new = checkpoint is not None and not is_begun(LocalStorage(checkpoint))
    if is_new and was_written(tables / RECORDS):
        raise JobFailed(
            f"{tables} was written with another checkpoint than {checkpoint}: go on with that one, or give "
            "--tables a new folder"
        )


def _need_traces(spark: SparkSession, options: TraceOptions) -> None:
    """Raises JobFailed for a topic of something else, before any of it comes into a table."""
    from orbitmq.spark.jobs.trace_records import records

    first = records(spark.read.format("orbitmq").options(**_source(options)).load()).select("bad").limit(100)
    seen = [row["bad"] for row in first.collect()]
    if seen and None not in seen:
        raise JobFailed(_no_trace(options))


def _no_trace(options: TraceOptions) -> str:
    return f"{options.topic} holds no message trace, but other messages: --trace-topic"


def _checkpoint(options: TraceOptions) -> str:
    assert options.tables is not None
    return options.setup.checkpoint or str(options.tables / "checkpoint")


def _committed(options: TraceOptions) -> str | None:
    """See `committed_offsets`; None for a checkpoint that is not on this machine, which Spark alone reads."""
    checkpoint = local_path(_checkpoint(options))
    return None if checkpoint is None else committed_offsets(checkpoint)


def _outstanding(spark: SparkSession, options: TraceOptions) -> int:
    """Number of trace messages that the table lacks, by the offsets of its checkpoint."""
    given = _source(options) | {"columns": "queueOffset"}
    seen = _committed(options)
    if seen is not None:
        given["startingOffsets"] = seen
    return spark.read.format("orbitmq").options(**given).load().count()


def committed_offsets(checkpoint: Path) -> str | None:
    """The offsets, as JSON, up to which a query with one source is done; None before its first batch.

    Raises JobFailed for a folder that holds something else.
    """
    done = [int(path.name) for path in (checkpoint / "commits").glob("*") if path.name.isdigit()]
    if not done:
        return None
    try:
        _, _, offsets = (checkpoint / "offsets" / str(max(done))).read_text().splitlines()
        json.loads(offsets)
    except (OSError, ValueError) as error:
        raise JobFailed(f"{checkpoint} is no checkpoint of this job: {error}") from None
    return offsets


def _stored(spark: SparkSession, options: TraceOptions) -> DataFrame:
    from orbitmq.spark.jobs.trace_records import stored_records

    assert options.tables is not None
    found = stored_records(spark, options.tables / RECORDS)
    if options.since_ms is not None:
        found = found.where(sf.unix_millis("storedAt") >= options.since_ms)
    if options.until_ms is not None:
        found = found.where(sf.unix_millis("storedAt") < options.until_ms)
    return found


def _report(spark: SparkSession, options: TraceOptions, ui: JobUi, added: int) -> TraceResult:
    from orbitmq.spark.jobs import trace_tables as tables
    from orbitmq.spark.jobs.trace_records import records

    found = _stored(spark, options) if options.tables else records(_live(spark, options))
    kept = tables.distinct(found).persist()
    try:
        with ui.spark_progress(spark, "trace"):
            counts = kept.selectExpr("count(*)", "count(bad)").first()
            assert counts is not None
            result = TraceResult(added, counts[0] - counts[1], counts[1])
            if result.bad and not result.records:
                raise JobFailed(_no_trace(options))
            if options.message is not None:
                life = tables.life(kept, options.message).collect()
                if options.setup.report is not None:
                    _life_report(options, life)
                return TraceResult(added, result.records, result.bad, life=life)
            sends = tables.sends(kept)
            handled = tables.with_topics(tables.handlings(kept), sends).persist()
            try:
                derived = {
                    "latency": tables.latency(handled),
                    "sending": tables.sending(sends),
                    "consumers": tables.consumers(handled, options.slow_ms),
                    "first_attempt_failures": tables.first_attempt_failures(handled),
                    "failed_sends": tables.failed_sends(sends),
                }
                if options.tables is not None:
                    for name, frame in derived.items():
                        frame.coalesce(1).write.mode("overwrite").parquet(str(options.tables / name))
                latency = derived["latency"].collect()
                if options.setup.report is not None:
                    from orbitmq.spark.jobs.trace_report import report

                    page = report(
                        derived,
                        handled,
                        topic=options.topic,
                        records=result.records,
                        bad=result.bad,
                        slow_ms=options.slow_ms,
                    )
                    page.write(options.setup.report)
            finally:
                handled.unpersist()
    finally:
        kept.unpersist()
    return TraceResult(added, result.records, result.bad, latency=latency)


def _life_report(options: TraceOptions, life: list[Any]) -> None:
    from orbitmq.spark.jobs.report import Report

    assert options.setup.report is not None
    page = Report(f"The life of {options.message}", about=f"Trace topic {options.topic}.")
    page.table([*LIFE.values()], [[row[name] for name in LIFE] for row in life])
    page.write(options.setup.report)


LIFE = {
    "at": "at", "what": "what", "clientGroup": "group", "client": "client", "topic": "topic",
    "msgId": "message id", "keys": "keys",
}  # fmt: skip
LATENCY = columns(
    "topic clientGroup delayed messages handled retried endToEndP50Ms endToEndP99Ms endToEndMaxMs",
    clientGroup="Group",
    endToEndP50Ms="P50 ms",
    endToEndP99Ms="P99 ms",
    endToEndMaxMs="Max ms",
)
EXAMPLES = """\
orbitmq job trace --report trace.html
orbitmq job trace --tables ./trace --since 2026-01-31T08:00
orbitmq job trace --message o-17"""


@job(
    "trace",
    examples=EXAMPLES,
    checkpoint="Folder for the progress of --tables. [default: TABLES/checkpoint]",
    dry_run="With --tables: show the number of new trace messages; write nothing.",
    report="Write an HTML page with charts.",
)
@click.option("--trace-topic", "topic", default=TRACE_TOPIC, help="Topic of the trace.")
@click.option(
    "--tables",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Keep trace records here as Parquet, and report from all of them.",
)
@click.option("--since", "since_ms", type=Moment(), help="Only traces stored at this time or later.")
@click.option("--until", "until_ms", type=Moment(), help="Only traces stored before this time.")
@click.option("--message", metavar="ID|KEY", help="Show the history of messages with this id or key.")
@click.option(
    "--slow-ms",
    type=click.IntRange(0),
    default=1000,
    help="Report handling that takes longer than this as slow.",
)
@click.option(
    "--allow-data-loss", is_flag=True, help="Continue after traces that were deleted before they were read."
)
def trace(setup: JobSetup, ui: JobUi, **given: Any) -> Rows:
    """Report from message traces: latencies, slow consumers, failures, and the history of one message."""
    if setup.dry_run and given["tables"] is None:
        raise click.UsageError("--dry-run goes with --tables: nothing is written without it")
    if setup.checkpoint and given["tables"] is None:
        raise click.UsageError("--checkpoint goes with --tables: nothing is kept without it")
    done = run(TraceOptions(setup, **given), ui)
    if setup.dry_run:
        return Rows((Column("would add", "Would add"),), [(done.added,)])
    bad = f", {done.bad} parts that are none" if done.bad else ""
    note = f"{counted(done.records, 'record')}{bad}" + (
        f", {counted(done.added, 'trace message')} new" if given["tables"] else ""
    )
    if given["message"] is not None:
        heads = [Column(name, head, name == "at") for name, head in LIFE.items()]
        return Rows.picked(
            heads, done.life, note if done.life else f"nothing is known of {given['message']}: {note}"
        )
    return Rows.picked(LATENCY, done.latency, note)
