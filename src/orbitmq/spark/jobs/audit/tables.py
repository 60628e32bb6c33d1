"""Data frames of what stores hold: their records, the units of their queues, the entries of their index."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol

from orbitmq.protocol.errors import MalformedJson
from orbitmq.protocol.schema import fastjson
from orbitmq.spark.jobs.audit.pieces import (
    ENTRIES,
    RECORDS,
    TRANSACTIONS,
    UNITS,
    IndexPiece,
    LogPiece,
    QueuePiece,
    Storage,
    TransactionPiece,
)
from orbitmq.spark.offline.options import OfflineOptions
from orbitmq.spark.offline.planning import Store, open_stores, plan
from orbitmq.spark.offline.queues import CONSUME_QUEUE
from orbitmq.spark.offline.storage import Folder, is_segment, open_folder

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from orbitmq.spark.jobs.checkpoint import Checkpoint

MOST_TASKS = 2000
REBUILT_BEFORE_MS = 3000
"""A start after a crash goes back by so much from the times in the checkpoint."""


class Piece(Protocol):
    """Input of a worker at a time."""

    @property
    def storage(self) -> Storage:
        """Options of fsspec."""

    @property
    def files(self) -> list[tuple[str, str]]:
        """Folder and name of each file that is read."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Its rows as Arrow batches."""


@dataclass(slots=True)
class Files:
    """Files of all stores, and findings from the listings alone."""

    stores: list[str]
    log: list[LogPiece]
    queues: list[QueuePiece]
    index: list[IndexPiece]
    log_starts: dict[str, int]
    """Physical offset at which each store's log begins."""
    log_bytes: int = 0
    missing: list[tuple[str, str, int, str, str]] = field(default_factory=list)
    """(store, topic, queue id, file, what) of queue files that should be there."""
    offsets: list[tuple[str, str, str, int, int]] = field(default_factory=list)
    """(store, group, topic, queue id, offset) of what consumers have committed."""
    unreadable: list[tuple[str, str, str]] = field(default_factory=list)
    """(store, file, what)."""
    rebuilt_from_ms: dict[str, int] = field(default_factory=dict)
    """Of stores that were not stopped in order: from which store time on a start makes queues again."""


def list_files(paths: Sequence[str], *, split_bytes: int, index_slots: int, storage: Storage) -> Files:
    """Lists what is there. Raises NotAStore, BadOption, SparkSourceError, OSError."""
    options = OfflineOptions(
        tuple(paths), split_bytes=split_bytes, storage_options=storage, internal_topics=True
    )
    stores = open_stores(options)
    urls = [store.root.url for store in stores]
    files = Files(urls, [], [], [], {})
    for store in stores:
        _note_end(store.root, files)
        _list_queues(store, files, storage)
        _list_index(store.root, files, index_slots, storage)
        read_offsets(store.root, files)
    named = OfflineOptions(
        tuple(urls),
        split_bytes=split_bytes,
        storage_options=storage,
        internal_topics=True,
        broker_names=tuple(urls),
    )
    indexed = {piece.store for piece in files.index}
    for work in plan(named):
        for one in work.ranges:
            store_url = str(one.broker_name)
            files.log_bytes += len(one)
            start = one.file.start + one.begin
            files.log_starts[store_url] = min(start, files.log_starts.get(store_url, start))
        files.log.append(LogPiece(work, storage, any(one.broker_name in indexed for one in work.ranges)))
    return files


def _note_end(root: Folder, files: Files) -> None:
    """True if the store is live, was killed, or is a copy of such a store: it has a file `abort` then."""
    if "abort" not in root.files(""):
        return
    try:
        raw = root.read("checkpoint", 0, 16)
    except FileNotFoundError:
        raw = b""
    log_ms, queues_ms = (int.from_bytes(raw[at : at + 8], "big", signed=True) for at in (0, 8))
    files.rebuilt_from_ms[root.url] = min(log_ms, queues_ms) - REBUILT_BEFORE_MS


def _list_queues(store: Store, files: Files, storage: Storage) -> None:
    root = store.root
    for topic in root.folders(CONSUME_QUEUE):
        for queue in root.folders(f"{CONSUME_QUEUE}/{topic}"):
            if not queue.isdecimal():
                continue
            folder = f"{CONSUME_QUEUE}/{topic}/{queue}"
            listed = sorted(
                (int(name), size) for name, size in root.files(folder).items() if is_segment(name)
            )
            for (start, size), (following, _) in pairwise(listed):
                if start + size != following:
                    files.missing.append(
                        (
                            root.url,
                            topic,
                            int(queue),
                            root.path(f"{folder}/{start + size:020d}"),
                            f"a file of the queue is missing before {following:020d}",
                        )
                    )
            files.queues += [
                QueuePiece(root.url, folder, f"{start:020d}", topic, int(queue), storage)
                for start, size in listed
                if size
            ]


