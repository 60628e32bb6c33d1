"""The live part of a search: what brokers hold, by their index where that helps, else read through."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from orbitmq.net.address import format_address
from orbitmq.net.errors import NetError
from orbitmq.protocol.errors import BrokerRefused, NotFound, OrbitError
from orbitmq.protocol.records.ids import parse_offset_message_id
from orbitmq.protocol.requests.pull import QueryMessage, ViewMessageById
from orbitmq.spark.lake.state import LakeState
from orbitmq.spark.read.cluster import Cluster
from orbitmq.spark.read.plain_batch import BadBody
from orbitmq.spark.read.planning import Queue
from orbitmq.spark.read.scanner import RecordScanner

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from orbitmq.spark.errors import UnreadableBody
from orbitmq.spark.jobs.job import JobSetup

MOST_OF_INDEX = 64
"""Most messages that a broker returns from its index; as many may mean that there are more."""
OFFSET_ID_DIGITS = (32, 56)
"""Length of an id that says where a message is stored, with an IPv4 or an IPv6 address."""


@dataclass(frozen=True, slots=True)
class Indexed:
    """Messages from brokers' indexes, and whether these are all."""

    batches: tuple[tuple[str, pa.RecordBatch], ...]
    """Name of the broker and messages of it."""
    is_whole: bool


def by_index(
    cluster: Cluster,
    queues: Sequence[Queue],
    columns: tuple[str, ...],
    *,
    key: str | None,
    message_id: str | None,
    begin_ms: int,
    end_ms: int,
    max_body_bytes: int,
) -> Indexed:
    """Messages of the queues' topics by a key or id. Raises NetError, BrokerRefused, UnreadableBody."""
    found: list[tuple[str, pa.RecordBatch]] = []
    whole = True
    for topic, broker_name, address in sorted({(one.topic, one.broker_name, one.address) for one in queues}):
        for name, unique in ((key, False), (message_id, True)):
            if name is None:
                continue
            request = QueryMessage(
                topic, name, MOST_OF_INDEX, begin_ms, end_ms, is_unique_key=True if unique else None
            )
            try:
                body = cluster.ask(address, lambda peer, asked=request: peer.call(asked)).body  # type: ignore[misc]
            except NotFound:
                continue
            batch = _rows(body or b"", columns, topic, max_body_bytes)
            # Indexes hold hashes: other messages may be among these, and take the place of some.
            whole = whole and batch.num_rows < MOST_OF_INDEX // 2
            found.append((broker_name, batch))
    if message_id is not None:
        found += _by_place(cluster, queues, columns, message_id, max_body_bytes)
    return Indexed(tuple(found), whole)


def _by_place(
    cluster: Cluster,
    queues: Sequence[Queue],
    columns: tuple[str, ...],
    message_id: str,
    max_body_bytes: int,
) -> list[tuple[str, pa.RecordBatch]]:
    """The message with an offset id, if one of the queues' brokers is meant."""
    if len(message_id) not in OFFSET_ID_DIGITS:
        return []
    try:
        place = parse_offset_message_id(message_id)
    except OrbitError:
        return []  # an id that a sender gave, of the same length
    address = format_address(*place.address)
    names = {one.broker_name for one in queues if one.address == address}
    topics = {one.topic for one in queues}
    try:
        if names:
            body = cluster.ask(address, lambda peer: peer.call(ViewMessageById(place.physical_offset))).body
            rows = _rows(body or b"", columns, None, max_body_bytes)
            return (
                [(names.pop(), rows)] if rows.num_rows and rows.column("topic")[0].as_py() in topics else []
            )
    except BrokerRefused:
        pass  # nothing is stored there, or no longer
    return []


def _rows(
    records: bytes | memoryview, columns: tuple[str, ...], topic: str | None, max_body_bytes: int
) -> pa.RecordBatch:
    scanner = RecordScanner(columns, topic=topic, max_body_bytes=max_body_bytes)
    try:
        scanner.scan(records)
    except BadBody as error:
        raise UnreadableBody(f"a body of {topic or 'this message'} cannot be read: {error.reason}") from None
    return scanner.take()


Spans = dict[Queue, tuple[int, int]]
"""Queues, with the first offset and the one behind the last."""


def behind_the_lake(bounds: Spans, state: LakeState) -> Spans:
    """Ranges that the queues hold and the lake lacks; empty if there are none."""
    spans = {}
    for queue, (low, high) in bounds.items():
        held = state.held.get((queue.topic, queue.key), ())
        # Messages missing before or within the lake's part are read as well: then all of the queue is.
        edge = held[-1][1] if len(held) == 1 and held[0][0] <= low and held[0][1] <= high else low
        spans[queue] = (max(low, edge), high)
    return spans if any(low < high for low, high in spans.values()) else {}


def stretches(spans: Spans, messages: int) -> list[Spans]:
    """The spans in parts of about so many messages, cut where they are cut another time, too."""
    each = max(1, messages // max(1, len(spans)))
    parts: dict[int, Spans] = {}
    for queue, (low, high) in spans.items():
        for number in range(low // each, -(-high // each)):
            part = max(low, number * each), min(high, (number + 1) * each)
            parts.setdefault(number, {})[queue] = part
    return [part for _, part in sorted(parts.items())]


def read_spans(spark: SparkSession, setup: JobSetup, spans: Spans) -> DataFrame:
    """The messages of these spans that brokers still have."""
    starts: dict[str, dict[str, int]] = {}
    ends: dict[str, dict[str, int]] = {}
    for queue, (low, high) in spans.items():
        starts.setdefault(queue.topic, {})[queue.key] = low
        ends.setdefault(queue.topic, {})[queue.key] = high
    assigned = {topic: list(queues) for topic, queues in starts.items()}
    reader = spark.read.format("orbitmq").options(**setup.reading_options)
    return (
        reader.option("assign", json.dumps(assigned))
        .option("startingOffsets", json.dumps(starts))
        .option("endingOffsets", json.dumps(ends))
        .option("failOnDataLoss", "false")
        .load()
    )


__all__ = ["Indexed", "NetError", "behind_the_lake", "by_index", "read_spans", "stretches"]
