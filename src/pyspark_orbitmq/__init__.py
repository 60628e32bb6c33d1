"""Found by Spark, which imports every module named `pyspark_*` and registers its `DefaultSource`."""

from orbitmq.spark.source import DefaultSource

__all__ = ["DefaultSource"]
