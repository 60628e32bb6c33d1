"""Checks before Spark starts: its start takes seconds, and its own errors say less."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from orbitmq.spark.errors import BadOption
from orbitmq.spark.jobs.failures import JobFailed
from orbitmq.spark.jobs.job import JobSetup
from orbitmq.spark.lake.errors import LakeError
from orbitmq.spark.lake.lake import load
from orbitmq.spark.lake.storage import LakeLocation, LocalStorage, Storage
from orbitmq.spark.read.cluster import Cluster
from orbitmq.spark.read.options import ReadOptions
from orbitmq.spark.sink.routes import Routes

SPARK_LOG = "_spark_metadata"
"""Subfolder in which Spark lists the files of a folder that a stream has written."""


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


def need_lake(place: str, topics: Iterable[str]) -> None:
    """Raises LakeError where there is no lake, BadOption for topics that it does not have."""
    state = load(LakeLocation(place).open())
    if not state.number:
        raise LakeError(f"{place} holds no lake: `orbitmq job archive` makes one")
    missing = [topic for topic in topics if topic not in state.topics]
    if missing:
        raise BadOption(f"the lake {place} has no topic {', '.join(missing)}")


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


def is_begun(checkpoint: Storage) -> bool:
    """True if Spark has planned a batch with it; the folders in it are made before that."""
    return any(name.isdigit() for name in checkpoint.names("offsets"))


def was_written(folder: Path) -> bool:
    """True if Spark's log of a folder holds a batch; the log's own folder is made before that.

    The log knows batches by their numbers alone: the first ones of another checkpoint are taken for done
    there, and left out without a word.
    """
    return any(name[0].isdigit() for name in LocalStorage(folder).names(SPARK_LOG))


def names_towards(folder: Path, inner: Path | None) -> set[str]:
    """The name in a folder under which another path lies; empty for one that is elsewhere."""
    if inner is None or not inner.resolve().is_relative_to(folder.resolve()):
        return set()
    return set(inner.resolve().relative_to(folder.resolve()).parts[:1])


def need_order(since_ms: int | None, until_ms: int | None) -> None:
    """Raises JobFailed for a stretch of time that ends before it begins."""
    if since_ms is not None and until_ms is not None and since_ms >= until_ms:
        raise JobFailed("--since is not before --until: there is nothing between them")
