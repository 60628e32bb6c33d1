"""A driver that writes a topic, archives it and replays it from the lake, and prints what it saw.

Its words are a master (or a Connect server, `sc://host:port`) and JSON arguments.
"""

from __future__ import annotations

import json
import sys

from driver_read import ON_TWO_WORKERS

from orbitmq.spark import spark_session
from orbitmq.spark.jobs.archive.running import ArchiveOptions
from orbitmq.spark.jobs.archive.running import run as run_archive
from orbitmq.spark.jobs.job import JobSetup
from orbitmq.spark.jobs.replay import ReplayOptions
from orbitmq.spark.jobs.replay import run as run_replay
from orbitmq.spark.lake.storage import LakeLocation


def main(where: str, text: str) -> None:
    given = json.loads(text)
    namesrv, topic, target, folder = (given[name] for name in ("namesrv", "topic", "target", "folder"))
    remote = where if where.startswith("sc://") else None
    if remote:
        spark = spark_session("jobs", remote=remote)
    else:
        spark = spark_session("jobs", master=where, conf=ON_TWO_WORKERS)
        spark.sparkContext.setLogLevel("ERROR")
    rows = spark.range(0, 1000, 1, 4).selectExpr("concat('row ', id) AS body", "concat('k', id) AS keys")
    sink = rows.write.format("orbitmq").options(
        namesrv=namesrv, topic=topic, idempotent="true", writeId=f"{topic}-1"
    )
    sink.mode("append").save()
    sink.mode("append").save()  # Begun again under the same name, it sends nothing twice.
    setup = JobSetup(namesrv, remote=remote, checkpoint=f"{folder}/replay")
    lake = LakeLocation(f"{folder}/lake")
    archived = run_archive(ArchiveOptions(lake, (topic,), setup=setup, batch_messages=400, compact=True))
    run_replay(ReplayOptions(topic, target, setup, lake=f"{folder}/lake", where="queueId < 2"))
    again = run_replay(ReplayOptions(topic, target, setup, lake=f"{folder}/lake", where="queueId < 2"))
    stored = spark.read.format("orbitmq").options(namesrv=namesrv)
    topics = [stored.option("subscribe", name).load() for name in (topic, target)]
    told = {
        "archived": archived.messages,
        "batches": archived.batches,
        "topics": [list(one.selectExpr("count(*)", "count(DISTINCT body)").collect()[0]) for one in topics],
        "of_two_queues": topics[0].where("queueId < 2").count(),
        "done_before": again.done_before,
    }
    spark.stop()
    print(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
