"""The job `dedup`: topics without repeats into another topic or a lake, and an audit that finds repeats.

Spark keeps which keys were seen in the checkpoint and on the disks of its workers (RocksDB). A job that was
killed is started again with the same checkpoint and repeats the batch that was under way: a lake holds it
once by Spark's own log of files, a topic because each message is known by its key and its batch, and is sent
only where no broker holds it.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import click

from orbitmq.admin.output import Column, Facts, Result, Rows
from orbitmq.plurals import counted
from orbitmq.spark.folders import local_path
from orbitmq.spark.jobs.interrupting import noting_the_end
from orbitmq.spark.jobs.job import QUIET, JobFailed, JobSetup, JobUi, job
from orbitmq.spark.jobs.preflight import (
    SPARK_LOG,
    is_begun,
    names_towards,
    need_target,
    need_topics,
    need_trace,
    was_written,
)
from orbitmq.spark.jobs.totals import Totals
from orbitmq.spark.lake.storage import LakeLocation, Storage
from orbitmq.spark.session.start_retry import retry_start

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

STATE_STORE = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
POLL_S = 1
WINDOW = re.compile(r"(\d+)\s*(ms|s|m|h|d)")
UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
LONGEST_MS = 3650 * UNITS_MS["d"]
NOTE = "dedup.json"
"""Says whose a checkpoint is."""
SHOWN = 1000
"""Rows of an audit that are shown; all are counted."""


@dataclass(frozen=True, slots=True)
class DedupOptions:
    """From where to where. Exactly one of `to_topic` and `to_lake` is set."""

    topics: tuple[str, ...]
    setup: JobSetup = field(default_factory=JobSetup)
    """Its checkpoint is needed."""
    key: str = "keys"
    """See `orbitmq.spark.jobs.dedup_tables.business_key`."""
    window_ms: int = 3_600_000
    to_topic: str | None = None
    to_lake: str | None = None
    follow_s: float | None = None
    """Look for new messages so often, until Ctrl-C; None: end when all is done."""
    allow_data_loss: bool = False


@dataclass(frozen=True, slots=True)
class DedupResult:
    """The result of a run; of a dry run, the result it would have."""

    read: int = 0
    repeats: int = 0
    batches: int = 0
    keyless: int = 0
    """Of a dry run: messages without a key."""

    @property
    def written(self) -> int:
        """Messages that were passed on."""
        return self.read - self.repeats


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """Options of a search for repeated messages."""

    topics: tuple[str, ...]
    setup: JobSetup = field(default_factory=JobSetup)
    key: str = "keys"
    trace: str | None = None
    """Trace topic, or folder of the job `trace`, that says what was consumed."""


@dataclass(frozen=True, slots=True)
class AuditResult:
    """The first thousand rows each of what `dedup_tables` finds, and how many there are."""

    sent: list[Any]
    sent_keys: int
    consumed: list[Any]
    consumed_keys: int


def run(options: DedupOptions, ui: JobUi = QUIET) -> DedupResult:
    """Raises JobFailed, BadOption."""
    from orbitmq.spark.jobs import dedup_tables as tables

    if bool(options.to_topic) == bool(options.to_lake):
        raise JobFailed("dedup writes to a topic, or to a lake: give one of them")
    if options.to_topic in options.topics:
        raise JobFailed(f"dedup cannot write to {options.to_topic}, which it reads")
    tables.parsed_key(options.key)
    if options.setup.dry_run:
        need_topics(options.setup, options.topics)
        with options.setup.session("dedup") as spark:
            return _plan(spark, options)
    if not options.setup.checkpoint:
        raise JobFailed("dedup needs a checkpoint: there it keeps which keys it has seen")
    checkpoint = LakeLocation(options.setup.checkpoint).open()
    begun = is_begun(checkpoint)
    if not begun:  # later a stream waits for what is away
        need_topics(options.setup, options.topics)
        if options.to_topic is not None:
            need_target(options.setup, options.to_topic)
    if options.to_lake is not None:
        _need_lake(options.to_lake, options.setup.checkpoint, begun=begun)
    write_id = claim(checkpoint, options)
    with options.setup.session("dedup") as spark:
        key = tables.business_key(options.key)
        stream = spark.readStream.format("orbitmq").options(**_source(options), startingOffsets="earliest")
        once = tables.deduplicated(stream.load(), key, options.window_ms)
        with _state_on_disk(spark), ui.progress("deduplicating") as bar:
            return retry_start(lambda: _pass_on(once, options, write_id, bar))


def _pass_on(once: DataFrame, options: DedupOptions, write_id: str, bar: Any) -> DedupResult:
    query = _start(once, options, write_id)
    totals = Totals()
    try:
        with nullcontext(Event()) if options.follow_s is None else noting_the_end() as over:
            _watch(query, totals, bar, over)
    finally:
        query.stop()
    return DedupResult(totals.read, totals.repeats, totals.batches)


def audit(options: AuditOptions, ui: JobUi = QUIET) -> AuditResult:
    """Finds keys that were sent, and with a trace consumed, more than once."""
    from orbitmq.spark.jobs import dedup_tables as tables
    from orbitmq.spark.jobs import trace_tables

    if options.setup.report is not None:
        from orbitmq.spark.jobs.report import Report

        Report("")  # fails before the work is done, where it cannot be made after it
    tables.parsed_key(options.key)
    need_topics(options.setup, options.topics)
    traced = None if options.trace is None else need_trace(options.setup, options.trace)
    with options.setup.session("dedup audit") as spark, ui.spark_progress(spark, "looking for repeats"):
        key = tables.business_key(options.key)
        given = {"subscribe": ",".join(options.topics), "columns": ",".join(tables.KEY_COLUMNS)}
        messages = spark.read.format("orbitmq").options(**options.setup.source_options, **given).load()
        sent, sent_keys = _first(tables.sent_repeatedly(messages, key))
        consumed: list[Any] = []
        consumed_keys = 0
        if options.trace is not None:
            records = trace_tables.distinct(_traced(spark, options, options.trace, traced))
            handled = trace_tables.handlings(records)
            consumed, consumed_keys = _first(tables.consumed_repeatedly(handled, messages, key))
        result = AuditResult(sent, sent_keys, consumed, consumed_keys)
        if options.setup.report is not None:
            _report(options, result).write(options.setup.report)
    return result


def _first(frame: DataFrame) -> tuple[list[Any], int]:
    kept = frame.persist()
    try:
        return kept.limit(SHOWN).collect(), kept.count()
    finally:
        kept.unpersist()


def _traced(spark: SparkSession, options: AuditOptions, trace: str, folder: Path | None) -> DataFrame:
    from orbitmq.spark.jobs.trace_records import RECORD_DDL, SOURCE_COLUMNS, records

    if folder is not None:
        return spark.read.schema(f"{RECORD_DDL}, day date").parquet(str(folder)).drop("day")
    given = {"subscribe": trace, "columns": ",".join(SOURCE_COLUMNS)}
    return records(spark.read.format("orbitmq").options(**options.setup.source_options, **given).load())


def _source(options: DedupOptions) -> dict[str, str]:
    from orbitmq.spark.jobs.dedup_tables import KEY_COLUMNS

    return options.setup.source_options | {
        "subscribe": ",".join(options.topics),
        "columns": ",".join(KEY_COLUMNS),
        "failOnDataLoss": "false" if options.allow_data_loss else "true",
    }


def _plan(spark: SparkSession, options: DedupOptions) -> DedupResult:
    """Counts what there is now, as if no key were ever forgotten; writes nothing, uses no checkpoint."""
    from pyspark.sql import functions as sf

    from orbitmq.spark.jobs import dedup_tables as tables

    messages = spark.read.format("orbitmq").options(**_source(options)).load()
    by_key = messages.groupBy("topic", tables.business_key(options.key).alias(tables.KEY)).count()
    repeats = sf.sum(sf.when(sf.col(tables.KEY).isNotNull(), sf.col("count") - 1))
    keyless = sf.sum(sf.when(sf.col(tables.KEY).isNull(), sf.col("count")))
    row = by_key.agg(sf.sum("count"), repeats, keyless).first()
    assert row is not None
    return DedupResult(read=row[0] or 0, repeats=row[1] or 0, keyless=row[2] or 0)


def claim(checkpoint: Storage, options: DedupOptions) -> str:
    """Notes in a checkpoint whose it is; the id of the write. Raises JobFailed for another job's."""
    url = options.setup.checkpoint
    mine = {
        "topics": sorted(options.topics),
        "key": options.key,
        "to": f"topic {options.to_topic}" if options.to_topic else f"lake {options.to_lake}",
    }
    try:
        found = json.loads(checkpoint.read(NOTE))
        write_id = str(found.pop("writeId"))
    except FileNotFoundError:
        if any(name[0] != "." for name in checkpoint.names("")):
            raise JobFailed(
                f"the checkpoint {url} is not one of this job: give it a folder of its own"
            ) from None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise JobFailed(f"{url}/{NOTE} is damaged, or no note of this job: {error!r}") from None
    else:
        other = next((name for name, value in mine.items() if found.get(name) != value), None)
        if other is None:
            return write_id
        # After a mistake in the first command there is nothing to lose.
        if is_begun(checkpoint):
            raise JobFailed(
                f"the checkpoint {url} is of another job: {other} was {found.get(other)} there and "
                f"is {mine[other]} here; give this one a checkpoint of its own"
            )
    write_id = uuid.uuid4().hex
    unfinished = f".{NOTE}.{write_id}"
    with checkpoint.open_write(unfinished) as file:
        file.write(json.dumps(mine | {"writeId": write_id}).encode())
        checkpoint.finish(file)
    checkpoint.move(unfinished, NOTE)
    return write_id


