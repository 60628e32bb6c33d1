"""Arrow batches to Parquet files, one per day of storing: runs in the workers, needs no Spark.

Rows are collected to row groups of a few MiB, so what a worker holds does not depend on how long its work is.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from orbitmq.spark.lake.state import LakeFile
from orbitmq.spark.lake.storage import Storage
from orbitmq.spark.read.columns import BY_NAME

ROW_GROUP_BYTES = 16 << 20
"""Size of a row group before it is encoded; what a reader of the file has to hold at least."""
MOST_OPEN = 8
"""Days whose files are open at once. Messages are stored in the order of time, so two are already rare."""

IN_PATH = ("topic", "date")
"""Columns that stand in the path of a file and not in it."""
NEEDED = ("brokerName", "queueId", "queueOffset", "storeTimestamp")
"""Columns without which a lake could not say what it holds."""
REPEATED = frozenset(
    {"topic", "brokerName", "queueId", "tags", "flag", "sysFlag", "bornHost", "storeHost", "reconsumeTimes"}
)
"""Columns with few values: these are worth a dictionary."""

_DAY_US = 86_400_000_000
_NO_TIME = 0


@dataclass(frozen=True, slots=True)
class ParquetForm:
    """The form of Parquet files."""

    compression: str = "snappy"
    row_group_bytes: int = ROW_GROUP_BYTES
    field_ids: Mapping[str, int] | None = None
    """Ids of columns, for Iceberg, and of what is in them (`properties.key`); with `topic` as one of them."""


class DayFiles:
    """Writes the messages of one topic, each to the file of its day (UTC) in the folder `staging`.

    `name` is the last part of the path that the files shall have.
    """

    def __init__(
        self, storage: Storage, staging: str, topic: str, name: str, form: ParquetForm | None = None
    ) -> None:
        self._storage = storage
        self._staging = staging
        self._topic = topic
        self._name = name
        self._form = form or ParquetForm()
        self._open: dict[str, _OpenFile] = {}
        self._done: list[LakeFile] = []

    def write(self, batch: pa.RecordBatch) -> None:
        """Adds rows. Raises OSError."""
        if batch.num_rows:
            for date, rows in split_by_day(batch):
                self.write_to(date, rows)

    def write_to(self, date: str, rows: pa.RecordBatch) -> None:
        """Adds rows to the file of a day, whatever their own times say. Raises OSError."""
        self._file_of(date, rows.schema).add(rows)

    def finish(self) -> list[LakeFile]:
        """Ends all files; they outlast a power cut from now on. Raises OSError."""
        for date in list(self._open):
            self._end(date)
        return self._done

    def abandon(self) -> None:
        """Closes open files; they stay without an owner."""
        for file in self._open.values():
            file.abandon()
        self._open.clear()

    def _file_of(self, date: str, schema: pa.Schema) -> _OpenFile:
        found = self._open.get(date)
        if found is None:
            if len(self._open) == MOST_OPEN:
                self._end(min(self._open))
            # A task that is run again must not meet the files of the one before.
            staged = f"{self._staging}/{uuid.uuid4().hex}.parquet"
            number = sum(file.date == date for file in self._done)
            name = f"{self._name}.parquet" if not number else f"{self._name}-{number}.parquet"
            path = f"{folder_of(self._topic, date)}/{name}"
            found = _OpenFile(self._storage, path, staged, self._topic, date, schema, self._form)
            self._open[date] = found
        return found

    def _end(self, date: str) -> None:
        self._done.append(self._open.pop(date).end())


class _OpenFile:
    """One Parquet file that grows."""

    def __init__(
        self,
        storage: Storage,
        path: str,
        staged: str,
        topic: str,
        date: str,
        schema: pa.Schema,
        form: ParquetForm,
    ) -> None:
        self._storage = storage
        self._place = (path, topic, date, staged)
        self._form = form
        self._held: list[pa.RecordBatch] = []
        self._held_bytes = 0
        self._rows = 0
        self._times: list[int] = []
        self._queues: dict[str, tuple[int, int]] = {}
        if form.field_ids is not None:
            schema = with_ids(schema.insert(0, pa.field("topic", pa.string())), form.field_ids)
        self._stream: IO[bytes] = storage.open_write(staged)
        self._writer = pq.ParquetWriter(
            self._stream,
            schema,
            compression=form.compression,
            use_dictionary=[name for name in schema.names if name in REPEATED],
            # Smallest and largest values let readers skip row groups; of bodies they only cost.
            write_statistics=[name for name in schema.names if name not in ("body", "properties")],
        )

    def add(self, rows: pa.RecordBatch) -> None:
        self._note(rows)
        if self._form.field_ids is not None:
            topic = pa.repeat(pa.scalar(self._place[1]), rows.num_rows)
            rows = pa.RecordBatch.from_arrays([topic, *rows.columns], ["topic", *rows.schema.names])
        self._held.append(rows)
        self._held_bytes += rows.nbytes
        self._rows += rows.num_rows
        if self._held_bytes >= self._form.row_group_bytes:
            self._write_group()

    def _write_group(self) -> None:
        if self._held:
            table = pa.Table.from_batches(self._held)
            self._held, self._held_bytes = [], 0
            self._writer.write_table(table, row_group_size=max(1, table.num_rows))

    def _note(self, rows: pa.RecordBatch) -> None:
        """Notes the file's bounds for the manifest, so that readers can skip it."""
        times = pc.min_max(rows.column("storeTimestamp").cast(pa.int64())).as_py()
        if times["min"] is not None:
            self._times += [times["min"] // 1000, times["max"] // 1000]
            self._times = [min(self._times), max(self._times)]
        for queue, low, high in queue_spans(rows):
            known = self._queues.get(queue, (low, high))
            self._queues[queue] = (min(low, known[0]), max(high, known[1]))

    def end(self) -> LakeFile:
        self._write_group()
        self._writer.close()
        size_bytes = self._stream.tell()
        self._storage.finish(self._stream)
        path, topic, date, staged = self._place
        first, last = self._times or (_NO_TIME, _NO_TIME)
        return LakeFile(path, topic, date, self._rows, size_bytes, first, last, self._queues, staged)

    def abandon(self) -> None:
        self._stream.close()


def with_ids(schema: pa.Schema, ids: Mapping[str, int]) -> pa.Schema:
    """The schema with Iceberg's ids at its fields, and at those of its maps."""

    def identified(path: str, field: pa.Field) -> pa.Field:
        kind = field.type
        if pa.types.is_map(kind):
            kind = pa.map_(
                identified(f"{path}.key", kind.key_field), identified(f"{path}.value", kind.item_field)
            )
        return field.with_type(kind).with_metadata({"PARQUET:field_id": str(ids[path])})

    return pa.schema([identified(field.name, field) for field in schema])


def split_by_day(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of each day of storing, as `YYYY-MM-DD` in UTC; those without a time under 1970-01-01."""
    days = pc.fill_null(batch.column("storeTimestamp").cast(pa.int64()), _NO_TIME)
    ends = pc.min_max(days).as_py()
    first, last = ends["min"] // _DAY_US, ends["max"] // _DAY_US
    if first == last:
        yield _date(first), batch
        return
    # Integer division in Arrow goes towards zero; there are no times before 1970.
    days = pc.divide(pc.max_element_wise(days, _NO_TIME), _DAY_US)
    for day in sorted(pc.unique(days).to_pylist()):
        yield _date(day), batch.filter(pc.equal(days, day))


def _date(day: int) -> str:
    from datetime import date, timedelta

    return (date(1970, 1, 1) + timedelta(days=max(0, min(day, 2_932_896)))).isoformat()


def queue_spans(rows: pa.RecordBatch) -> Iterator[tuple[str, int, int]]:
    """`broker|queueId`, the first queue offset and the one behind the last, of each queue among the rows."""
    broker, queue = rows.column("brokerName"), rows.column("queueId")
    ends = pc.min_max(queue).as_py()
    if ends["min"] == ends["max"] and len(pc.unique(broker)) == 1:
        span = pc.min_max(rows.column("queueOffset")).as_py()
        yield f"{broker[0].as_py()}|{ends['min']}", span["min"], span["max"] + 1
        return
    table = pa.table({"broker": broker, "queue": queue, "offset": rows.column("queueOffset")})
    grouped = table.group_by(["broker", "queue"]).aggregate([("offset", "min"), ("offset", "max")])
    for row in grouped.to_pylist():
        yield f"{row['broker']}|{row['queue']}", row["offset_min"], row["offset_max"] + 1


def folder_of(topic: str, date: str) -> str:
    """The folder of a topic's day, in the form that Spark and others read as columns."""
    return f"topic={quote(topic, safe='')}/date={date}"


def file_name(queue: str, from_queue_offset: int, to_queue_offset: int) -> str:
    """The name, without its ending, of a file that holds a stretch of a queue (`broker|queueId`)."""
    broker, _, queue_id = queue.rpartition("|")
    return f"{quote(broker, safe='')}-{queue_id}-{from_queue_offset:020}-{to_queue_offset:020}"


def schema_of(columns: Mapping[str, Any] | tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Names and Spark types of the columns as a lake records them."""
    return tuple((name, BY_NAME[name].ddl) for name in columns if name not in IN_PATH)
