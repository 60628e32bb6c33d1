"""A run of `dedup`: a stream of messages without repeats, into a topic or a lake."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING, Any

from orbitmq.plurals import counted
from orbitmq.spark import functions as sf
from orbitmq.spark.jobs.dedup.options import DedupOptions
from orbitmq.spark.jobs.dedup.ownership import claim, need_lake
from orbitmq.spark.jobs.interrupting import noting_the_end
from orbitmq.spark.jobs.job import QUIET, JobFailed, JobUi
from orbitmq.spark.jobs.preflight import is_begun, need_target, need_topics
from orbitmq.spark.jobs.totals import Totals
from orbitmq.spark.lake.storage import LakeLocation
from orbitmq.spark.session.start_retry import retry_start

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

STATE_STORE = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
POLL_S = 1


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
        return self.read - self.repeats


def run(options: DedupOptions, ui: JobUi = QUIET) -> DedupResult:
    """Raises JobFailed, BadOption."""
    from orbitmq.spark.jobs.dedup import tables

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
        need_lake(options.to_lake, options.setup.checkpoint, begun=begun)
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


def _source(options: DedupOptions) -> dict[str, str]:
    from orbitmq.spark.jobs.dedup.tables import KEY_COLUMNS

    return options.setup.reading_options | {
        "subscribe": ",".join(options.topics),
        "columns": ",".join(KEY_COLUMNS),
        "failOnDataLoss": "false" if options.allow_data_loss else "true",
    }


def _plan(spark: SparkSession, options: DedupOptions) -> DedupResult:
    """Counts what there is now, as if no key were ever forgotten; writes nothing, uses no checkpoint."""
    from orbitmq.spark.jobs.dedup import tables

    messages = spark.read.format("orbitmq").options(**_source(options)).load()
    by_key = messages.groupBy("topic", tables.business_key(options.key).alias(tables.KEY)).count()
    repeats = sf.sum(sf.when(sf.col(tables.KEY).isNotNull(), sf.col("count") - 1))
    keyless = sf.sum(sf.when(sf.col(tables.KEY).isNull(), sf.col("count")))
    row = by_key.agg(sf.sum("count"), repeats, keyless).first()
    assert row is not None
    return DedupResult(read=row[0] or 0, repeats=row[1] or 0, keyless=row[2] or 0)


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
    from orbitmq.spark.jobs.dedup.tables import KEY

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