def _need_lake(url: str, checkpoint: str, *, begun: bool) -> None:
    """Raises JobFailed for a folder of this machine that holds anything but what this job has written.

    The checkpoint may lie in it, and `begun` says whether it has a batch.
    """
    if url.rstrip("/") == checkpoint.rstrip("/"):
        raise JobFailed(f"{url} cannot be the lake and the checkpoint: give each a folder of its own")
    folder = local_path(url)
    if folder is None or not folder.exists():
        return
    if not folder.is_dir():
        raise JobFailed(f"{url} is no folder")
    names = {path.name for path in folder.iterdir() if path.name[0] != "."}
    if "_manifests" in names:
        raise JobFailed(f"{url} is a lake of `orbitmq job archive`: give --to-lake a folder of its own")
    names -= names_towards(folder, local_path(checkpoint))
    # Days without a log are another program's, and none of Spark's readers would see them beside a log.
    ours = {name for name in names if name == SPARK_LOG or name.startswith("day=")}
    strange = sorted(names - ours if SPARK_LOG in names else names)
    if strange:
        raise JobFailed(f"{url} holds other things, as {strange[0]}: give --to-lake a folder of its own")
    if was_written(folder) and not begun:
        raise JobFailed(
            f"{url} was written with another checkpoint: go on with that one, or give --to-lake a new folder"
        )


