"""A driver that has one executor of little memory go through a topic in every way there is, and prints what
came out: MASTER ARGUMENTS(JSON)."""

from __future__ import annotations

import json
import sys
from typing import Any

from busy import planned

from orbitmq.spark import spark_session
from orbitmq.spark.jobs.archive.running import ArchiveOptions, run
from orbitmq.spark.jobs.job import JobSetup
from orbitmq.spark.lake import read_lake
from orbitmq.spark.lake.storage import LakeLocation

TOPIC = "long"
SEEN = ("count(*)", "sum(length(body))")


def main(master: str, text: str) -> None:
    given = json.loads(text)
    folder = given["folder"]
    conf = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.cores": "1",
        "spark.cores.max": "1",
        "spark.executor.memory": given["memory"],
        "spark.sql.shuffle.partitions": "1",
    }
    spark = spark_session("memory", master=master, conf=conf)
    spark.sparkContext.setLogLevel("ERROR")
    topic = {"namesrv": given["namesrv"], "subscribe": TOPIC}

    def seen(frame: Any) -> list[int]:
        return list(frame.selectExpr(*SEEN).collect()[0])

    # A single micro-batch with all there is; what comes out is small enough to be kept by the driver.
    query = planned(
        lambda: (
            spark.readStream.format("orbitmq")
            .options(**topic, startingOffsets="earliest")
            .load()
            .selectExpr(*SEEN)
            .writeStream.format("memory")
            .queryName("seen")
            .outputMode("complete")
            .option("checkpointLocation", f"{folder}/checkpoint")
            .trigger(availableNow=True)
            .start()
        )
    )
    query.awaitTermination()
    run(ArchiveOptions(LakeLocation(f"{folder}/lake"), (TOPIC,), setup=JobSetup(given["namesrv"])))
    told = {
        "batch": seen(spark.read.format("orbitmq").options(**topic).load()),
        "stream": list(spark.table("seen").collect()[0]),
        "files": seen(spark.read.format("orbitmq").option("subscribe", TOPIC).load(given["store"])),
        "lake": seen(read_lake(spark, f"{folder}/lake")),
    }
    executors = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1  # the driver is one, too
    spark.stop()
    print(json.dumps({"seen": told, "executors": executors}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
