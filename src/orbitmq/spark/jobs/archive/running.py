"""The archive's loop: what is new, a batch of it, a commit; again until nothing is new, or until Ctrl-C."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from orbitmq.net.errors import NetError
from orbitmq.plurals import counted
from orbitmq.spark.errors import BadOption, SparkSourceError
from orbitmq.spark.jobs.archive.planning import Lost, next_batch, pieces, what_is_new
from orbitmq.spark.jobs.archive.tasks import PieceTask, Written, run_tasks
from orbitmq.spark.jobs.job import QUIET, JobFailed, JobSetup, JobUi
from orbitmq.spark.lake import iceberg
from orbitmq.spark.lake.compaction import TARGET_BYTES, MergeTask, groups_to_merge
from orbitmq.spark.lake.errors import LakeError
from orbitmq.spark.lake.iceberg import IcebergLocation, IcebergTable
from orbitmq.spark.lake.lake import Lake, load
from orbitmq.spark.lake.state import HeldRange, LakeFile, LakeState, Schema
from orbitmq.spark.lake.storage import LakeLocation
from orbitmq.spark.lake.writing import IN_PATH, NEEDED, ParquetForm, schema_of
from orbitmq.spark.read.cluster import Cluster
from orbitmq.spark.read.columns import NAMES
from orbitmq.spark.read.options import ReadOptions
from orbitmq.spark.read.planning import OffsetRange, Queue

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from orbitmq.spark.offline.options import OfflineOptions

T = TypeVar("T")

DEFAULT_BATCH = 2_000_000
DEFAULT_FILE = 1_000_000
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 15.0
HOPELESS = ("DataLost", "BadOption", "SchemaMismatch", "LakeDamaged", "LakeBusy", "BadRecords")
"""Errors that the same batch would only meet again."""


@dataclass(frozen=True, slots=True)
class ArchiveOptions:
    """Options of `run`."""

    lake: LakeLocation | IcebergLocation
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    """A regular expression over topic names, in place of `topics`; looked up for every batch."""
    store: str | None = None
    """A store directory to read in place of asking brokers, once; `broker_name` is whose it is."""
    broker_name: str = ""
    setup: JobSetup = field(default_factory=JobSetup)
    columns: tuple[str, ...] = ()
    """Empty: those that the lake has, in a new lake all."""
    follow_s: float | None = None
    """Seconds between batches once nothing is new, until Ctrl-C; None: end then."""
    batch_messages: int = DEFAULT_BATCH
    """About so many messages are committed together: what a crash may have to read again."""
    file_messages: int = DEFAULT_FILE
    form: ParquetForm = field(default_factory=ParquetForm)
    delta: bool = False
    """Make the lake a Delta table, too."""
    allow_data_loss: bool = False
    compact: bool = False
    compact_every: int = 50
    """With `follow_s` and `compact`: batches between two looks for small files."""
    target_bytes: int = TARGET_BYTES
    retry_for_s: float = 300.0
    """Time in s of attempts without progress, while brokers, workers or Spark fail."""


@dataclass(slots=True)
class ArchiveResult:
    """The result of a run."""

    messages: int = 0
    size_bytes: int = 0
    batches: int = 0
    files: int = 0
    merged: int = 0
    """Small files that became parts of larger ones."""
    repeated: int = 0
    """Batches that were begun again after a failure."""
    lost: list[str] = field(default_factory=list)
    bad: list[str] = field(default_factory=list)
    """Places of a store's files that are no sound records, and were left out."""
    seconds: float = 0.0
    planned: int = 0
    """Of a dry run: about how many messages it would have written."""
    planned_bytes: int = 0
    """Of a dry run over a store's files: how much of them it would have read."""