@contextmanager
def _state_on_disk(spark: SparkSession) -> Iterator[None]:
    """Keeps keys in RocksDB for queries that begin in the block, unless the session says something else."""
    before = spark.conf.get(STATE_STORE, None)
    ours = before is None or before.endswith("HDFSBackedStateStoreProvider")
    if ours:
        spark.conf.set(STATE_STORE, ROCKSDB)
    try:
        yield
    finally:
        if ours:
            spark.conf.unset(STATE_STORE)


def _start(once: DataFrame, options: DedupOptions, write_id: str) -> StreamingQuery:
    from pyspark.sql import functions as sf

    from orbitmq.spark.jobs.dedup_tables import KEY

    checkpoint = options.setup.checkpoint
    assert checkpoint is not None
    trigger: dict[str, Any] = (
        {"availableNow": True}
        if options.follow_s is None
        else {"processingTime": f"{options.follow_s} seconds"}
    )
    if options.to_lake is not None:
        writer = (
            once.drop(KEY)
            .withColumn("day", sf.to_date("storeTimestamp"))
            .writeStream.format("parquet")
            .partitionBy("day")
            .option("path", options.to_lake)
        )
    else:
        target = {**options.setup.source_options, "topic": str(options.to_topic), "idempotent": "true"}

        def send(batch: DataFrame, number: int) -> None:
            # The first of several equal keys may differ when a batch is repeated: the key is what a
            # message is known by, within its batch.
            rows = batch.select(
                "body", "keys", "tags", "properties", "flag",
                sf.concat_ws("/", "topic", KEY).alias("onceKey"),
            )  # fmt: skip
            rows.write.format("orbitmq").options(**target, writeId=f"{write_id}-{number}").mode(
                "append"
            ).save()

        writer = once.writeStream.foreachBatch(send)
    return writer.option("checkpointLocation", checkpoint).trigger(**trigger).start()


