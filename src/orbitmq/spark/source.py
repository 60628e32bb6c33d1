"""The data source as Spark sees it. Made on the driver, pickled, and used again in every worker.

Every Spark session imports this module to learn the source's name: what talks to brokers is imported where
it is first needed.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from orbitmq.spark.arrow_cy import RecordScanner
from orbitmq.spark.columns import BROKER_NAME, BY_NAME, arrow_schema, ddl
from orbitmq.spark.errors import BadOption
from orbitmq.spark.options import ReadOptions, check_columns
from orbitmq.spark.planning import OffsetRange, Queue, ranges_to_read, split


class DefaultSource(DataSource):
    """`spark.read.format("orbitmq").option("subscribe", "TOPIC").load()`."""

    @classmethod
    def name(cls) -> str:
        """What stands in `format(...)`."""
        return "orbitmq"

    def schema(self) -> str:
        """All columns, or those of the option `columns`; asked for only when the user gives no schema."""
        return ddl(ReadOptions.parse(self.options).columns)

    def reader(self, schema: StructType) -> BatchReader:
        """A reader that builds exactly the columns of `schema`."""
        return BatchReader(ReadOptions.parse(self.options), _columns_of(schema))


def _columns_of(schema: StructType) -> tuple[str, ...]:
    """The columns of a user's schema, whose types have to be ours. Raises BadOption."""
    names = tuple(field.name for field in schema.fields)
    check_columns(names)
    for field in schema.fields:
        ours = BY_NAME[field.name].ddl
        if field.dataType.simpleString() != ours:
            raise BadOption(f"column {field.name} is {ours}, not {field.dataType.simpleString()}")
    return names


@dataclass(slots=True)
class QueuePartition(InputPartition):
    """The offsets one task reads."""

    work: OffsetRange


class BatchReader(DataSourceReader):
    """Plans on the driver, reads in the workers."""

    def __init__(self, options: ReadOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> list[InputPartition]:
        """One partition per queue that has messages, cut further as the options ask.

        Raises BadOption, DataLost, SparkSourceError.
        """
        from orbitmq.spark.cluster import queue_bounds, readable_queues

        options = self._options
        connecting = options.connecting
        bounds = queue_bounds(readable_queues(options.namesrv, options.topics, connecting), connecting)
        ranges = ranges_to_read(bounds, options.starting, options.ending, options.fail_on_data_loss)
        return [QueuePartition(work) for work in split(ranges, options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one partition, in queue order, in batches of about `maxBatchBytes`."""
        if not isinstance(partition, QueuePartition):  # Spark's stand-in for a plan without partitions
            return
        yield from read_range(partition.work, self._options, self._columns)


def read_range(work: OffsetRange, options: ReadOptions, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """Pulls the offsets of `work` and yields their messages as Arrow batches."""
    from orbitmq.spark.pulling import QueuePuller, log_loss, refuse_loss

    scanned = tuple(name for name in columns if name != BROKER_NAME) or ("queueOffset",)
    scanner = RecordScanner(scanned, tags=frozenset(options.tags) or None)
    finish = functools.partial(_with_broker_name, queue=work.queue, columns=columns)
    puller = QueuePuller(
        work,
        group=options.group,
        subscription=options.subscription,
        connecting=options.connecting,
        on_loss=refuse_loss if options.fail_on_data_loss else log_loss,
    )
    for records, from_queue_offset, to_queue_offset in puller:
        scanner.scan(records, from_queue_offset, to_queue_offset)
        if scanner.size_bytes >= options.max_batch_bytes:
            yield finish(scanner.take())
    if scanner.rows:
        yield finish(scanner.take())


def _with_broker_name(batch: pa.RecordBatch, *, queue: Queue, columns: tuple[str, ...]) -> pa.RecordBatch:
    if BROKER_NAME not in columns:
        return batch
    name = pa.repeat(pa.scalar(queue.broker_name, pa.string()), batch.num_rows)
    arrays = [name if column == BROKER_NAME else batch.column(column) for column in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(columns))
