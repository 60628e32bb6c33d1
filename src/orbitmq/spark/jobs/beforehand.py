"""What can be found wrong before Spark starts: it takes seconds to, and says less about it afterwards."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from orbitmq.spark.cluster import Cluster
from orbitmq.spark.jobs.failures import JobFailed
from orbitmq.spark.jobs.job import JobSetup
from orbitmq.spark.options import ReadOptions
from orbitmq.spark.sink.routes import Routes


def need_topics(setup: JobSetup, topics: Iterable[str]) -> None:
    """Raises BadOption for topics that are none, SparkSourceError where no broker of one can be asked."""
    wanted = tuple(topics)
    asked = ReadOptions.parse({**setup.source_options, "subscribe": ",".join(wanted)})
    with Cluster(asked.namesrv, asked.connecting) as cluster:
        cluster.readable_queues(wanted)


def need_target(setup: JobSetup, topic: str) -> None:
    """Raises BadOption for a topic that is none, WriteFailed where it cannot be sent to now."""
    asked = ReadOptions.parse({**setup.source_options, "subscribe": topic})
    Routes(asked.namesrv, asked.connecting).queues(topic)


def need_trace(setup: JobSetup, place: str) -> Path | None:
    """The table of trace records in a folder of the job `trace`; None where `place` is a topic.

    Raises JobFailed for any other folder, and what `need_topics` raises.
    """
    table = Path(place) / "records"
    if table.is_dir():
        return table
    if os.sep in place or Path(place).is_dir():
        raise JobFailed(f"{place} is no folder of `orbitmq job trace --tables`: it has no records")
    need_topics(setup, [place])
    return None


def need_order(since_ms: int | None, until_ms: int | None) -> None:
    """Raises JobFailed for a stretch of time that ends before it begins."""
    if since_ms is not None and until_ms is not None and since_ms >= until_ms:
        raise JobFailed("--since is not before --until: there is nothing between them")
