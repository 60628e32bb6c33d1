"""The read of a Spark task: pulls its offsets and yields Arrow batches. Runs in the workers."""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Iterator

import pyarrow as pa

from orbitmq.protocol.errors import BrokerRefused
from orbitmq.spark.errors import SparkSourceError, UnreadableBody
from orbitmq.spark.read.cluster import Cluster
from orbitmq.spark.read.columns import BROKER_NAME, arrow_schema
from orbitmq.spark.read.options import ReadOptions
from orbitmq.spark.read.plain_batch import BadBody
from orbitmq.spark.read.planning import OffsetRange, Queue
from orbitmq.spark.read.pulling import QueuePuller, log_loss, refuse_loss
from orbitmq.spark.read.scanner import RecordScanner

log = logging.getLogger(__name__)

_OFFSET_AT = 20
"""Place of the queue offset in a record."""


def read_range(work: OffsetRange, options: ReadOptions, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """Pulls the offsets of `work` and yields their messages as Arrow batches, in queue order.

    A batch has about `maxBatchBytes`, a large body more. Raises DataLost, UnreadableBody, NetError,
    BrokerRefused.
    """
    scanned = tuple(name for name in columns if name != BROKER_NAME) or ("queueOffset",)
    scanner = RecordScanner(
        scanned,
        tags=frozenset(options.tags) or None,
        max_body_bytes=options.max_inflated_body_bytes,
        null_unreadable=not options.fail_on_unreadable_body,
    )
    finish = functools.partial(_take, scanner, queue=work.queue, columns=columns)
    puller = QueuePuller(
        work,
        group=options.group,
        subscription=options.subscription,
        expression_type=options.expression_type,
        connecting=options.connecting,
        on_loss=refuse_loss if options.fail_on_data_loss else log_loss,
        relocate=functools.partial(relocated, options=options),
    )
    with contextlib.closing(iter(puller)) as answers:
        for records, from_queue_offset, to_queue_offset in answers:
            try:
                for _ in scanner.fill(records, from_queue_offset, to_queue_offset, options.max_batch_bytes):
                    yield finish()
            except BadBody as error:
                raise _unreadable(work.queue, records, error) from None
    if scanner.rows:
        yield finish()


def relocated(queue: Queue, options: ReadOptions) -> Queue:
    """The queue with the address that name servers give now; unchanged where they know nothing of it."""
    try:
        with Cluster(options.namesrv, options.connecting) as cluster:
            found = cluster.queues_of(queue.topic) or []
    except (SparkSourceError, BrokerRefused) as error:
        log.warning("looking for %s %s: %s", queue.topic, queue.key, error)
        return queue
    return next((one for one in found if one == queue), queue)


def _unreadable(queue: Queue, records: bytes | memoryview, error: BadBody) -> UnreadableBody:
    at = error.position + _OFFSET_AT
    place = int.from_bytes(records[at : at + 8], "big")
    return UnreadableBody(
        f"{queue.topic} {queue.key}: the body at offset {place} cannot be read: {error.reason}; "
        "failOnUnreadableBody=false reads such bodies as null"
    )


def _take(scanner: RecordScanner, *, queue: Queue, columns: tuple[str, ...]) -> pa.RecordBatch:
    """The rows collected so far. Bodies that are null are told in the log."""
    unreadable, reason = scanner.unreadable
    if unreadable:
        log.warning("%s %s: bodies of %d messages are null: %s", queue.topic, queue.key, unreadable, reason)
    batch = scanner.take()
    if BROKER_NAME not in columns:
        return batch
    name = pa.repeat(pa.scalar(queue.broker_name, pa.string()), batch.num_rows)
    arrays = [name if column == BROKER_NAME else batch.column(column) for column in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(columns))