def run(options: ArchiveOptions, ui: JobUi = QUIET) -> ArchiveResult:
    """Archives. Safe to end at any point, and to start again: what is in the lake stays, once.

    Raises BadOption, LakeError, DataLost, NetError, and Spark's own errors where trying again did not help.
    """
    result = ArchiveResult()
    started = time.monotonic()
    if options.setup.dry_run:
        return _dry_run(options, ui)
    _check(options)
    with _opened(options) as lake:
        columns, schema = _columns(options, lake)
        if isinstance(lake, IcebergTable):
            lake.prepare(schema_of(columns))
            schema = None
        with options.setup.session("archive") as spark:
            _Run(options, ui, lake, spark, columns, schema, result).go()
    result.seconds = time.monotonic() - started
    return result


def _opened(options: ArchiveOptions) -> contextlib.AbstractContextManager[Lake | IcebergTable]:
    if isinstance(options.lake, IcebergLocation):
        if options.compact or options.delta:
            raise BadOption(
                "compact and delta are for a lake: engines of Iceberg compact its tables themselves"
            )
        return IcebergTable.open(options.lake)
    return Lake.open(options.lake, delta=options.delta)


def state_of(location: LakeLocation | IcebergLocation) -> LakeState:
    """The archive there. Raises LakeError."""
    return iceberg.load(location) if isinstance(location, IcebergLocation) else load(location.open())


def _check(options: ArchiveOptions) -> None:
    """Raises BadOption for topics or a store that do not exist, before Spark starts or a lake is made.

    Brokers that cannot be asked now are waited for later.
    """
    state = state_of(options.lake)
    if options.store is not None:
        from orbitmq.spark.jobs.archive import stores
        from orbitmq.spark.offline.planning import open_stores

        open_stores(
            stores.offline_options(options.store, options.broker_name, options.topics, options.pattern)
        )
        return
    try:
        with _cluster(options) as cluster:
            queues_of(options, set(state.topics), cluster)
    except BadOption:
        raise
    except (NetError, SparkSourceError):
        return  # no name server answers, or it does not know the topic yet


def _columns(options: ArchiveOptions, lake: Lake | IcebergTable) -> tuple[tuple[str, ...], Schema | None]:
    """The columns to write, and the lake's schema if they change it. Raises BadOption, SchemaMismatch."""
    names = options.columns or tuple(name for name, _ in lake.state.schema) or NAMES
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        raise BadOption(f"there is no column {', '.join(unknown)}: {', '.join(NAMES)}")
    wanted = tuple(name for name in NAMES if (name in names or name in NEEDED) and name not in IN_PATH)
    return wanted, lake.state.check_columns(schema_of(wanted))


class TopicAway(SparkSourceError):
    """A topic that was there is not known now: restarted name servers hear of it within half a minute."""


def queues_of(options: ArchiveOptions, known: AbstractSet[str], cluster: Cluster) -> list[Queue]:
    """The queues to archive now. Raises BadOption for a topic that was never known, TopicAway."""
    topics: Sequence[str] = options.topics
    if options.pattern is not None:
        topics = cluster.topics_that_match(options.pattern)
        if not topics and not any(re.fullmatch(options.pattern, topic) for topic in known):
            raise BadOption(f"no topic matches {options.pattern!r}")
        if not topics:
            raise TopicAway(f"no topic matches {options.pattern!r} now, and some did before")
    found = []
    for topic in topics:
        queues = cluster.queues_of(topic)
        if queues is None and topic not in known:
            raise BadOption(f"topic {topic} does not exist")
        if not queues:
            raise TopicAway(f"topic {topic} has no queue that can be read now")
        found += queues
    return found


def plan(
    options: ArchiveOptions, state: LakeState, cluster: Cluster, known: AbstractSet[str] = frozenset()
) -> tuple[list[OffsetRange], list[Lost]]:
    """The ranges to archive now, and those that brokers have lost. Raises what `queues_of` does, DataLost."""
    queues = queues_of(options, known | set(state.topics), cluster)
    return what_is_new(state, cluster.bounds(queues), fail_on_data_loss=not options.allow_data_loss)


def _cluster(options: ArchiveOptions) -> Cluster:
    read = ReadOptions.parse({**options.setup.source_options, "subscribe": "x"})
    return Cluster(read.namesrv, read.connecting)


