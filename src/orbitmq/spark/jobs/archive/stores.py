"""Archiving from a store's files, without its broker: ranges of the commit log in the place of queues.

Queue offsets say which messages are in the lake already, not the progress in the log: so a store can be
archived from its files after its broker was archived online, and the other way round. Within a batch tasks
read different ranges side by side; batches follow the log.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

from orbitmq.spark.errors import DataLost
from orbitmq.spark.jobs.archive.tasks import Written
from orbitmq.spark.lake.state import HeldRange, LakeFile, LakeState, QueueName
from orbitmq.spark.lake.storage import LakeLocation, Storage
from orbitmq.spark.lake.writing import DayFiles, ParquetForm, queue_spans
from orbitmq.spark.offline.columns import BAD_RECORD
from orbitmq.spark.offline.options import OfflineOptions
from orbitmq.spark.offline.planning import Work, plan
from orbitmq.spark.offline.reader import read_work
from orbitmq.spark.read.columns import NAMES

MOST_TOPICS_OPEN = 32
"""Topics whose files a task has open at once: a log may hold thousands of topics in any order."""
BATCH_BYTES = 1 << 30
"""Of commit log, committed together."""
SMALLEST_PIECE_BYTES = 64 << 20
LARGEST_PIECE_BYTES = 256 << 20
"""Of commit log, for one task: each costs Spark a tenth of a second, whatever it reads."""


@dataclass(frozen=True, slots=True)
class StoreTask:
    """Archives ranges of a commit log, in the workers."""

    location: LakeLocation
    staging: str
    columns: tuple[str, ...]
    offline: OfflineOptions
    form: ParquetForm
    held_to: Mapping[QueueName, int]
    """Queue offsets behind what the lake holds."""
    keep_going: bool
    """Leave out what is no sound record, and say so, in place of an error."""

    def __call__(self, work: Work) -> Written:
        """Raises BadRecords, DataLost, OSError."""
        first = work.ranges[0]
        # The same range may be read again, for what was written to it since.
        broker = quote(str(first.broker_name), safe="")
        name = f"log-{broker}-{first.file.start + first.begin:020}-{uuid.uuid4().hex[:12]}"
        files = _TopicFiles(self.location.open(), self.staging, name, self.form)
        columns = (*self.columns, "topic", *((BAD_RECORD,) if self.keep_going else ()))
        spans: dict[QueueName, tuple[int, int, int]] = {}
        bad: list[str] = []
        try:
            for batch in read_work(work, self.offline, columns):
                for topic, rows in by_topic(self._messages(batch, bad)):
                    new = not_held(rows, topic, self.held_to)
                    for queue, low, high in queue_spans(new) if new.num_rows else ():
                        known = spans.get((topic, queue), (low, high, 0))
                        spans[topic, queue] = (min(low, known[0]), max(high, known[1]), known[2])
                    _count(spans, topic, new)
                    files.write(topic, new)
            done = files.finish()
        except BaseException:
            files.abandon()
            raise
        ranges = (HeldRange(topic, queue, *span) for (topic, queue), span in sorted(spans.items()))
        return Written(tuple(ranges), tuple(done), tuple(bad))

    def _messages(self, batch: pa.RecordBatch, bad: list[str]) -> pa.RecordBatch:
        if BAD_RECORD not in batch.schema.names:
            return batch
        column = batch.column(BAD_RECORD)
        if column.null_count < len(batch):
            places = (place for place in column.to_pylist() if place is not None)
            bad += [f"{one['file']} at {one['physicalOffset']}: {one['reason']}" for one in places]
            batch = batch.filter(pc.is_null(column))
        return batch.drop_columns([BAD_RECORD])


def _count(spans: dict[QueueName, tuple[int, int, int]], topic: str, rows: pa.RecordBatch) -> None:
    if rows.num_rows:
        table = pa.table({"broker": rows.column("brokerName"), "queue": rows.column("queueId")})
        for row in table.group_by(["broker", "queue"]).aggregate([([], "count_all")]).to_pylist():
            name = topic, f"{row['broker']}|{row['queue']}"
            low, high, count = spans[name]
            spans[name] = (low, high, count + row["count_all"])


def by_topic(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of each topic, without that column."""
    if not batch.num_rows:
        return
    topics = batch.column("topic")
    rest = batch.drop_columns(["topic"])
    names = pc.unique(topics).to_pylist()
    if len(names) == 1:
        yield names[0], rest
        return
    for name in names:
        yield name, rest.filter(pc.equal(topics, name))


def not_held(rows: pa.RecordBatch, topic: str, held_to: Mapping[QueueName, int]) -> pa.RecordBatch:
    """The rows behind what is held of their queues."""
    for queue, low, _ in list(queue_spans(rows)) if rows.num_rows else ():
        edge = held_to.get((topic, queue), 0)
        if low < edge:
            broker, _, queue_id = queue.rpartition("|")
            of_queue = pc.and_(
                pc.equal(rows.column("queueId"), int(queue_id)), pc.equal(rows.column("brokerName"), broker)
            )
            rows = rows.filter(pc.invert(pc.and_(of_queue, pc.less(rows.column("queueOffset"), edge))))
    return rows