def _list_index(root: Folder, files: Files, slots: int, storage: Storage) -> None:
    names = sorted(
        (name, size)
        for name, size in root.files("index").items()
        if len(name) == 17 and name.isdecimal() and size
    )
    for name, size in names:
        may_grow = root.url in files.rebuilt_from_ms and name == names[-1][0]
        files.index.append(IndexPiece(root.url, name, size, slots, storage, may_grow))


def read_offsets(root: Folder, files: Files) -> None:
    """Adds the offsets of a store's groups to `files`, and the entries that are not offsets."""
    table, name = _json_table(root, files, "config/consumerOffset.json")
    for key, queues in table.items():
        topic, _, group = key.partition("@")
        if not isinstance(queues, dict):
            files.unreadable.append((root.url, name, f"{key} has no queues"))
            continue
        for queue, at in queues.items():
            if queue.isdecimal() and type(at) is int:
                files.offsets.append((root.url, group, topic, int(queue), at))
            else:
                files.unreadable.append((root.url, name, f"{key} has no offset of a queue: {queue}: {at!r}"))


def _json_table(root: Folder, files: Files, name: str) -> tuple[dict[str, Any], str]:
    """A broker's table of offsets; the one before where the present one is of no use."""
    for tried in (name, f"{name}.bak"):
        try:
            parsed = fastjson.parse(root.read(tried))
        except FileNotFoundError:
            continue
        except MalformedJson as error:
            files.unreadable.append((root.url, root.path(tried), str(error)))
            continue
        table = parsed.get("offsetTable") if isinstance(parsed, dict) else None
        if isinstance(table, dict):
            return table, root.path(tried)
        files.unreadable.append((root.url, root.path(tried), "it holds no table of offsets"))
    return {}, name


def records(spark: SparkSession, files: Files, kept: Checkpoint | None = None) -> DataFrame:
    """The records of all logs, with the columns of `pieces.RECORDS`."""
    return _frame(spark, files.log, RECORDS, kept)


def units(spark: SparkSession, files: Files, kept: Checkpoint | None = None) -> DataFrame:
    """The units of all queues, with the columns of `pieces.UNITS`.

    A store may have a hundred thousand queues: a task is told its own alone.
    """
    rows = [(one.store, one.folder, one.name, one.topic, one.queue_id) for one in files.queues]
    columns = "store string, folder string, file string, topic string, queue int"
    storage = files.queues[0].storage if files.queues else ()

    def piece_of(store: str, folder: str, file: str, topic: str, queue: int) -> Piece:
        return QueuePiece(store, folder, file, topic, queue, storage)

    return _read(spark, files.queues, rows, columns, piece_of, UNITS, kept, at_once=64)


def transactions(spark: SparkSession, files: Files, kept: Checkpoint | None = None) -> DataFrame:
    """Half messages and op records, with the columns of `pieces.TRANSACTIONS`."""
    pieces = [TransactionPiece(piece.work, piece.storage) for piece in files.log]
    return _frame(spark, pieces, TRANSACTIONS, kept)


def entries(spark: SparkSession, files: Files, kept: Checkpoint | None = None) -> DataFrame:
    """The entries of all index files, with the columns of `pieces.ENTRIES`."""
    return _frame(spark, files.index, ENTRIES, kept)


def _frame(
    spark: SparkSession, pieces: Sequence[Piece], schema: pa.Schema, kept: Checkpoint | None
) -> DataFrame:
    rows = [(number,) for number in range(len(pieces))]
    return _read(spark, pieces, rows, "number int", lambda number: pieces[number], schema, kept)


def _read(
    spark: SparkSession,
    pieces: Sequence[Piece],
    rows: Sequence[tuple[Any, ...]],
    columns: str,
    piece_of: Callable[..., Piece],
    schema: pa.Schema,
    kept: Checkpoint | None,
    at_once: int = 1,
) -> DataFrame:
    """Rows of the pieces, or those that an earlier run has `kept`; a task reads about `at_once` of them.

    A task makes its pieces of their `rows`, which have these `columns`.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    spark_schema = from_arrow_schema(schema)
    if not pieces:
        return spark.createDataFrame([], spark_schema)
    named = [("" if kept is None else _name(piece), *row) for piece, row in zip(pieces, rows, strict=True)]
    tasks = min(-(-len(pieces) // at_once), MOST_TASKS)
    spread = spark.createDataFrame(named, f"name string, {columns}").repartition(tasks)

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for name, *row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                piece = piece_of(*row)
                yield from piece.batches() if kept is None else kept.rows(name, schema, piece.batches)

    return spread.mapInArrow(read, spark_schema)


def _name(piece: Piece) -> str:
    """Another one where the piece is, or its files have changed."""
    options = dict(piece.storage)
    return f"{piece} {[open_folder(folder, options).stamp(name) for folder, name in piece.files]}"
