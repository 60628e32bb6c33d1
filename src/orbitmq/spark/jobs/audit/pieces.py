"""Input of the workers: parts of a commit log, files of consume queues, index files; as Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from orbitmq.protocol.names import HALF_TOPIC, OP_HALF_TOPIC
from orbitmq.protocol.records.hashing import java_hash
from orbitmq.protocol.records.message import INNER_BATCH
from orbitmq.protocol.records.properties_cy import index_hashes
from orbitmq.protocol.records.queue_units import BLANK_SIZE
from orbitmq.spark.offline.planning import BadPlace, Work
from orbitmq.spark.offline.scanning import RangeReader
from orbitmq.spark.offline.storage import open_folder
from orbitmq.spark.read.column_types import COLUMN_TYPES
from orbitmq.spark.read.scanner import RecordScanner

BATCH_BYTES = 8 << 20
UNIT = np.dtype([("physical", ">i8"), ("size", ">i4"), ("code", ">i8")])
ENTRY = np.dtype([("hash", ">i4"), ("physical", ">i8"), ("seconds", ">i4"), ("before", ">i4")])
HEADER_BYTES = 40
ENTRIES_AT_ONCE = 1 << 18
SCANNED = (
    "topic",
    "queueId",
    "queueOffset",
    "physicalOffset",
    "recordSize",
    "tags",
    "sysFlag",
    "storeTimestamp",
)

LONGS = pa.list_(pa.field("element", pa.int64()))
"""A list as Spark names its parts."""

_PLACE = {
    "store": pa.string(),
    "topic": pa.string(),
    "queueId": pa.int32(),
    "queueOffset": pa.int64(),
    "physicalOffset": pa.int64(),
    "size": pa.int64(),
    "tagsCode": pa.int64(),
}
_FOUND = {"file": pa.string(), "problem": pa.string()}
_OF_RECORDS = {"storedAtMs": pa.int64(), "isBatch": pa.bool_(), "keys": LONGS, "tagKey": pa.int64()}

RECORDS = pa.schema(_PLACE | _OF_RECORDS | _FOUND)
"""A record per row, or, with `problem`, a place without one."""

UNITS = pa.schema(_PLACE | _FOUND)
"""A unit that was written per row; `problem` says what is wrong with it as it stands in its file."""

ENTRIES = pa.schema(
    [
        pa.field("store", pa.string()),
        pa.field("file", pa.string()),
        pa.field("keyHash", pa.int64()),
        pa.field("physicalOffset", pa.int64()),
        pa.field("problem", pa.string()),
    ]
)
"""An entry of an index file per row, or, with `problem`, what is wrong with the file."""

TRANSACTIONS = pa.schema(
    [
        pa.field("store", pa.string()),
        *(
            pa.field(name, COLUMN_TYPES[name])
            for name in (
                "topic",
                "queueId",
                "queueOffset",
                "physicalOffset",
                "tags",
                "body",
                "properties",
                "msgId",
                "storeTimestamp",
            )
        ),
    ]
)
"""A half message, or an op record that decides about some, per row."""

Storage = tuple[tuple[str, object], ...]


@dataclass(frozen=True, slots=True)
class LogPiece:
    """Ranges of commit logs; the broker name of each is the path of its store."""

    work: Work
    storage: Storage = ()
    with_keys: bool = True

    @property
    def files(self) -> list[tuple[str, str]]:
        return files_of(self.work)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Every record, and every place that is none."""
        for place, store in self.work.bad:
            yield _bad([place], str(store))
        for one in self.work.ranges:
            store = str(one.broker_name)
            scanner = RecordScanner([*SCANNED, "propertyBytes"] if self.with_keys else SCANNED)
            reader = RangeReader(
                one, scanner, max_batch_bytes=BATCH_BYTES, storage_options=dict(self.storage)
            )
            for batch in reader:
                yield self._records(batch, store)
            if scanner.rows:
                yield self._records(scanner.take(), store)
            if reader.bad:
                yield _bad(reader.bad, store)

    def _records(self, batch: pa.RecordBatch, store: str) -> pa.RecordBatch:
        rows = batch.num_rows
        tags = batch.column("tags").dictionary_encode()
        codes = np.array([java_hash(tag) for tag in tags.dictionary.to_pylist()] + [0], dtype=np.int64)
        numbers = tags.indices.fill_null(len(codes) - 1).to_numpy(zero_copy_only=False)
        flags = batch.column("sysFlag").to_numpy(zero_copy_only=False)
        keys, tag_keys = _keys(batch) if self.with_keys else (None, None)
        arrays = {
            "store": pa.repeat(pa.scalar(store, pa.string()), rows),
            "size": batch.column("recordSize").cast(pa.int64()),
            "tagsCode": pa.array(codes[numbers]),
            "storedAtMs": pc.divide(batch.column("storeTimestamp").cast(pa.int64()), 1000),
            "isBatch": pa.array((flags & INNER_BATCH) != 0),
            "keys": keys,
            "tagKey": tag_keys,
        }
        return _complete(RECORDS, arrays, batch)


