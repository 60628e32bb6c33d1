"""The Spark source of stores: a schema, and a reader that plans on the driver and scans in the workers."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from orbitmq.spark.errors import BadOption, SparkSourceError
from orbitmq.spark.offline.columns import (
    BAD_RECORD,
    BAD_RECORD_TYPE,
    BY_NAME,
    PHYSICAL_OFFSET,
    arrow_schema,
    arrow_type,
    ddl,
)
from orbitmq.spark.offline.options import COLUMN, ONLY, OfflineOptions
from orbitmq.spark.offline.planning import BadPlace, Work, plan, without_queues
from orbitmq.spark.offline.scanning import RangeReader
from orbitmq.spark.read.columns import BROKER_NAME, columns_asked
from orbitmq.spark.read.scanner import RecordScanner


class BadRecords(SparkSourceError):
    """A store holds something other than sound records, and it was not asked for."""


def offline_ddl(options: Mapping[str, str]) -> str:
    """The schema of a read, as Spark's DDL. Raises BadOption."""
    return ddl(OfflineOptions.parse(options).columns)


def offline_reader(options: Mapping[str, str], schema: StructType) -> OfflineReader:
    """A reader that builds exactly the columns of `schema`. Raises BadOption."""
    names = columns_asked(schema, BY_NAME)
    return OfflineReader(OfflineOptions.parse(options), names)


@dataclass(slots=True)
class LogPartition(InputPartition):
    """The ranges one task reads."""

    work: Work


class OfflineReader(DataSourceReader):
    """Plans on the driver, reads in the workers."""

    def __init__(self, options: OfflineOptions, columns: tuple[str, ...]) -> None:
        if options.bad_records == ONLY and BAD_RECORD not in columns:
            raise BadOption(f"badRecords={ONLY} shows them in the column {BAD_RECORD}: read it")
        self._options = options
        self._columns = columns

    def partitions(self) -> Sequence[InputPartition]:
        """Ranges of about `splitBytes`. Raises BadOption, SparkSourceError, OSError."""
        for absent in without_queues(self._options):
            print(f"orbitmq: {absent}", file=sys.stderr, flush=True)
        return [LogPartition(work) for work in plan(self._options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The messages of one partition, in the order of the log, in batches of about `maxBatchBytes`.

        Raises BadRecords, DataLost, SparkSourceError, OSError.
        """
        if isinstance(partition, LogPartition):  # else Spark's stand-in for a plan without partitions
            yield from read_work(partition.work, self._options, self._columns)


def read_work(work: Work, options: OfflineOptions, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """The messages of some ranges, and the bad places met, as batches with exactly these columns."""
    shown = options.bad_records == ONLY or (options.bad_records == COLUMN and BAD_RECORD in columns)
    scanned = tuple(name for name in columns if name not in (BROKER_NAME, BAD_RECORD)) or ("queueOffset",)
    scanner = RecordScanner(
        scanned,
        accept=None if options.every_topic else options.accepts,
        tags=options.tags,
        from_time_ms=options.from_time_ms,
        to_time_ms=options.to_time_ms,
        max_body_bytes=options.max_inflated_body_bytes,
    )
    for place, broker_name in work.bad:
        yield _bad_batch([place], broker_name, columns, shown)
    broker_name = None
    for one in work.ranges:
        if scanner.rows and one.broker_name != broker_name:
            yield _with_constants(scanner.take(), broker_name, columns)
        broker_name = one.broker_name
        reader = RangeReader(
            one,
            scanner,
            max_batch_bytes=options.max_batch_bytes,
            storage_options=dict(options.storage_options),
            fail_on_data_loss=options.fail_on_data_loss,
        )
        for batch in reader:
            if reader.bad:
                yield _bad_batch(reader.bad, broker_name, columns, shown)
                reader.bad.clear()
            yield _with_constants(batch, broker_name, columns)
        if reader.bad:
            yield _bad_batch(reader.bad, broker_name, columns, shown)
    if scanner.rows:
        yield _with_constants(scanner.take(), broker_name, columns)


def _with_constants(
    batch: pa.RecordBatch, broker_name: str | None, columns: tuple[str, ...]
) -> pa.RecordBatch:
    if columns == tuple(batch.schema.names):
        return batch
    made = {
        BROKER_NAME: lambda: pa.repeat(pa.scalar(broker_name, pa.string()), batch.num_rows),
        BAD_RECORD: lambda: pa.nulls(batch.num_rows, BAD_RECORD_TYPE),
    }
    arrays = [made[name]() if name in made else batch.column(name) for name in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(columns))


def _bad_batch(
    places: Sequence[BadPlace], broker_name: str | None, columns: tuple[str, ...], shown: bool
) -> pa.RecordBatch:
    """Rows that stand for bad places. Raises BadRecords where they would not be seen."""
    if not shown:
        place = places[0]
        raise BadRecords(
            f"{place.file}: {place.reason} ({place.size_bytes} bytes at physical offset "
            f"{place.physical_offset}). Read the column {BAD_RECORD} to get bad records as rows, with "
            f"badRecords={COLUMN}, or a table of them alone, with badRecords={ONLY}"
        )
    rows = [
        {
            "physicalOffset": place.physical_offset,
            "sizeBytes": place.size_bytes,
            "file": place.file,
            "reason": place.reason,
        }
        for place in places
    ]
    made = {
        BROKER_NAME: lambda: pa.array([broker_name] * len(rows), pa.string()),
        BAD_RECORD: lambda: pa.array(rows, BAD_RECORD_TYPE),
        PHYSICAL_OFFSET: lambda: pa.array([place.physical_offset for place in places], pa.int64()),
    }
    arrays = [made[name]() if name in made else pa.nulls(len(rows), arrow_type(name)) for name in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(columns))
