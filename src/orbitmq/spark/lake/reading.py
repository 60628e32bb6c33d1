"""A lake as a data frame: exactly the files that its manifests name."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date as Date  # noqa: N812 -- `date` is a column here
from typing import TYPE_CHECKING, Any

from orbitmq.spark.errors import BadOption
from orbitmq.spark.lake.errors import LakeError
from orbitmq.spark.lake.lake import load_with_newest, locate
from orbitmq.spark.lake.state import LakeFile, Schema
from orbitmq.spark.lake.storage import LakeLocation
from orbitmq.spark.read.columns import BY_NAME, NAMES
from orbitmq.spark.read.values import nearest

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

ROWS_AT_ONCE = 4096
FILES_A_TASK = 4


def read_lake(
    spark: SparkSession,
    location: str | LakeLocation,
    *,
    topics: Sequence[str] | None = None,
    first_date: str | None = None,
    last_date: str | None = None,
    keep: Callable[[LakeFile], bool] | None = None,
    columns: Sequence[str] | None = None,
) -> DataFrame:
    """The messages of a lake, each once, in the columns of the source and `date`.

    `topics` and the dates (YYYY-MM-DD, both inclusive, UTC) leave out files, and so does `keep`, which is
    asked for each one. The files to read are fixed now: later commits are not seen, and after a compaction
    Spark reports files that are gone; read again then. Raises LakeError, LakeDamaged, BadOption.
    """
    where = LakeLocation(location) if isinstance(location, str) else location
    storage = where.open()
    state, newest = load_with_newest(storage)
    if not state.number:
        raise LakeError(f"{where.url} holds no lake: `orbitmq job archive` makes one")
    for topic in topics or ():
        if topic not in state.topics:
            raise LakeError(f"{where.url} holds nothing of topic {topic}{nearest(topic, state.topics)}")
    schema = _frame_schema(state.schema)
    names = tuple(columns or (name for name, _ in schema))
    unknown = [name for name in names if name not in dict(schema)]
    if unknown:
        raise BadOption(f"the lake has no column {', '.join(unknown)}: {', '.join(dict(schema))}")

    def wanted(file: LakeFile) -> bool:
        return (
            (topics is None or file.topic in topics)
            and (first_date is None or file.date >= first_date)
            and (last_date is None or file.date <= last_date)
            and (keep is None or keep(file))
        )

    placed, staged = locate(storage, state, newest)
    here, elsewhere = [*filter(wanted, placed)], [*filter(wanted, staged)]
    if where.is_local and here:
        frame = _by_spark(spark, [storage.full(file.path) for file in here], storage.full(""), schema)
        frame = frame.select(*names)
        return frame.unionByName(_by_workers(spark, where, elsewhere, schema, names)) if elsewhere else frame
    return _by_workers(spark, where, [*here, *elsewhere], schema, names)


def _frame_schema(recorded: Schema) -> Schema:
    """The recorded columns with those of the path, in the order that the source has them."""
    known = {**dict(recorded), "topic": "string", "date": "date"}
    order = [name for name in NAMES if name in known]
    return tuple((name, known[name]) for name in [*order, *(name for name in known if name not in order)])


def _ddl(schema: Schema) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in schema)


def _by_spark(spark: SparkSession, paths: list[str], base: str, schema: Schema) -> DataFrame:
    """Spark's own Parquet reader: it prunes columns and row groups."""
    return spark.read.schema(_ddl(schema)).option("basePath", base).parquet(*paths)


def _by_workers(
    spark: SparkSession, where: LakeLocation, files: Sequence[LakeFile], schema: Schema, names: Sequence[str]
) -> DataFrame:
    """Reads files that Spark itself cannot reach: by Arrow in the workers, through fsspec."""
    kinds = dict(schema)
    ddl = _ddl(tuple((name, kinds[name]) for name in names))
    if not files:
        return spark.createDataFrame([], ddl)
    listed = [(file.path, file.topic, file.date) for file in sorted(files, key=lambda one: one.path)]
    tasks = [json.dumps(listed[at : at + FILES_A_TASK]) for at in range(0, len(listed), FILES_A_TASK)]

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        storage = where.open()
        for batch in batches:
            for number in batch.column("id").to_pylist():
                for path, topic, date in json.loads(tasks[number]):
                    with storage.open_read(path) as file:
                        yield from _rows_of(file, topic, date, names)

    return spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(read, ddl)


def _rows_of(file: Any, topic: str, date: str, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    parquet = pq.ParquetFile(file)
    inside = [name for name in names if name in parquet.schema_arrow.names]
    types = {name: pa.date32() if name == "date" else BY_NAME[name].arrow for name in names}
    schema = pa.schema([pa.field(name, types[name]) for name in names])
    for rows in parquet.iter_batches(batch_size=ROWS_AT_ONCE, columns=inside):
        count = rows.num_rows
        arrays = []
        for name in names:
            if name == "topic":
                arrays.append(pa.repeat(pa.scalar(topic, pa.string()), count))
            elif name == "date":
                arrays.append(pa.repeat(pa.scalar(Date.fromisoformat(date), pa.date32()), count))
            elif name in inside:
                arrays.append(rows.column(name).cast(types[name]))
            else:
                arrays.append(pa.nulls(count, types[name]))
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)