def _watch(query: StreamingQuery, totals: Totals, bar: Any, over: Event) -> None:
    """Waits until it has ended or is `over`. Raises JobFailed where messages were dropped unseen."""
    ended: bool | None = False
    while not ended and not over.is_set():
        ended = query.awaitTermination(POLL_S)
        totals.count(query)
        if totals.late:
            raise JobFailed(
                f"{counted(totals.late, 'message')} left out: a broker's clock is ahead of this machine's by "
                "more than half the window. Set the clocks, or begin anew with a longer --window and another "
                "checkpoint"
            )
        bar.note(f"{totals.read:,} read, {totals.repeats:,} repeats")


def _report(options: AuditOptions, result: AuditResult) -> Any:
    from orbitmq.spark.jobs.dedup_tables import KEY
    from orbitmq.spark.jobs.report import Report

    page = Report("Repeats", about=f"Topics {', '.join(options.topics)}, by {options.key}; times are UTC.")
    page.figures({"keys sent repeatedly": result.sent_keys, "keys consumed repeatedly": result.consumed_keys})
    page.heading("Sent more than once")
    page.text(
        "One message id: a send was repeated on its way. Several: the application has sent several times."
    )
    heads = ["topic", KEY, "times", "messageIds", "firstAt", "lastAt", "places"]
    page.table(heads, [[row[name] for name in heads] for row in result.sent])
    most = result.sent[:20]
    page.bars("The most frequent", [row[KEY] for row in most], [row["times"] for row in most], "messages")
    if options.trace is not None:
        page.heading("Handled with success more than once by one group")
        heads = ["clientGroup", *heads[:-1], "clients"]
        page.table(heads, [[row[name] for name in heads] for row in result.consumed])
    return page


AUDIT = (
    Column("what", "What"),
    Column("clientGroup", "Group"),
    Column("topic", "Topic"),
    Column("key", "Key"),
    Column("times", "Times"),
    Column("messageIds", "Message ids"),
    Column("firstAt", "First", is_time=True),
    Column("lastAt", "Last", is_time=True),
)
EXAMPLES = """\
orbitmq job dedup --topic orders --window 6h --to-topic orders-once --checkpoint ./once
orbitmq job dedup --topic orders --key 'json:$.id' --to-lake ./orders --checkpoint ./once --follow 10
orbitmq job dedup --topic orders --audit --trace RMQ_SYS_TRACE_TOPIC --report repeats.html"""


