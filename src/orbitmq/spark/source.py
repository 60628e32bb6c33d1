"""The data source as Spark sees it. Made on the driver, pickled, and used again in every worker.

Every Spark session imports this module to learn the source's name: what talks to brokers is imported where
it is first needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from orbitmq.spark.errors import BadOption
from orbitmq.spark.read.columns import columns_asked, ddl
from orbitmq.spark.read.options import ReadOptions, columns_of
from orbitmq.spark.read.partition import QueuePartition
from orbitmq.spark.read.planning import split

if TYPE_CHECKING:
    from orbitmq.spark.read.pushdown import Pushed
    from orbitmq.spark.sink.writer import BatchWriter, StreamWriter
    from orbitmq.spark.stream.streaming import StreamReader


class DefaultSource(DataSource):
    """`spark.read.format("orbitmq").option("subscribe", "TOPIC").load()`."""

    @classmethod
    def name(cls) -> str:
        """The name for `format(...)`."""
        return "orbitmq"

    def schema(self) -> str | StructType:
        """All columns, or those of the option `columns`; asked for only when the user gives no schema."""
        if "provider" in self.options:
            from orbitmq.spark.tables import schema_of_new

            table = schema_of_new(self.options)
            if table is not None:
                return table
        if _reads_files(self.options):
            from orbitmq.spark.offline import offline_ddl

            return offline_ddl(self.options)
        return ddl(columns_of(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader that builds exactly the columns of `schema`."""
        options = _read_options(self.options, schema)
        if _reads_files(options):
            from orbitmq.spark.offline import offline_reader

            return offline_reader(options, schema)
        return BatchReader(ReadOptions.parse(options), columns_asked(schema))

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802 -- Spark's name
        """The same, following the topics."""
        from orbitmq.spark.stream.streaming import StreamReader

        options = _read_options(self.options, schema)
        if _reads_files(options):
            raise BadOption("files are read in batches only: to follow a topic, set namesrv and subscribe")
        return StreamReader(ReadOptions.parse(options, streaming=True), columns_asked(schema))

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """The writer of a data frame to topics."""
        from orbitmq.spark.sink.writer import batch_writer

        return batch_writer(_write_options(self.options, schema), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802 -- Spark's name
        """The writer of a stream to topics."""
        from orbitmq.spark.sink.writer import stream_writer

        return stream_writer(_write_options(self.options, schema), schema, overwrite)


class PushdownSource(DefaultSource):
    """The same with filter pushdown.

    Spark refuses to plan a reader that has it while `spark.sql.python.filterPushdown.enabled` is off, which
    is its default: `orbitmq.spark.register` takes this class where it is on.
    """

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader that takes predicates on queues, offsets, store times and tags."""
        options = _read_options(self.options, schema)
        if _reads_files(options):
            return super().reader(schema)
        return PushdownReader(ReadOptions.parse(options), columns_asked(schema))


def _reads_files(options: Mapping[str, str]) -> bool:
    """True if a store's folder is to be read without a broker."""
    return any(name.lower() in ("path", "paths") for name in options)


def _read_options(given: Mapping[str, str], schema: StructType) -> Mapping[str, str]:
    from orbitmq.spark.tables import read_options

    return read_options(given, schema)


def _write_options(given: Mapping[str, str], schema: StructType) -> Mapping[str, str]:
    from orbitmq.spark.tables import write_options

    return write_options(given, schema)


class BatchReader(DataSourceReader):
    """Plans on the driver, reads in the workers."""

    def __init__(self, options: ReadOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns
        self._pushed: Pushed | None = None

    def partitions(self) -> list[InputPartition]:
        """One partition per queue that has messages, cut further as the options ask.

        Raises BadOption, DataLost, SparkSourceError, NetError, BrokerRefused.
        """
        from orbitmq.spark.read.cluster import Cluster
        from orbitmq.spark.read.selecting import ranges_of_batch, selected_queues

        options, pushed = self._options, self._pushed
        with Cluster(options.namesrv, options.connecting) as cluster:
            queues = selected_queues(cluster, options)
            if options.sql is not None and queues:
                cluster.check_expression(
                    queues[0], options.subscription, options.expression_type, options.group
                )
            ranges = ranges_of_batch(cluster, queues, options)
            if pushed is not None:
                left = set(pushed.queues(queues))
                ranges = [work for work in ranges if work.queue in left]
                ranges = pushed.ranges(cluster, ranges, options.group)
        return [QueuePartition(work) for work in split(ranges, options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one partition, in queue order, in batches of about `maxBatchBytes`."""
        from orbitmq.spark.read.reading import read_range

        options = self._options if self._pushed is None else self._pushed.options(self._options)
        # Spark has a stand-in for a plan without partitions; and tags may exclude each other.
        if isinstance(partition, QueuePartition) and options is not None:
            yield from read_range(partition.work, options, self._columns)


class PushdownReader(BatchReader):
    """A batch reader that gets its predicates from Spark."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 -- Spark's name
        """Takes what chooses queues, offsets, store times and tags; gives back what Spark has to apply."""
        from orbitmq.spark.read.pushdown import Pushed

        self._pushed = Pushed()
        return list(self._pushed.push(filters))
