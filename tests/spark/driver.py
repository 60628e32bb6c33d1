"""A driver of its own: writes a topic, reads it, follows it, archives it, replays it, audits a store, and
prints what it saw. `parts` is the number of these that it does.

Its words are a master (or a Connect server, `sc://host:port`) and JSON arguments.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from busy import planned

from orbitmq.spark import commit_progress, queue_progress, spark_session
from orbitmq.spark.jobs.archive.running import ArchiveOptions
from orbitmq.spark.jobs.archive.running import run as run_archive
from orbitmq.spark.jobs.audit import auditing
from orbitmq.spark.jobs.job import JobSetup
from orbitmq.spark.jobs.replay import ReplayOptions
from orbitmq.spark.jobs.replay import run as run_replay
from orbitmq.spark.lake.storage import LakeLocation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ON_TWO_WORKERS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": os.environ.get("SPARK_SUBMIT_OPTS", ""),
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "300s",
    "spark.sql.shuffle.partitions": "2",
}


def write(spark: SparkSession, given: dict[str, Any]) -> dict[str, Any]:
    """A thousand messages, by a write that is begun again under the same name: it sends nothing twice."""
    rows = spark.range(0, 1000, 1, 4).selectExpr("concat('row ', id) AS body", "concat('k', id) AS keys")
    sink = rows.write.format("orbitmq").options(
        namesrv=given["namesrv"], topic=given["topic"], idempotent="true", writeId=f"{given['topic']}-1"
    )
    sink.mode("append").save()
    sink.mode("append").save()
    return {}


def read(spark: SparkSession, given: dict[str, Any]) -> dict[str, Any]:
    """The topic as a batch."""
    topic = _topic(spark, given, given["topic"], minPartitions=8)
    seen = topic.selectExpr("count(*)", "count(DISTINCT msgId, body)", "count(DISTINCT keys)").collect()[0]
    told: dict[str, Any] = {"batch": list(seen)}
    if not given.get("connect"):
        told["executors"] = len(set(topic.select("queueOffset").rdd.mapPartitions(_executor).collect()))
    return told


def _executor(rows: Iterator[Any]) -> Iterator[int]:
    """The process that an executor starts its Python workers from."""
    for _ in rows:
        pass
    yield os.getppid()


def follow(spark: SparkSession, given: dict[str, Any]) -> dict[str, Any]:
    """The topic as a stream into files, in several micro-batches."""
    folder = given["folder"]
    options = {
        "namesrv": given["namesrv"],
        "subscribe": given["topic"],
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "400",
        "groupId": given["group"],
    }
    query = planned(
        lambda: (
            spark.readStream.format("orbitmq")
            .options(**options)
            .load()
            .selectExpr("queueId", "queueOffset", "body")
            .writeStream.format("parquet")
            .option("path", f"{folder}/files")
            .option("checkpointLocation", f"{folder}/checkpoint")
            .trigger(availableNow=True)
            .start()
        )
    )
    query.awaitTermination()
    files = spark.read.parquet(f"{folder}/files")
    return {
        "files": list(files.selectExpr("count(*)", "count(DISTINCT queueId, queueOffset)").collect()[0]),
        "micro_batches": sum(progress.numInputRows > 0 for progress in query.recentProgress),
        "lag": sum(one.lag for one in queue_progress(query.lastProgress)),
        "committed": commit_progress(query.lastProgress, options),
    }


def archive_and_replay(spark: SparkSession, given: dict[str, Any]) -> dict[str, Any]:
    """The topic to a lake, and two of its queues from there to another topic, by a job that is run twice."""
    namesrv, topic, target, folder = (given[name] for name in ("namesrv", "topic", "target", "folder"))
    setup = JobSetup(namesrv, checkpoint=f"{folder}/replay")
    lake = LakeLocation(f"{folder}/lake")
    archived = run_archive(ArchiveOptions(lake, (topic,), setup=setup, batch_messages=400, compact=True))
    again = ReplayOptions(topic, target, setup, lake=f"{folder}/lake", where="queueId < 2")
    run_replay(again)
    done_before = run_replay(again).done_before
    replayed = _topic(spark, given, target).selectExpr("count(*)", "count(DISTINCT body)").collect()[0]
    return {
        "archived": archived.messages,
        "batches": archived.batches,
        "replayed": list(replayed),
        "of_two_queues": _topic(spark, given, topic).where("queueId < 2").count(),
        "done_before": done_before,
    }


def audit(spark: SparkSession, given: dict[str, Any]) -> dict[str, Any]:
    """A store, if one is given, by a job that breaks off at its end and is begun again."""
    if "store" not in given:
        return {}
    checkpoint = f"{given['folder']}/audit"
    asked = auditing.AuditOptions((given["store"],), JobSetup(checkpoint=checkpoint), ("records", "queues"))
    broken = patch.object(auditing, "summary", side_effect=ConnectionResetError)
    with broken, contextlib.suppress(ConnectionResetError):
        auditing.run(asked)
    kept = len(os.listdir(f"{checkpoint}/pieces"))
    return {"kept": kept, "errors": auditing.run(asked).errors}


def _topic(spark: SparkSession, given: dict[str, Any], topic: str, **options: Any) -> Any:
    return spark.read.format("orbitmq").options(namesrv=given["namesrv"], subscribe=topic, **options).load()


PARTS = (write, read, follow, archive_and_replay, audit)


def main(where: str, text: str) -> None:
    given = json.loads(text)
    if where.startswith("sc://"):
        given["connect"] = True
        spark = spark_session("driver", remote=where)
    else:
        spark = spark_session("driver", master=where, conf=ON_TWO_WORKERS)
        spark.sparkContext.setLogLevel("ERROR")
    told: dict[str, Any] = {}
    for part in PARTS[: given.get("parts")]:
        told |= part(spark, given)
    spark.stop()
    print(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
