"""OrbitMQ for PySpark: `spark.read.format("orbitmq")`.

Spark finds the source by itself through the module `pyspark_orbitmq`. If it does not (one broken
`pyspark_*` package hides them all), `register(spark)` names it. Nothing here imports PySpark before it is
needed, so that the compiled scanner can be used without it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from orbitmq.spark.read.decoding import decoded
    from orbitmq.spark.session.sessions import local_session, spark_session
    from orbitmq.spark.session.start_query import started
    from orbitmq.spark.source import DefaultSource
    from orbitmq.spark.stream.progress import ProgressListener, commit_progress, queue_progress

__all__ = [
    "DefaultSource",
    "ProgressListener",
    "commit_progress",
    "decoded",
    "local_session",
    "queue_progress",
    "register",
    "spark_session",
    "started",
]

_HOMES = {
    "DefaultSource": "source",
    "ProgressListener": "stream.progress",
    "commit_progress": "stream.progress",
    "decoded": "read.decoding",
    "local_session": "session.sessions",
    "queue_progress": "stream.progress",
    "spark_session": "session.sessions",
    "started": "session.start_query",
}


def register(spark: SparkSession) -> None:
    """Makes `spark.read.format("orbitmq")` work in this session, whatever auto-registration found.

    Where `spark.sql.python.filterPushdown.enabled` is true in the session, batch reads take Spark's
    predicates on queues, offsets, store times and tags from then on. Call it again after changing it.
    """
    from orbitmq.spark.source import DefaultSource, PushdownSource

    enabled = spark.conf.get("spark.sql.python.filterPushdown.enabled", "false") or "false"
    spark.dataSource.register(PushdownSource if enabled.lower() == "true" else DefaultSource)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"orbitmq.spark.{_HOMES[name]}"), name)
