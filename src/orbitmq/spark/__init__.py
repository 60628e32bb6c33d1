"""OrbitMQ for PySpark: `spark.read.format("orbitmq")`.

Spark finds the source by itself through the module `pyspark_orbitmq`. Where it does not (one broken
`pyspark_*` package hides them all), `register(spark)` names it. Nothing here imports PySpark before it is
needed, so that the compiled scanner can be used without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from orbitmq.spark.session import local_session
    from orbitmq.spark.source import DefaultSource

__all__ = ["DefaultSource", "local_session", "register"]


def register(spark: SparkSession) -> None:
    """Makes `spark.read.format("orbitmq")` work in this session, whatever auto-registration found."""
    from orbitmq.spark.source import DefaultSource

    spark.dataSource.register(DefaultSource)


def __getattr__(name: str) -> Any:
    if name == "DefaultSource":
        from orbitmq.spark.source import DefaultSource

        return DefaultSource
    if name == "local_session":
        from orbitmq.spark.session import local_session

        return local_session
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
