"""A search: the index of brokers first, then the lake, then the messages that are in neither."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from orbitmq.admin.messages import END_OF_TIME_MS
from orbitmq.spark import functions as sf
from orbitmq.spark.errors import BadOption
from orbitmq.spark.jobs.checkpoint import Checkpoint, checkpoint
from orbitmq.spark.jobs.job import QUIET, JobSetup, JobUi
from orbitmq.spark.jobs.preflight import need_order
from orbitmq.spark.jobs.search.live import (
    Spans,
    behind_the_lake,
    by_index,
    read_spans,
    stretches,
)
from orbitmq.spark.jobs.search.matching import Found, Wanted, matching, once
from orbitmq.spark.lake.errors import LakeError
from orbitmq.spark.lake.lake import load
from orbitmq.spark.lake.state import LakeState
from orbitmq.spark.lake.storage import LakeLocation
from orbitmq.spark.read.cluster import Bounds, Cluster
from orbitmq.spark.read.columns import BY_NAME
from orbitmq.spark.read.options import ReadOptions
from orbitmq.spark.read.planning import Queue

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = (
    "topic",
    "queueId",
    "queueOffset",
    "storeTimestamp",
    "bornTimestamp",
    "keys",
    "tags",
    "msgId",
    "offsetMsgId",
    "body",
    "properties",
)

ROWS = pa.schema(
    [
        pa.field(name, pa.int64() if name.endswith("Timestamp") else BY_NAME[name].arrow)
        for name in (*COLUMNS, "brokerName")
    ]
)
"""Columns that are kept of each message found; times are in ms."""


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """Options of `run`."""

    wanted: Wanted
    topics: tuple[str, ...] = ()
    """Empty: all that the lake has."""
    lake: LakeLocation | None = None
    live: bool = True
    """Ask brokers as well."""
    scan: bool = False
    """Read topics through and trust no index: one may have been off, or be shorter than the topic."""
    limit: int = 100
    setup: JobSetup = field(default_factory=JobSetup)
    piece_messages: int = 2_000_000
    """With a checkpoint: of topics, what a crash may have to read again. Of a lake that is a day."""


@dataclass(slots=True)
class SearchResult:
    """Messages found, oldest first."""

    messages: list[Found]
    files: int = 0
    """Files of the lake that were looked into."""
    files_left_out: int = 0
    """Those that could not hold such a message."""
    places: tuple[str, ...] = ()
    """Places searched."""
    cut: bool = False
    """There may be more: the limit is reached."""


def run(options: SearchOptions, ui: JobUi = QUIET) -> SearchResult:
    """Searches. Raises BadOption, JobFailed, LakeError, NetError, BrokerRefused."""
    options.wanted.check()
    need_order(options.wanted.since_ms, options.wanted.until_ms)
    asked = {
        "wanted": asdict(options.wanted),
        "topics": options.topics,
        "lake": None if options.lake is None else options.lake.url,
        "live": options.live and options.setup.source_options["namesrv"],
        "scan": options.scan,
        "limit": options.limit,
    }
    places = () if options.lake is None else (options.lake,)
    with checkpoint(options.setup.checkpoint, "search", asked, beside=places) as kept:
        return _search(options, ui, kept)


def _search(options: SearchOptions, ui: JobUi, kept: Checkpoint | None) -> SearchResult:
    state = LakeState() if options.lake is None else load(options.lake.open())
    topics = _topics_to_search(options, state)
    result = SearchResult([])
    found: list[Found] = []
    index_answered = False
    bounds: Bounds = {}
    if options.live:
        read = ReadOptions.parse({**options.setup.reading_options, "subscribe": ",".join(topics)})
        with Cluster(read.namesrv, read.connecting) as cluster:
            queues = _queues_to_search(cluster, options, topics, state)
            bounds = cluster.bounds(queues)
            if _indexed(options.wanted) and not options.scan:
                found, is_whole = _of_index(cluster, queues, options)
                # Without any answer it is unknown whether there was an index.
                index_answered = is_whole and bool(found)
                result.places += ("index",)
    reads_topics = options.live and not index_answered
    if options.lake is not None or reads_topics:
        with options.setup.session("search") as spark, ui.spark_progress(spark, "searching"):
            if options.lake is not None and (state.number or not options.live):
                found = _of_lake(spark, options, state, topics, result, kept) + found
                result.places = ("lake", *result.places)
            if reads_topics:
                found += _of_topics(spark, options, behind_the_lake(bounds, state), kept)
                result.places += ("topic",)
    result.messages = once(found, options.limit)
    result.cut = len(result.messages) == options.limit
    return result


def _topics_to_search(options: SearchOptions, state: LakeState) -> tuple[str, ...]:
    """Topics asked for, or all of the lake. Raises LakeError, BadOption."""
    if options.lake is not None and not state.number and not (options.live and options.topics):
        raise LakeError(f"{options.lake.url} holds no lake: `orbitmq job archive` makes one")
    topics = options.topics or tuple(state.topics)
    if not topics:
        raise BadOption("no topic to search: give --topic, or a lake that holds some")
    not_held = [topic for topic in topics if topic not in state.topics]
    if not_held and not options.live:
        raise BadOption(f"the lake has no topic {', '.join(not_held)}")
    return topics


def _queues_to_search(
    cluster: Cluster, options: SearchOptions, topics: tuple[str, ...], state: LakeState
) -> list[Queue]:
    """Queues of the topics. Raises BadOption for a topic that neither a broker nor the lake has."""
    by_topic = {topic: cluster.queues_of(topic) for topic in topics}
    missing = [topic for topic in topics if topic not in state.topics and not by_topic[topic]]
    if missing:
        where = "no broker has" if options.lake is None else "neither a broker nor the lake has"
        raise BadOption(f"{where} a topic {', '.join(missing)}")
    return [queue for of_it in by_topic.values() for queue in of_it or ()]


def _of_index(cluster: Cluster, queues: list[Queue], options: SearchOptions) -> tuple[list[Found], bool]:
    """Messages that the brokers' indexes name; true if the indexes name all there are."""
    wanted = options.wanted
    answer = by_index(
        cluster,
        queues,
        COLUMNS,
        key=wanted.key,
        message_id=wanted.message_id,
        begin_ms=wanted.since_ms or 0,
        end_ms=wanted.until_ms or END_OF_TIME_MS,
        max_body_bytes=options.setup.max_inflated_body_bytes,
    )
    found: list[Found] = []
    for broker_name, batch in answer.batches:
        rows = (_with_broker(row, broker_name) for row in batch.to_pylist())
        found += [one for one in _found(rows, "index") if _is(one, wanted)]
    return found, answer.is_whole


