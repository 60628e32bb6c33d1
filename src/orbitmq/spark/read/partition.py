"""The part of a read that Spark hands to one task."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

from orbitmq.spark.read.planning import OffsetRange


@dataclass(slots=True)
class QueuePartition(InputPartition):
    """The offsets one task reads."""

    work: OffsetRange