def _dry_run(options: ArchiveOptions, ui: JobUi) -> ArchiveResult:
    state = state_of(options.lake)
    if options.store is not None:
        from orbitmq.spark.jobs.archive import stores

        offline = stores.offline_options(options.store, options.broker_name, options.topics, options.pattern)
        _warn_of_absent(offline, ui)
        works = [work for batch in stores.store_batches(offline, state, workers=1) for work in batch.works]
        size_bytes = sum(len(one) for work in works for one in work.ranges)
        ui.say(f"would read {counted(size_bytes, 'byte')} of commit log, and archive what the lake lacks")
        return ArchiveResult(planned_bytes=size_bytes)
    with _cluster(options) as cluster:
        ranges, lost = plan(options, state, cluster)
    for one in ranges:
        where = f"{one.queue.topic} {one.queue.key}"
        ui.say(f"would archive {where}: offsets {one.from_queue_offset} to {one.to_queue_offset - 1}")
    return ArchiveResult(planned=sum(map(len, ranges)), lost=[str(one) for one in lost])


def _warn_of_absent(offline: OfflineOptions, ui: JobUi) -> None:
    from orbitmq.spark.offline.planning import without_queues

    for absent in without_queues(offline):
        ui.warn(absent)


@dataclass(eq=False, repr=False)
class _Run:
    """One run over an open lake."""

    _options: ArchiveOptions
    _ui: JobUi
    _lake: Lake | IcebergTable
    _spark: SparkSession
    _columns: tuple[str, ...]
    _schema: Schema | None
    _result: ArchiveResult

    def __post_init__(self) -> None:
        self._workers = _workers(self._spark)
        self._form = (
            self._lake.form(self._options.form)
            if isinstance(self._lake, IcebergTable)
            else self._options.form
        )

    def go(self) -> None:
        """Until nothing is new, or until Ctrl-C, which waits for no merge."""
        if self._options.store is not None:
            self._go_over_files(self._options.store)
        else:
            try:
                self._go_online()
            except KeyboardInterrupt:
                if self._options.follow_s is None:
                    raise
                return
        if self._options.compact:
            self.compact()

    def _go_over_files(self, store: str) -> None:
        from orbitmq.spark.jobs.archive import stores

        options, state = self._options, self._lake.state
        offline = stores.offline_options(store, options.broker_name, options.topics, options.pattern)
        _warn_of_absent(offline, self._ui)
        batches = stores.store_batches(offline, state, self._workers)
        with self._ui.progress("archiving", sum(len(batch.works) for batch in batches)) as bar:
            for batch in batches:
                state = self._lake.state
                task = stores.StoreTask(
                    self._lake.location,
                    self._lake.staging,
                    self._columns,
                    offline,
                    self._form,
                    {name: held[-1][1] for name, held in state.held.items()},
                    options.allow_data_loss,
                )
                written = self._persist(lambda: run_tasks(self._spark, task, batch.works))  # noqa: B023
                held = stores.joined(written, state, fail_on_data_loss=not options.allow_data_loss)
                files = [file for one in written for file in one.files]
                self._result.bad += [place for one in written for place in one.bad]
                sources = {batch.source: batch.done_to}
                self._lake.append(held, files, schema=self._schema, sources=sources)
                self._schema = None
                self._count(files)
                bar.advance(len(batch.works))

    def _go_online(self) -> None:
        options = self._options
        known: set[str] = set()
        with _cluster(options) as cluster, self._ui.progress("archiving") as bar:
            while True:
                ranges, lost = self._persist(lambda: plan(options, self._lake.state, cluster, known))
                known.update(one.queue.topic for one in ranges)
                self._result.lost += [str(one) for one in lost]
                for one in lost:
                    self._ui.warn(str(one))
                if ranges:
                    bar.set(total=self._result.messages + sum(map(len, ranges)))
                    self._archive(next_batch(ranges, options.batch_messages))
                    bar.set(done=self._result.messages)
                    if options.compact and options.follow_s is not None and self._due():
                        self.compact()
                elif options.follow_s is None:
                    break
                else:
                    bar.note("waiting for messages")
                    time.sleep(options.follow_s)
                    bar.note("")

    def _due(self) -> bool:
        return self._result.batches % self._options.compact_every == 0

    def _archive(self, ranges: list[OffsetRange]) -> None:
        """One batch, from the brokers to the commit."""
        options = self._options
        source = {
            **options.setup.reading_options,
            "failOnDataLoss": "false" if options.allow_data_loss else "true",
        }
        task = PieceTask(self._lake.location, self._lake.staging, self._columns, source, self._form)
        work = pieces(ranges, self._workers, options.file_messages)
        written = self._persist(lambda: run_tasks(self._spark, task, work))
        held = _joined(written, ranges)
        files = [file for one in written for file in one.files]
        self._lake.append(held, files, schema=self._schema)
        self._schema = None
        self._count(files)

    def _count(self, files: list[LakeFile]) -> None:
        self._result.batches += 1
        self._result.files += len(files)
        self._result.messages += sum(file.rows for file in files)
        self._result.size_bytes += sum(file.size_bytes for file in files)

    def compact(self) -> None:
        """Merges small files, a commit for every few groups."""
        options, lake = self._options, self._lake
        assert isinstance(lake, Lake), "Iceberg tables are not compacted here"
        groups = groups_to_merge(lake.state, options.target_bytes)
        task = MergeTask(lake.location, lake.staging, self._form)

        def merge(group: list[LakeFile]) -> Written:
            return Written((), task(group))

        for at in range(0, len(groups), self._workers):
            some = groups[at : at + self._workers]
            written = self._persist(lambda some=some: run_tasks(self._spark, merge, some))  # type: ignore[misc]
            removed = [file.path for group in some for file in group]
            lake.replace_files(removed, [file for one in written for file in one.files])
            self._result.merged += len(removed)

    def _persist(self, act: Callable[[], T]) -> T:
        """Tries again what brokers, workers or Spark have failed at: nothing is committed in between."""
        deadline: float | None = None
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                return act()
            except (NetError, SparkSourceError) as error:
                if type(error).__name__ in HOPELESS or isinstance(error, (LakeError, BadOption)):
                    raise
                failure: Exception = error
            except Exception as error:
                if isinstance(error, ConnectionError) or type(error).__name__ == "Py4JNetworkError":
                    raise JobFailed("Spark's JVM is gone: start the job again, it goes on") from error
                if not type(error).__module__.startswith(("pyspark", "py4j")) or is_hopeless(str(error)):
                    raise
                failure = error
            now = time.monotonic()
            deadline = now + self._options.retry_for_s if deadline is None else deadline
            if now >= deadline:
                raise failure
            self._result.repeated += 1
            self._ui.say(f"again in {pause_s:.1f} s: {_first_line(failure)}")
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


def _joined(written: Sequence[Written], ranges: Sequence[OffsetRange]) -> list[HeldRange]:
    """The pieces of each queue as one range again, as they were planned."""
    rows: dict[tuple[str, str], int] = {}
    for piece in (piece for one in written for piece in one.ranges):
        name = piece.topic, piece.queue
        rows[name] = rows.get(name, 0) + piece.rows
    return [
        HeldRange(
            one.queue.topic,
            one.queue.key,
            one.from_queue_offset,
            one.to_queue_offset,
            rows[one.queue.topic, one.queue.key],
        )
        for one in ranges
    ]


def _workers(spark: SparkSession) -> int:
    try:
        return max(1, spark.sparkContext.defaultParallelism)
    except Exception:  # Spark Connect does not say
        return 8


def is_hopeless(text: str) -> bool:
    """True for the text of an error that another try would only meet again."""
    return any(f".{name}: " in text for name in HOPELESS) or "No space left on device" in text


def _first_line(error: Exception) -> str:
    from orbitmq.spark.jobs.failures import useful_line

    return useful_line(str(error))