def _indexed(wanted: Wanted) -> bool:
    """True if brokers' indexes can answer: they have keys and unique ids, and nothing else.

    A regular expression of Java's can only be judged by Spark.
    """
    return (wanted.key is None) != (wanted.message_id is None) and wanted.pattern is None


def _of_lake(
    spark: SparkSession,
    options: SearchOptions,
    state: LakeState,
    topics: tuple[str, ...],
    result: SearchResult,
    kept: Checkpoint | None,
) -> list[Found]:
    from orbitmq.spark.lake.reading import read_lake

    lake = options.lake
    assert lake is not None
    topics = tuple(topic for topic in topics if topic in state.topics)
    files = [file for file in state.files.values() if file.topic in topics and options.wanted.may_be_in(file)]
    result.files = len(files)
    result.files_left_out = len(state.files) - len(files)

    def read(day: str | None) -> DataFrame:
        keep = options.wanted.may_be_in
        frame = read_lake(spark, lake, topics=topics, first_date=day, last_date=day, keep=keep)
        lacking = [name for name in COLUMNS if name not in frame.columns]
        if lacking:
            raise BadOption(f"the lake was written without {', '.join(lacking)}: it cannot be searched")
        return frame

    days: list[str | None] = [None]
    if kept is not None and files:
        days = [*sorted({file.date for file in files})]
    found: list[Found] = []
    for day in days:
        # A file that is made again, as by a merge, has another name.
        held = sorted((file.path, file.rows, file.size_bytes) for file in files if file.date == day)
        found += _collected(partial(read, day), options, "lake", str(held), kept)
        found = once(found, options.limit)
    return found


def _of_topics(
    spark: SparkSession, options: SearchOptions, spans: Spans, kept: Checkpoint | None
) -> list[Found]:
    parts = [spans] if kept is None and spans else stretches(spans, options.piece_messages)
    found: list[Found] = []
    for part in parts:
        name = str(sorted((queue.topic, queue.key, span) for queue, span in part.items()))
        found += _collected(partial(read_spans, spark, options.setup, part), options, "topic", name, kept)
        found = once(found, options.limit)
    return found


def _collected(
    read: Callable[[], DataFrame], options: SearchOptions, place: str, name: str, kept: Checkpoint | None
) -> list[Found]:
    """Matching messages of a piece. A piece that has changed has another `name`."""

    def look() -> list[dict[str, Any]]:
        chosen = matching(read(), options.wanted, options.limit).select(
            *(
                sf.unix_millis(column).alias(column) if column.endswith("Timestamp") else column
                for column in ROWS.names
            )
        )
        return [row.asDict() for row in chosen.collect()]

    if kept is None:
        return list(_found(look(), place))
    batches = kept.rows(f"{place} {name}", ROWS, lambda: [pa.RecordBatch.from_pylist(look(), schema=ROWS)])
    return [one for batch in batches for one in _found(batch.to_pylist(), place)]


def _found(rows: Iterable[dict[str, Any]], place: str) -> Iterable[Found]:
    for row in rows:
        yield Found(
            place,
            row["topic"],
            row["brokerName"],
            row["queueId"],
            row["queueOffset"],
            _ms(row["storeTimestamp"]),
            _ms(row["bornTimestamp"]),
            row["keys"],
            row["tags"],
            row["msgId"],
            row["offsetMsgId"],
            bytes(row["body"] or b""),
            tuple(sorted(dict(row["properties"] or ()).items())),
        )


def _with_broker(row: dict[str, Any], broker_name: str) -> dict[str, Any]:
    return {**row, "brokerName": broker_name}


def _ms(value: int | datetime | None) -> int:
    if isinstance(value, datetime):
        return round(value.replace(tzinfo=value.tzinfo or UTC).timestamp() * 1000)
    return value or 0


def _is(one: Found, wanted: Wanted) -> bool:
    """The value of `Wanted.predicate` for one message: indexes know hashes, and one condition of several."""
    return (
        (wanted.key is None or wanted.key in (one.keys or "").split(" "))
        and (
            wanted.message_id is None
            or wanted.message_id == one.message_id
            or wanted.message_id.upper() == one.offset_message_id
        )
        and (wanted.tag is None or wanted.tag == one.tags)
        and all(pair in one.properties for pair in wanted.properties)
        and (wanted.text is None or wanted.text.encode() in one.body)
        and (wanted.since_ms is None or one.store_ms >= wanted.since_ms)
        and (wanted.until_ms is None or one.store_ms < wanted.until_ms)
    )
