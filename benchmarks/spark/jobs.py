"""The jobs that are timed: the same for every source, with seven columns that mean the same."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orbitmq.spark.lake.writing import IN_PATH, NEEDED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = "keys,body,topic,queueId,queueOffset,storeTimestamp,sysFlag"
"""OrbitMQ's columns for Kafka's key, value, topic, partition, offset, timestamp and timestampType."""
ARCHIVED = tuple(name for name in COLUMNS.split(",") if name not in IN_PATH)
"""The same in a lake, where the topic is in the path."""
SOURCES = ("kafka", "online", "offline")
TITLES = {"kafka": "Kafka", "online": "OrbitMQ", "offline": "OrbitMQ, from its files"}


@dataclass(frozen=True, slots=True)
class Inputs:
    """Addresses and paths of the records."""

    kafka: str
    namesrv: str
    store: str
    """The broker's folder."""


@dataclass(frozen=True, slots=True)
class Ran:
    """A job's report about itself."""

    seen: int | None = None
    """Records, where it counts them."""
    in_batches_s: float | None = None
    """Of a stream: the time in micro-batches. The rest is Spark starting and ending the query."""


@dataclass(frozen=True, slots=True)
class Job:
    """One job over one source."""

    name: str
    what: str
    run: Callable[[Any, Path], Ran]
    """Gets a reader (`frame(streaming)`) and an empty folder."""
    streaming: bool = False


def options_of(source: str, topic: str, inputs: Inputs) -> tuple[str, dict[str, str]]:
    """Format and options that read a whole topic."""
    if source == "kafka":
        return "kafka", {
            "kafka.bootstrap.servers": inputs.kafka,
            "subscribe": topic,
            "startingOffsets": "earliest",
        }
    where = {"namesrv": inputs.namesrv, "subscribe": topic, "startingOffsets": "earliest"}
    if source == "offline":
        where = {"path": inputs.store, "topic": topic}
    return "orbitmq", {**where, "columns": COLUMNS}


@dataclass(frozen=True, slots=True)
class Reading:
    """A topic through one source: called, it is a data frame, of a batch or of a stream."""

    spark: SparkSession
    source: str
    topic: str
    inputs: Inputs
    more: dict[str, str] = field(default_factory=dict)

    def __call__(self, streaming: bool) -> DataFrame:
        name, options = options_of(self.source, self.topic, self.inputs)
        reader: Any = self.spark.readStream if streaming else self.spark.read
        return reader.format(name).options(**options, **self.more).load()  # type: ignore[no-any-return]


def _count(frame: Any, folder: Path) -> Ran:
    return Ran(int(frame(False).count()))


def _noop(frame: Any, folder: Path) -> Ran:
    frame(False).write.format("noop").mode("overwrite").save()
    return Ran()


def _parquet(frame: Any, folder: Path) -> Ran:
    frame(False).write.parquet(str(folder / "out"))
    return Ran()


def _archive(frame: Any, folder: Path) -> Ran:
    """The job `archive`, which writes Parquet in the workers; of Kafka Spark's writer: it has no such job."""
    if not isinstance(frame, Reading) or frame.source == "kafka":
        return _parquet(frame, folder)
    from orbitmq.spark.jobs.archive.running import ArchiveOptions, run
    from orbitmq.spark.jobs.job import JobSetup
    from orbitmq.spark.lake.storage import LakeLocation

    inputs = frame.inputs
    columns = tuple(dict.fromkeys((*ARCHIVED, *NEEDED)))
    where: dict[str, Any] = {"setup": JobSetup(inputs.namesrv)}
    if frame.source == "offline":
        where |= {"store": inputs.store, "broker_name": "broker-a"}
    lake = LakeLocation(str(folder / "lake"))
    return Ran(run(ArchiveOptions(lake, (frame.topic,), columns=columns, **where)).messages)


def _stream(sink: str) -> Callable[[Any, Path], Ran]:
    def run(frame: Any, folder: Path) -> Ran:
        writer = frame(True).writeStream.format(sink).option("checkpointLocation", str(folder / "checkpoint"))
        if sink == "parquet":
            writer = writer.option("path", str(folder / "out"))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        batches = query.recentProgress
        return Ran(
            sum(int(batch["numInputRows"]) for batch in batches),
            sum(batch["durationMs"]["triggerExecution"] for batch in batches) / 1000,
        )

    return run


JOBS = (
    Job("count", "count", _count),
    Job("noop", "noop, seven columns", _noop),
    Job("parquet", "write Parquet", _parquet),
    Job("archive", "archive job, Parquet", _archive),
    Job("stream-noop", "available-now, noop", _stream("noop"), streaming=True),
    Job("stream-parquet", "available-now, Parquet", _stream("parquet"), streaming=True),
)


def timed(job: Job, frame: Any, folder: Path, expected: int) -> dict[str, float]:
    """Seconds that a job takes, of a stream also those outside its micro-batches (`start_s`).

    Raises RuntimeError where it gives another number of records than there are.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    started = time.monotonic()
    ran = job.run(frame, folder)
    took = time.monotonic() - started
    shutil.rmtree(folder, ignore_errors=True)
    if ran.seen is not None and ran.seen != expected:
        raise RuntimeError(f"{ran.seen:,} records instead of {expected:,}")
    return {"seconds": took} | (
        {} if ran.in_batches_s is None else {"start_s": max(0.0, took - ran.in_batches_s)}
    )
