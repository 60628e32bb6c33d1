"""The writers as Spark sees them: made on the driver, pickled, and used again in every worker."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from orbitmq.client.core.identity import local_ip, unique_ids
from orbitmq.spark.errors import BadOption, SparkSourceError
from orbitmq.spark.sink.counts import Counts, report, total
from orbitmq.spark.sink.encoding import Encoder, Outgoing
from orbitmq.spark.sink.identity import PartitionIdentity
from orbitmq.spark.sink.options import WriteOptions
from orbitmq.spark.sink.queue_senders import QueueSenders
from orbitmq.spark.sink.routes import Routes
from orbitmq.spark.sink.seen import Seen
from orbitmq.spark.sink.shape import Shape, shape_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.types import StructType

LOOKED_UP_TOGETHER = 1024
"""Rows of a batch that is run again, looked up before they are sent."""


def batch_writer(given: Mapping[str, str], schema: StructType, overwrite: bool) -> BatchWriter:
    """The writer of a data frame. Raises BadOption, BadColumn."""
    if overwrite:
        raise BadOption('a topic cannot be overwritten, only appended to: use .mode("append")')
    options, shape = _checked(given, schema)
    return BatchWriter(options, shape, options.write_id or uuid.uuid4().hex)


def stream_writer(given: Mapping[str, str], schema: StructType, overwrite: bool) -> StreamWriter:
    """The writer of a stream. Raises BadOption, BadColumn."""
    if overwrite:
        raise BadOption('a topic cannot be overwritten, only appended to: use .outputMode("append")')
    return StreamWriter(*_checked(given, schema))


def _checked(given: Mapping[str, str], schema: StructType) -> tuple[WriteOptions, Shape]:
    options = WriteOptions.parse(given)
    shape = shape_of(schema, options)
    if options.topic is not None:
        Routes(options.namesrv, options.connecting).queues(options.topic)
    return options, shape


class BatchWriter(DataSourceArrowWriter):
    """`df.write.format("orbitmq")`."""

    def __init__(self, options: WriteOptions, shape: Shape, write_id: str) -> None:
        self._options = options
        self._shape = shape
        self._write_id = write_id

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Counts:
        """Sends the rows of one partition. Raises BadRow, BadOption, WriteFailed, CannotLookUp."""
        context = _context()
        identity = PartitionIdentity(self._write_id, 0, context.partitionId())
        return write_partition(iterator, self._options, self._shape, identity, context.attemptNumber())

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Tells what was written."""
        report(total(messages), batch_id=None, outcome="written", counts_file=self._options.counts_file)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Tells what stays written: nothing can take messages back."""
        report(total(messages), batch_id=None, outcome="aborted", counts_file=self._options.counts_file)


class StreamWriter(DataSourceStreamArrowWriter):
    """`df.writeStream.format("orbitmq")`."""

    def __init__(self, options: WriteOptions, shape: Shape) -> None:
        self._options = options
        self._shape = shape

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Counts:
        """Sends the rows of one partition of a micro-batch. Raises what a batch's `write` raises."""
        context = _context()
        query_id = context.getLocalProperty("sql.streaming.queryId")
        batch_id = context.getLocalProperty("streaming.sql.batchId")
        if query_id is None or batch_id is None:
            raise SparkSourceError("Spark does not say which query and batch this is")
        write_id = self._options.write_id or query_id
        identity = PartitionIdentity(write_id, int(batch_id), context.partitionId())
        return write_partition(iterator, self._options, self._shape, identity, context.attemptNumber())

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Tells what was written."""
        report(total(messages), batch_id=batchId, outcome="written", counts_file=self._options.counts_file)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Tells what stays written: nothing can take messages back."""
        report(total(messages), batch_id=batchId, outcome="aborted", counts_file=self._options.counts_file)


def _context() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise SparkSourceError("this runs in Spark's tasks only")
    return context


def write_partition(
    batches: Iterable[pa.RecordBatch],
    options: WriteOptions,
    shape: Shape,
    identity: PartitionIdentity,
    attempt: int,
) -> Counts:
    """Sends the rows of one partition and counts them. `attempt` above 0: another task began on them."""
    ids = unique_ids(local_ip(options.namesrv[0]))
    encoder = Encoder(shape, options, identity=identity if options.idempotent else None, new_id=ids.new)
    messages = (message for batch in batches for message in encoder.encode(batch))
    counts = Counts()
    routes = Routes(options.namesrv, options.connecting)
    if not options.idempotent:
        senders = QueueSenders(options, routes, counts)
        try:
            _add_all(senders, messages)
        finally:
            senders.close()
        return counts
    seen = Seen(options, routes)
    senders = QueueSenders(options, routes, counts, seen)
    try:
        if shape.once_key is None:
            _write_once(senders, seen, messages, counts, attempt)
        elif options.first_run and not attempt:
            _add_all(senders, messages)
        else:
            _write_missing(senders, seen, messages, counts, set())
    finally:
        senders.close()
        seen.close()
    return counts


def _add_all(senders: QueueSenders, messages: Iterable[Outgoing]) -> None:
    for message in messages:
        senders.add(message)
    senders.finish()


def _write_once(
    senders: QueueSenders, seen: Seen, messages: Iterator[Outgoing], counts: Counts, attempt: int
) -> None:
    """Sends what is not there yet.

    The first message shows whether the partition was begun before: it goes alone, and nothing follows it
    before a look-up finds it. So a partition whose first message is not there has sent nothing else.
    """
    first = next(messages, None)
    if first is None:
        return
    if attempt:
        seen.wait_until_indexed([first.topic])
    if seen.not_found([first]):
        senders.store_now(first)
        seen.until_shown(first)
        _add_all(senders, messages)
        return
    counts.already_there += 1
    _write_missing(senders, seen, messages, counts, {first.topic} if attempt else set())


def _write_missing(
    senders: QueueSenders, seen: Seen, messages: Iterator[Outgoing], counts: Counts, indexed: set[str]
) -> None:
    """Looks all messages up and sends those that are not there. Those of `indexed` topics are searchable."""
    while chunk := _next_messages(messages, LOOKED_UP_TOGETHER):
        new_topics = {message.topic for message in chunk} - indexed
        if new_topics:
            seen.wait_until_indexed(new_topics)
            indexed |= new_topics
        missing = seen.not_found(chunk)
        counts.already_there += len(chunk) - len(missing)
        for message in missing:
            senders.add(message)
    senders.finish()


def _next_messages(messages: Iterator[Outgoing], count: int) -> list[Outgoing]:
    taken = []
    for message in messages:
        taken.append(message)
        if len(taken) == count:
            break
    return taken
