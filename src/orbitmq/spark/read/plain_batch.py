"""Stored records to Arrow for the interpreter: columns are lists of Python values.

`collecting_cy` and `batch_builder_cy` do the same where they are compiled; tests compare the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pyarrow as pa

from orbitmq.protocol.records.compression import (
    CompressionError,
    CompressionMissing,
    InflatedTooLarge,
    inflate,
)
from orbitmq.protocol.records.ids import host_text
from orbitmq.protocol.records.inner_batch import is_inner_batch, plain_messages
from orbitmq.protocol.records.message import COMPRESSED, BadRecord, StoredMessage
from orbitmq.protocol.records.message_cy import decode_record
from orbitmq.protocol.records.properties_cy import decode_properties
from orbitmq.protocol.records.scans import PARTS_PER_RECORD
from orbitmq.spark.read.column_types import COLUMN_TYPES, FROM_PROPERTIES, MAX_TIME_MS
from orbitmq.spark.read.selection_cy import Selection


class BadBody(BadRecord):
    """A sound record whose body cannot be inflated, or not within the maximum."""


class PlainBatch:
    """The rows of a batch."""

    def __init__(self, names: tuple[str, ...], max_body_bytes: int, null_unreadable: bool = False) -> None:
        self._columns: dict[str, list[Any]] = {name: [] for name in names}
        self._max_body_bytes = max_body_bytes
        self._null_unreadable = null_unreadable
        self.unreadable = 0
        """Rows whose body is null because it cannot be inflated."""
        self.unreadable_reason = ""
        """The reason of the last one of them."""
        self._reads_properties = not FROM_PROPERTIES.isdisjoint(names)
        self._rows = 0
        self._size_bytes = 0

    def row_count(self) -> int:
        return self._rows

    def size_bytes(self) -> int:
        """Memory that the rows need in Arrow, without what marks nulls."""
        return self._size_bytes

    def add(self, record: StoredMessage, selection: Selection) -> None:
        """Adds those messages of a record whose queue offset and tag are selected.

        Raises BadRecord, CompressionError, CompressionMissing.
        """
        messages: Iterable[StoredMessage] = (record,)
        if is_inner_batch(record.sys_flag):
            try:
                messages = plain_messages(record, self._max_body_bytes)
            except (BadRecord, CompressionError) as error:
                self._note_unreadable(error)
                record = replace(record, sys_flag=record.sys_flag & ~COMPRESSED, body=None)  # type: ignore[arg-type]
                messages = (record,)
        for message in messages:
            if not selection.takes_offset(message.queue_offset):
                continue
            properties: dict[str, str] = {}
            if self._reads_properties or selection.has_tags:
                properties = decode_properties(message.properties)
            if selection.takes_tag(properties.get("TAGS")):
                self._add_row(message, properties, record.sys_flag)

    def _note_unreadable(self, error: Exception) -> None:
        """Counts a body that is null. Raises the error if there may be none."""
        if not self._null_unreadable or isinstance(error, CompressionMissing):
            raise error
        self.unreadable += 1
        self.unreadable_reason = reason_of(error)

    def _add_row(self, message: StoredMessage, properties: dict[str, str], sys_flag: int) -> None:
        if message.sys_flag & COMPRESSED and "body" in self._columns:
            try:
                body = inflate(message.body, message.sys_flag, self._max_body_bytes)
                message = message.with_body(body)
            except CompressionError as error:
                self._note_unreadable(error)
                message = replace(message, body=None)  # type: ignore[arg-type]
        row = {name: _VALUES[name](message, properties) for name in self._columns}
        if "sysFlag" in row:
            row["sysFlag"] = sys_flag  # as stored; an inflated message no longer has its bits
        for name, value in row.items():
            self._columns[name].append(value)
            self._size_bytes += _value_bytes(COLUMN_TYPES[name], value)
        self._rows += 1

    def arrays(self) -> list[pa.Array]:
        return [pa.array(values, COLUMN_TYPES[name]) for name, values in self._columns.items()]


def collect_records(
    batch: PlainBatch,
    selection: Selection,
    buf: Any,
    table: bytearray,
    first: int,
    on_bad: Callable[[BadRecord], object],
    limit: int,
    base: int,
    max_bytes: int,
) -> int:
    """`collecting_cy.collect_records` for the interpreter."""
    places = memoryview(table).cast("q")[::PARTS_PER_RECORD]
    for number in range(first, len(places)):
        position = places[number]
        if position >= limit:
            return number
        try:
            record = decode_record(buf, position, False)
            if base >= 0 and (record.physical_offset != base + position or record.queue_offset < 0):
                raise misplaced(record.physical_offset, base + position, record.queue_offset)
            if selection.takes(record):
                batch.add(record, selection)
        except (BadRecord, CompressionError) as error:
            on_bad(bad_record_of(error, position))
            return number + 1
        if 0 <= max_bytes <= batch.size_bytes():
            return number + 1
    return len(places)


def misplaced(claimed: int, physical_offset: int, queue_offset: int) -> BadRecord:
    """The error for a record that is not where it says, or names no place in a queue."""
    if claimed != physical_offset:
        return BadRecord(f"a record for physical offset {claimed} is at {physical_offset}")
    return BadRecord(f"{queue_offset} is no queue offset")


def bad_record_of(error: Exception, position: int) -> BadRecord:
    """The error of a record that could not be read, with its position in the buffer.

    Raises the error itself if the record is not to blame: the library to inflate with is missing.
    """
    if isinstance(error, BadRecord):
        return BadRecord(error.reason, position)
    if isinstance(error, ValueError):
        return BadBody(reason_of(error), position)
    raise error


def reason_of(error: Exception) -> str:
    """The reason that a body cannot be inflated, with the option that helps."""
    if isinstance(error, InflatedTooLarge):
        return f"{error}, the maximum by maxInflatedBodyBytes (of a job --max-inflated-body-bytes)"
    return str(error)


_VALUES: dict[str, Callable[[StoredMessage, dict[str, str]], Any]] = {
    "topic": lambda message, properties: message.topic,
    "queueId": lambda message, properties: message.queue_id,
    "queueOffset": lambda message, properties: message.queue_offset,
    "physicalOffset": lambda message, properties: message.physical_offset,
    "keys": lambda message, properties: properties.get("KEYS"),
    "tags": lambda message, properties: properties.get("TAGS"),
    "body": lambda message, properties: message.body,
    "properties": lambda message, properties: list(properties.items()),
    "flag": lambda message, properties: message.flag,
    "sysFlag": lambda message, properties: message.sys_flag,
    "bornTimestamp": lambda message, properties: _micros(message.born_timestamp),
    "storeTimestamp": lambda message, properties: _micros(message.store_timestamp),
    "bornHost": lambda message, properties: host_text(message.born_host),
    "storeHost": lambda message, properties: host_text(message.store_host),
    "msgId": lambda message, properties: properties.get("UNIQ_KEY", message.offset_id),
    "offsetMsgId": lambda message, properties: message.offset_id,
    "reconsumeTimes": lambda message, properties: message.reconsume_times,
    "recordSize": lambda message, properties: message.size,
    "propertyBytes": lambda message, properties: message.properties,
}


def _micros(time_ms: int) -> int | None:
    return time_ms * 1000 if -MAX_TIME_MS <= time_ms <= MAX_TIME_MS else None


def _value_bytes(kind: pa.DataType, value: Any) -> int:
    if value is None and kind == pa.binary():
        return 4
    if isinstance(value, str):
        return 4 + len(value.encode())
    if isinstance(value, bytes):
        return 4 + len(value)
    if isinstance(value, list):
        return 4 + sum(8 + len(name.encode()) + len(text.encode()) for name, text in value)
    return 4 if kind == pa.int32() or kind == pa.string() else 8