def files_of(work: Work) -> list[tuple[str, str]]:
    """Folder and name of each file that work reads."""
    return [(one.file.folder, one.file.name) for one in work.ranges]


def _keys(batch: pa.RecordBatch) -> tuple[pa.Array, pa.Array]:
    """The hashes under which the index has each message: of its keys, and of its tag."""
    keys: list[list[int]] = []
    tag_keys: list[int | None] = []
    columns = (batch.column(name).to_pylist() for name in ("topic", "propertyBytes", "tags"))
    for topic, properties, tag in zip(*columns, strict=True):
        hashes = index_hashes(topic, properties)
        tag_keys.append(hashes.pop() if tag is not None and hashes else None)
        keys.append(hashes)
    return pa.array(keys, LONGS), pa.array(tag_keys, pa.int64())


def _bad(places: list[BadPlace], store: str) -> pa.RecordBatch:
    arrays = {
        "store": pa.array([store] * len(places), pa.string()),
        "physicalOffset": pa.array([place.physical_offset for place in places], pa.int64()),
        "size": pa.array([place.size_bytes for place in places], pa.int64()),
        "file": pa.array([place.file for place in places], pa.string()),
        "problem": pa.array([place.reason for place in places], pa.string()),
    }
    return _complete(RECORDS, arrays, None)


