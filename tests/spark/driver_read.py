"""A driver that reads a topic as a batch and as a stream, and prints what it saw: MASTER ARGUMENTS(JSON)."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from typing import Any

from busy import planned

from orbitmq.spark import commit_progress, queue_progress, spark_session

ON_TWO_WORKERS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "300s",
    "spark.sql.shuffle.partitions": "2",
}


def executor(rows: Iterator[Any]) -> Iterator[int]:
    """The process that an executor starts its Python workers from."""
    for _ in rows:
        pass
    yield os.getppid()


def main(master: str, text: str) -> None:
    given = json.loads(text)
    folder, options = given["folder"], given["options"]
    spark = spark_session("reader", master=master, conf=ON_TWO_WORKERS)
    spark.sparkContext.setLogLevel("ERROR")
    topic = spark.read.format("orbitmq").options(**options, minPartitions=8).load()
    seen = topic.selectExpr("count(*)", "count(distinct msgId, body)", "sum(length(body))").collect()[0]
    executors = set(topic.select("queueOffset").rdd.mapPartitions(executor).collect())
    more = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "400", "groupId": given["group"]}
    query = planned(
        lambda: (
            spark.readStream.format("orbitmq")
            .options(**options, **more)
            .load()
            .selectExpr("queueId", "queueOffset", "body")
            .writeStream.format("parquet")
            .option("path", f"{folder}/lake")
            .option("checkpointLocation", f"{folder}/checkpoint")
            .trigger(availableNow=True)
            .start()
        )
    )
    query.awaitTermination()
    lake = spark.read.parquet(f"{folder}/lake")
    told = {
        "batch": list(seen),
        "executors": len(executors),
        "lake": list(lake.selectExpr("count(*)", "count(distinct queueId, queueOffset)").collect()[0]),
        "micro_batches": sum(progress.numInputRows > 0 for progress in query.recentProgress),
        "lag": sum(one.lag for one in queue_progress(query.lastProgress)),
        "committed": commit_progress(query.lastProgress, {**options, **more}),
    }
    spark.stop()
    print(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