def duration(_: Any, __: Any, value: str) -> int:
    """A flag like 90s, 15m or 6h, in ms."""
    found = WINDOW.fullmatch(value.strip())
    if found is None or int(found[1]) == 0:
        raise click.BadParameter(f"{value!r} is no duration: 90s, 15m, 6h, 2d")
    ms = int(found[1]) * UNITS_MS[found[2]]
    if ms > LONGEST_MS:
        raise click.BadParameter(f"{value} is more than ten years")
    return ms


@job(
    "dedup",
    examples=EXAMPLES,
    checkpoint="Folder for known keys and progress. Required.",
    dry_run="Count messages and repeats; write nothing.",
    report="With --audit: write an HTML page.",
)
@click.option("-t", "--topic", "topics", multiple=True, required=True, help="Topic to read. Repeatable.")
@click.option(
    "--key",
    default="keys",
    show_default=True,
    metavar="KEY",
    help="keys, msgId, body, property:NAME, json:$.PATH or sql:EXPRESSION.",
)
@click.option(
    "--window",
    "window_ms",
    default="1h",
    show_default=True,
    callback=duration,
    help="Repeats stored up to this long after the first message are always dropped.",
)
@click.option("--to-topic", metavar="NAME", help="Topic to write to.")
@click.option("--to-lake", metavar="FOLDER|URL", help="Folder for Parquet files, by day.")
@click.option(
    "--follow",
    "follow_s",
    type=click.FloatRange(0.1),
    metavar="SECONDS",
    help="Run until Ctrl-C, and look for new messages this often.",
)
@click.option("--audit", "only_audit", is_flag=True, help="Only report keys that occur more than once.")
@click.option(
    "--trace",
    metavar="TOPIC|FOLDER",
    help="With --audit: also report keys that were consumed more than once.",
)
@click.option(
    "--allow-data-loss", is_flag=True, help="Continue after messages that were deleted before they were read."
)
def dedup(
    setup: JobSetup, ui: JobUi, topics: tuple[str, ...], only_audit: bool, trace: str | None, **given: Any
) -> Result:
    """Forward one message per business key, or report keys that were sent or consumed more than once."""
    if only_audit:
        if setup.checkpoint or any(given[name] for name in ("to_topic", "to_lake", "follow_s")):
            raise click.UsageError(
                "--audit only reports: --to-topic, --to-lake, --checkpoint and --follow do not go with it"
            )
        found = audit(AuditOptions(topics, setup, given["key"], trace), ui)
        return _rows(found, trace is not None)
    if trace is not None or setup.report is not None:
        raise click.UsageError("--trace and --report go with --audit")
    if bool(given["to_topic"]) == bool(given["to_lake"]):
        raise click.UsageError("give --to-topic or --to-lake, or --audit")
    if not setup.checkpoint and not setup.dry_run:
        raise click.UsageError("--checkpoint is needed: there it keeps which keys it has seen")
    done = run(DedupOptions(topics, setup, **given), ui)
    if setup.dry_run:
        return Facts({"messages": done.read, "repeats": done.repeats, "without key": done.keyless})
    return Facts(
        {"read": done.read, "repeats": done.repeats, "written": done.written, "batches": done.batches}
    )


def _rows(found: AuditResult, traced: bool) -> Rows:
    names = ("topic", "dedupKey", "times", "messageIds", "firstAt", "lastAt")
    rows = [["sent", None, *(row[name] for name in names)] for row in found.sent]
    rows += [["consumed", row["clientGroup"], *(row[name] for name in names)] for row in found.consumed]
    rows = [[*row[:-2], *(int(at.timestamp() * 1000) for at in row[-2:])] for row in rows]
    note = f"{counted(found.sent_keys, 'key')} sent more than once"
    return Rows(AUDIT, rows, note + (f", {found.consumed_keys} consumed more than once" if traced else ""))
