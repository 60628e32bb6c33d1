"""The stream reader as Spark sees it. One lives on the driver for each query; others read in the workers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from orbitmq.spark.read.cluster import Cluster
from orbitmq.spark.read.options import ReadOptions
from orbitmq.spark.read.partition import QueuePartition
from orbitmq.spark.read.positions import QueueOffsets
from orbitmq.spark.stream.following import Follower
from orbitmq.spark.stream.groups import GroupOffsets


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows topics. Offsets are those of the options: `{"topic": {"broker|queueId": offset}}`."""

    def __init__(self, options: ReadOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns
        # Workers get a copy of this object, so it holds no connection before the driver asks something.
        self._follows: Follower | None = None
        self._commits: GroupOffsets | None = None

    @property
    def _follower(self) -> Follower:
        if self._follows is None:
            options = self._options
            self._follows = Follower(options, Cluster(options.namesrv, options.connecting))
        return self._follows

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 -- Spark's name
        """First offsets of a new query: startingOffsets and its relatives."""
        return self._follower.initial()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """The limit that Spark passes to `latestOffset`, unless its trigger takes everything."""
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.min_offsets_per_trigger is not None:
            return ReadMinRows(self._options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Takes down where queues end now."""
        self._follower.aim()

    def latestOffset(self, start: QueueOffsets, limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """The end of the next micro-batch."""
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return self._follower.latest(start, most, at_once=isinstance(limit, ReadAllAvailable))

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """The end of every queue, for the progress of the query."""
        return self._follower.ends() or None

    def partitions(self, start: QueueOffsets, end: QueueOffsets) -> list[InputPartition]:
        """The tasks of one micro-batch; of one that is repeated after a crash as well."""
        return [QueuePartition(work) for work in self._follower.ranges(start, end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one partition, in queue order, in batches of about `maxBatchBytes`."""
        from orbitmq.spark.read.reading import read_range

        if isinstance(partition, QueuePartition):
            yield from read_range(partition.work, self._options, self._columns)

    def commit(self, end: QueueOffsets) -> None:
        """Writes the group's offsets to the brokers, where `groupId` is set.

        Spark calls it when the next micro-batch begins; the module `progress` does so for the last one.
        """
        if not self._options.commits:
            return
        if self._commits is None:
            self._commits = GroupOffsets(self._options)
        self._commits.write(end)

    def stop(self) -> None:
        """Closes connections; the process ends with the query anyway."""
        if self._follows is not None:
            self._follows.close()
        if self._commits is not None:
            self._commits.close()