@dataclass(frozen=True, slots=True)
class TransactionPiece:
    """The same ranges, for what the two topics of transactions have in them."""

    work: Work
    storage: Storage = ()

    @property
    def files(self) -> list[tuple[str, str]]:
        return files_of(self.work)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Half messages and op records; bad ones are reported elsewhere."""
        for one in self.work.ranges:
            scanner = RecordScanner(TRANSACTIONS.names[1:], accept={HALF_TOPIC, OP_HALF_TOPIC}.__contains__)
            reader = RangeReader(
                one, scanner, max_batch_bytes=BATCH_BYTES, storage_options=dict(self.storage)
            )
            for batch in reader:
                yield self._named(batch, str(one.broker_name))
            if scanner.rows:
                yield self._named(scanner.take(), str(one.broker_name))

    @staticmethod
    def _named(batch: pa.RecordBatch, store: str) -> pa.RecordBatch:
        name = pa.repeat(pa.scalar(store, pa.string()), batch.num_rows)
        return _complete(TRANSACTIONS, {"store": name}, batch)


@dataclass(frozen=True, slots=True)
class QueuePiece:
    """One file of a consume queue."""

    store: str
    folder: str
    """Relative to the store."""
    name: str
    topic: str
    queue_id: int
    storage: Storage = ()

    @property
    def files(self) -> list[tuple[str, str]]:
        return [(self.store, f"{self.folder}/{self.name}")]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Every unit that was written."""
        folder = open_folder(self.store, dict(self.storage))
        try:
            raw = folder.read_written(f"{self.folder}/{self.name}")
        except FileNotFoundError:
            return  # retention took it
        units = np.frombuffer(raw, UNIT, len(raw) // UNIT.itemsize)
        physical = units["physical"].astype(np.int64)
        sizes = units["size"].astype(np.int64)
        is_blank = (physical == 0) & (sizes == BLANK_SIZE)
        written = np.flatnonzero((physical >= 0) & (sizes > 0) & (sizes < BLANK_SIZE))
        if not len(written):
            return
        problems = np.full(len(written), None, dtype=object)
        steps = np.diff(physical[written])
        problems[1:][steps <= 0] = "the unit before points to the same place or one behind"
        gaps = np.diff(written)
        for place in np.flatnonzero(gaps > 1):
            between = slice(written[place] + 1, written[place + 1])
            if not is_blank[between].all():
                problems[place + 1] = f"{gaps[place] - 1} units before it were never written"
        first = int(self.name) // UNIT.itemsize
        path = folder.path(f"{self.folder}/{self.name}")
        arrays = {
            "store": pa.repeat(pa.scalar(self.store, pa.string()), len(written)),
            "topic": pa.repeat(pa.scalar(self.topic, pa.string()), len(written)),
            "queueId": pa.repeat(pa.scalar(self.queue_id, pa.int32()), len(written)),
            "queueOffset": pa.array(written + first, pa.int64()),
            "physicalOffset": pa.array(physical[written]),
            "size": pa.array(sizes[written]),
            "tagsCode": pa.array(units["code"].astype(np.int64)[written]),
            "file": pa.repeat(pa.scalar(path, pa.string()), len(written)),
            "problem": pa.array(problems.tolist(), pa.string()),
        }
        yield _complete(UNITS, arrays, None)


@dataclass(frozen=True, slots=True)
class IndexPiece:
    """One index file of `size` bytes. `slots` 0: a quarter of its entries, as by default.

    `may_grow`: a broker may have been adding to it; its slots are then ahead of what its header counts.
    """

    store: str
    name: str
    size: int
    slots: int = 0
    storage: Storage = ()
    may_grow: bool = False

    @property
    def files(self) -> list[tuple[str, str]]:
        return [(self.store, f"index/{self.name}")]

    def batches(self) -> Iterator[pa.RecordBatch]:
        folder = open_folder(self.store, dict(self.storage))
        name = f"index/{self.name}"
        path = folder.path(name)
        slots = self.slots or (self.size - HEADER_BYTES) // (4 + 4 * ENTRY.itemsize)
        first = HEADER_BYTES + 4 * slots
        most = (self.size - first) // ENTRY.itemsize
        if self.size < HEADER_BYTES or most < 1:
            yield self._problem(path, f"{self.size} bytes are too few for an index file")
            return
        try:
            header = folder.read(name, 0, HEADER_BYTES)
            count = int.from_bytes(header[36:40], "big", signed=True)
            if not 0 <= count <= most:
                yield self._problem(path, f"its header counts {count} entries, and {most} fit into it")
                return
            heads = np.frombuffer(folder.read(name, HEADER_BYTES, first), ">i4")
            if not self.may_grow and ((heads >= max(count, 1)).any() or (heads < 0).any()):
                yield self._problem(path, "a slot names an entry that there is not")
            for number in range(1, count, ENTRIES_AT_ONCE):
                end = min(count, number + ENTRIES_AT_ONCE)
                raw = folder.read(name, first + ENTRY.itemsize * number, first + ENTRY.itemsize * end)
                yield from self._entries(path, np.frombuffer(raw, ENTRY), number)
        except FileNotFoundError:
            return  # retention took it

    def _entries(self, path: str, entries: np.ndarray, first: int) -> Iterator[pa.RecordBatch]:
        if (entries["before"].astype(np.int64) >= np.arange(first, first + len(entries))).any():
            yield self._problem(path, "an entry names one behind it as the one before")
        arrays = {
            "store": pa.repeat(pa.scalar(self.store, pa.string()), len(entries)),
            "file": pa.repeat(pa.scalar(path, pa.string()), len(entries)),
            "keyHash": pa.array(entries["hash"].astype(np.int64)),
            "physicalOffset": pa.array(entries["physical"].astype(np.int64)),
        }
        yield _complete(ENTRIES, arrays, None)

    def _problem(self, path: str, text: str) -> pa.RecordBatch:
        values = {"store": self.store, "file": path, "problem": text}
        return _complete(
            ENTRIES, {key: pa.array([value], pa.string()) for key, value in values.items()}, None
        )


def _complete(
    schema: pa.Schema, arrays: dict[str, pa.Array | None], batch: pa.RecordBatch | None
) -> pa.RecordBatch:
    """A batch with all columns: those given, those of another batch, nulls."""
    rows = batch.num_rows if batch is not None else len(arrays["store"] or ())
    made = []
    for field in schema:
        array = arrays.get(field.name)
        if array is None and batch is not None and field.name in batch.schema.names:
            array = batch.column(field.name)
        made.append(pa.nulls(rows, field.type) if array is None else array)
    return pa.RecordBatch.from_arrays(made, schema=schema)