@dataclass(slots=True)
class _TopicFiles:
    """The files of a task, topic by topic; those not written to for the longest time are ended first."""

    storage: Storage
    staging: str
    name: str
    form: ParquetForm
    _open: dict[str, DayFiles] = field(default_factory=dict)
    _done: list[LakeFile] = field(default_factory=list)
    _begun: int = 0

    def write(self, topic: str, rows: pa.RecordBatch) -> None:
        if not rows.num_rows:
            return
        files = self._open.pop(topic, None)
        if files is None:
            if len(self._open) == MOST_TOPICS_OPEN:
                self._done += self._open.pop(next(iter(self._open))).finish()
            self._begun += 1
            files = DayFiles(self.storage, self.staging, topic, f"{self.name}-{self._begun}", self.form)
        self._open[topic] = files
        files.write(rows)

    def finish(self) -> list[LakeFile]:
        for files in self._open.values():
            self._done += files.finish()
        self._open.clear()
        return self._done

    def abandon(self) -> None:
        for files in self._open.values():
            files.abandon()


@dataclass(frozen=True, slots=True)
class StoreBatch:
    """Ranges that are committed together, and how far the log is in the lake then."""

    works: tuple[Work, ...]
    source: str
    done_to: int


def offline_options(
    store: str, broker_name: str, topics: Sequence[str], pattern: str | None, storage: str = ""
) -> OfflineOptions:
    """Options for reading the store. Raises BadOption."""
    given = {
        "path": store,
        "brokerName": broker_name,
        "columns": ",".join(NAMES),
        "splitBytes": str(SMALLEST_PIECE_BYTES),
    }
    if topics:
        given["subscribe"] = ",".join(topics)
    if pattern is not None:
        given["subscribePattern"] = pattern
    if storage:
        given["storageOptions"] = storage
    return OfflineOptions.parse(given)


def store_batches(
    offline: OfflineOptions, state: LakeState, workers: int, batch_bytes: int = BATCH_BYTES
) -> list[StoreBatch]:
    """Parts of the log not yet read for this lake and topics, in batches. Raises SparkSourceError."""
    chosen = ",".join(sorted(offline.topics)) or offline.pattern or ".*"
    source = f"{offline.broker_names[0]}: {chosen}"
    done_to = state.sources.get(source, 0)
    works = [work for work in plan(offline) if work.bad or _end(work) > done_to]
    pieces = pieces_of(works, workers)
    # A batch has work for everybody.
    of_batches = in_groups(pieces, max(batch_bytes, workers * LARGEST_PIECE_BYTES))
    batches = [StoreBatch(tuple(group), source, _end(group[-1])) for group in of_batches]
    return [one for one in batches if any(work.ranges for work in one.works)]


def pieces_of(works: Sequence[Work], workers: int) -> list[Work]:
    """Neighbours joined: two tasks for each worker, as far as that keeps them between the two sizes."""
    wanted = sum(map(_size_bytes, works)) // (2 * workers)
    groups = in_groups(works, min(LARGEST_PIECE_BYTES, max(SMALLEST_PIECE_BYTES, wanted)))
    return [
        Work(
            tuple(one for work in group for one in work.ranges),
            tuple(place for work in group for place in work.bad),
        )
        for group in groups
    ]


def in_groups(works: Sequence[Work], size_bytes: int) -> Iterator[list[Work]]:
    """Neighbours that have about so many bytes together, or one that has more."""
    group: list[Work] = []
    held = 0
    for work in works:
        if group and held + _size_bytes(work) > size_bytes:
            yield group
            group, held = [], 0
        group.append(work)
        held += _size_bytes(work)
    if group:
        yield group


def _size_bytes(work: Work) -> int:
    return sum(map(len, work.ranges))


def _end(work: Work) -> int:
    return max((one.file.start + one.end for one in work.ranges), default=0)


def joined(written: Sequence[Written], state: LakeState, *, fail_on_data_loss: bool) -> list[HeldRange]:
    """One range per queue, joined from the results of a batch's tasks. Raises DataLost where a queue has a
    hole.
    """
    spans: dict[QueueName, tuple[int, int, int]] = {}
    for piece in (piece for one in written for piece in one.ranges):
        name = piece.topic, piece.queue
        low, high, rows = spans.get(name, (piece.from_queue_offset, piece.to_queue_offset, 0))
        spans[name] = (
            min(low, piece.from_queue_offset),
            max(high, piece.to_queue_offset),
            rows + piece.rows,
        )
    for (topic, queue), (low, _, _) in spans.items():
        edge = state.next_offset(topic, queue)
        if edge is not None and low > edge and fail_on_data_loss:
            raise DataLost(
                f"{topic} {queue}: offsets {edge} to {low - 1} are neither in the lake nor in the files; "
                "--allow-data-loss goes on behind them"
            )
    return [HeldRange(topic, queue, *span) for (topic, queue), span in sorted(spans.items())]
