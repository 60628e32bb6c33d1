"""From stored records to Arrow: a pull's answer, or a range of a commit log, becomes a RecordBatch.

Hot: every record that Spark reads passes here. Compiled, the asked columns grow as plain memory, without a
Python object per message (but for compressed bodies and inner batches), and Arrow takes them over as they
are. Interpreted, they grow as lists. Both ways give the same batches.
"""
# ruff: noqa: F821
# (Py_buffer is a name that only the compiler knows.)
# mypy: disable-error-code="name-defined"

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

try:
    import cython
except ModuleNotFoundError:
    from orbitmq import _cython_shim as cython  # type: ignore[no-redef]

from orbitmq.protocol.records.compression import CompressionError, inflate
from orbitmq.protocol.records.ids import host_text
from orbitmq.protocol.records.inner_batch import is_inner_batch, plain_messages
from orbitmq.protocol.records.message import FIXED_BYTES, BadRecord, StoredMessage
from orbitmq.protocol.records.message_cy import decode_record
from orbitmq.protocol.records.properties_cy import decode_properties
from orbitmq.protocol.records.scanning_cy import locate_records
from orbitmq.protocol.records.scans import Stop

if cython.compiled:
    from cython.cimports.cpython.buffer import (  # type: ignore[import-not-found]
        PyBUF_SIMPLE,
        PyBuffer_Release,
        PyObject_GetBuffer,
    )
    from cython.cimports.orbitmq.protocol.buffers.bounded import (  # type: ignore[import-not-found]
        Reader,
        Span,
        Writer,
        byte_of,
        bytes_of,
        find_byte,
        find_end,
        get_native_i64,
        i32_of,
        i64_of,
        is_ascii,
        is_literal,
        is_same,
        is_there,
        left_of,
        make_room,
        new_array,
        no_span,
        part_of,
        put_hex_span,
        put_native_i32,
        put_native_i64,
        put_span,
        reader_over,
        replaced_text_of,
        rest_of,
        span_of,
        span_of_array,
        span_over,
        span_written,
        unread,
        writer_of,
        writer_over,
        written,
    )
    from cython.cimports.orbitmq.protocol.records.located import Parts, get_parts  # type: ignore[import-not-found]

__all__ = ["COLUMN_TYPES", "LogScan", "RecordScanner"]

MAX_BODY_BYTES = 64 << 20
"""Limit in bytes of a decompressed body. Brokers accept 4 MiB by default."""

MAX_QUEUE_OFFSET = (1 << 63) - 1
_MAX_TIME_MS = MAX_QUEUE_OFFSET // 1000
_RECORDS_AT_ONCE = 1024
"""Records of a commit log that are located before their columns are filled: they stay in the cache."""

_FROM_PROPERTIES = frozenset({"properties", "keys", "tags", "msgId"})
"""Columns for which a record's properties have to be read."""

_TIME = pa.timestamp("us", tz="UTC")

COLUMN_TYPES: dict[str, pa.DataType] = {
    "topic": pa.string(),
    "queueId": pa.int32(),
    "queueOffset": pa.int64(),
    "physicalOffset": pa.int64(),
    "keys": pa.string(),
    "tags": pa.string(),
    "body": pa.binary(),
    "properties": pa.map_(pa.string(), pa.string()),
    "flag": pa.int32(),
    "sysFlag": pa.int32(),
    "bornTimestamp": _TIME,
    "storeTimestamp": _TIME,
    "bornHost": pa.string(),
    "storeHost": pa.string(),
    "msgId": pa.string(),
    "offsetMsgId": pa.string(),
    "reconsumeTimes": pa.int32(),
    "recordSize": pa.int32(),
    "propertyBytes": pa.binary(),
}
"""The columns there are. All may hold nulls as far as the schema says; `keys` and `tags` are null where a
message has none, times where Arrow's microseconds cannot hold what the record says."""


class LogScan(NamedTuple):
    """The end of a scan of a commit log, and its reason."""

    position: int
    """Position of the next record; for Stop.BLANK, EMPTY and BAD the position of the reason."""
    stop: Stop | None
    """None: the batch is full."""
    reason: str = ""
    """In words, for Stop.BAD."""
    size: int = 0
    """Of a bad record whose parts add up all the same: its size in bytes."""


class RecordScanner:
    """Collects the asked columns of records, batch by batch.

    `topic` leaves out records of other topics (a commit log holds all of them), and so does `accept`, which
    is asked once per topic. `tags` leaves out those whose tag is none of these; `from_time_ms` and
    `to_time_ms` those stored before the one, or not before the other. Half messages and what was rolled back
    (transaction type prepared or rollback) never count. Of an inner batch each message is a row.

    A record that is damaged raises BadRecord; what was before it stays collected. With `skip_bad` it is left
    out and kept in `bad` instead; the scan goes on behind it where its size can be believed.
    """

    def __init__(
        self,
        columns: Sequence[str],
        *,
        topic: str | None = None,
        accept: Callable[[str], bool] | None = None,
        tags: frozenset[str] | None = None,
        from_time_ms: int | None = None,
        to_time_ms: int | None = None,
        skip_bad: bool = False,
        max_body_bytes: int = MAX_BODY_BYTES,
    ) -> None:
        unknown = [name for name in columns if name not in COLUMN_TYPES]
        if unknown:
            raise ValueError(f"there are no columns {', '.join(unknown)}")
        if not columns or len(set(columns)) != len(columns):
            raise ValueError(f"columns have to be asked for, and once each: {', '.join(columns)}")
        self.columns = tuple(columns)
        self.schema = pa.schema([pa.field(name, COLUMN_TYPES[name]) for name in self.columns])
        self.bad: list[BadRecord] = []
        if topic is not None:
            accept = topic.__eq__
        self._wanted = _Wanted(
            accept,
            -MAX_QUEUE_OFFSET - 1 if from_time_ms is None else from_time_ms,
            MAX_QUEUE_OFFSET if to_time_ms is None else to_time_ms - 1,
        )
        self._tags = None if tags is None else {tag.encode() for tag in tags}
        self._skip_bad = skip_bad
        self._max_body_bytes = max_body_bytes
        self._collected: Any = None
        self._reset()

    def _reset(self) -> None:
        if cython.compiled:
            self._collected = _Columns(self.columns, self._tags, self._max_body_bytes, self._collected)
        else:
            self._collected = _Lists(self.columns, self._tags, self._max_body_bytes)

    @property
    def rows(self) -> int:
        """Rows collected and not yet taken."""
        rows: int = self._collected.row_count()
        return rows

    @property
    def size_bytes(self) -> int:
        """Memory of the rows collected and not yet taken, as the Arrow batch will need it (but for nulls)."""
        size: int = self._collected.size_bytes()
        return size

    def scan(self, buf: Any, from_queue_offset: int = 0, to_queue_offset: int = MAX_QUEUE_OFFSET) -> int:
        """Collects the records of a buffer whose queue offset is in [from, to); gives the number of new rows.

        The records stand back to back; the scan ends at the end of the buffer, or where a commit-log file has
        nothing more. Raises BadRecord, CompressionMissing.
        """
        before = self.rows
        position = 0
        self._wanted.set_offsets(from_queue_offset, to_queue_offset)
        while True:
            found = locate_records(buf, position)
            if len(found.table):
                self._collect(buf, found.table)
            position = found.position
            if found.stop is Stop.BAD:
                position = self._step_over(buf, position, found.reason)
            elif found.stop is not Stop.END or position >= len(buf):
                break
            if position < 0:
                break
        return self.rows - before

    def _collect(self, buf: Any, table: bytearray) -> None:
        number = 0
        while number < len(table) // 64:
            number = _collect(
                self._collected, buf, table, number, self._wanted, self._bad, MAX_QUEUE_OFFSET, -1, -1
            )

    def scan_log(self, buf: Any, start: int, limit: int, base: int, max_bytes: int) -> LogScan:
        """Collects the records that begin in `buf[start:limit]`, until about `max_bytes` are collected.

        `base` is the physical offset of byte 0 of the buffer: a record that says it is elsewhere is bad. The
        first bad record ends the scan, whatever `skip_bad` says: what is behind it is the caller's to find.
        """
        self._wanted.set_offsets(-1, MAX_QUEUE_OFFSET)
        position = start
        while True:
            if position >= limit:
                return LogScan(position, Stop.END)
            found = locate_records(buf, position, 1 << 62, True, _RECORDS_AT_ONCE)
            count = len(found.table) // 64
            if count:
                bad: list[BadRecord] = []
                done = _collect(
                    self._collected,
                    buf,
                    found.table,
                    0,
                    self._wanted,
                    bad.append,
                    limit,
                    base,
                    max_bytes,
                )
                if bad:
                    size = int.from_bytes(buf[bad[0].position : bad[0].position + 4], "big")
                    return LogScan(bad[0].position, Stop.BAD, bad[0].reason, size)
                if done < count:
                    row = memoryview(found.table).cast("q")[done * 8]
                    return LogScan(row, Stop.END if row >= limit else None)
            position = found.position
            if found.stop is Stop.END:
                continue
            if position >= limit:
                return LogScan(position, Stop.END)
            return LogScan(position, found.stop, found.reason)

    def _bad(self, error: BadRecord) -> None:
        if not self._skip_bad:
            raise error
        self.bad.append(error)

    def _step_over(self, buf: Any, position: int, reason: str) -> int:
        """The position behind a bad record; -1 if its size is unknown."""
        self._bad(BadRecord(reason, position))
        if len(buf) - position < FIXED_BYTES:
            return -1
        size = int.from_bytes(buf[position : position + 4], "big", signed=True)
        return position + size if FIXED_BYTES <= size <= len(buf) - position else -1

    def take(self) -> pa.RecordBatch:
        """The rows collected so far, as one batch with the columns in the order asked; begins anew."""
        arrays = self._collected.arrays()
        self._reset()
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _collect(
    collected: Any,
    buf: Any,
    table: bytearray,
    first: cython.Py_ssize_t,
    wanted: Any,
    bad: Any,
    limit: cython.longlong,
    base: cython.longlong,
    max_bytes: cython.longlong,
) -> int:
    """Adds the records of a table from number `first` on; gives the number to go on with.

    That is behind the last one when all are done; behind a record that was passed to `bad`; before one that
    begins at `limit` or later; and behind the one with which `max_bytes` (-1: no bound) were reached. With
    `base` (else -1) a record has to say of itself that it is where it is, and to have a place in its queue.
    """
    if not cython.compiled:
        return _plain_collect(collected, buf, table, first, wanted, bad, limit, base, max_bytes)
    view: Py_buffer
    data: Span
    rows: Reader = reader_over(rest_of(span_of_array(table), first * 64))
    row: Parts
    columns: _Columns = collected
    choice: _Wanted = wanted
    every_topic: cython.bint = choice.accept is None
    sys_flag: cython.int
    offset: cython.longlong
    stored: cython.longlong
    number: cython.Py_ssize_t = first
    PyObject_GetBuffer(buf, cython.address(view), PyBUF_SIMPLE)
    try:
        data = span_over(view.buf, view.len)
        while get_parts(cython.address(rows), cython.address(row)):
            if row.record >= limit:
                return number
            offset = i64_of(data, row.record + 20)
            if base >= 0 and i64_of(data, row.record + 28) != base + row.record:
                raise _misplaced(i64_of(data, row.record + 28), base + row.record)
            if base >= 0 and offset < 0:
                raise BadRecord(f"{offset} is no queue offset")
            sys_flag = i32_of(data, row.record + 36)
            # Half messages and what was rolled back are nobody's to read.
            if not sys_flag & 0x4 and (
                every_topic or choice.takes_topic(part_of(data, row.topic, row.topic_length))
            ):
                stored = i64_of(data, row.store_time)
                if choice.from_time_ms <= stored <= choice.last_time_ms:
                    if (sys_flag & 0xC0) == 0xC0:
                        columns.add_inner_batch(
                            buf, data, row, choice.from_queue_offset, choice.to_queue_offset
                        )
                    elif choice.from_queue_offset <= offset < choice.to_queue_offset:
                        columns.add_record(data, row, sys_flag, offset)
            number += 1
            if max_bytes >= 0 and columns.weight >= max_bytes:
                return number
    except (BadRecord, CompressionError) as error:
        bad(_as_bad(error, row.record))
        return number + 1
    finally:
        PyBuffer_Release(cython.address(view))
    return number


def _plain_collect(
    collected: Any,
    buf: Any,
    table: bytearray,
    first: int,
    wanted: Any,
    bad: Any,
    limit: int,
    base: int,
    max_bytes: int,
) -> int:
    """`_collect` for the interpreter."""
    rows = memoryview(table).cast("q")
    for number in range(first, len(table) // 64):
        position = rows[number * 8]
        if position >= limit:
            return number
        try:
            record = decode_record(buf, position, False)
            if base >= 0 and record.physical_offset != base + position:
                raise _misplaced(record.physical_offset, base + position)
            if base >= 0 > record.queue_offset:
                raise BadRecord(f"{record.queue_offset} is no queue offset")
            if (
                not record.sys_flag & 0x4
                and wanted.takes(record.topic.encode())
                and wanted.from_time_ms <= record.store_timestamp <= wanted.last_time_ms
            ):
                collected.add(record, wanted.from_queue_offset, wanted.to_queue_offset)
        except (BadRecord, CompressionError) as error:
            bad(_as_bad(error, position))
            return number + 1
        if 0 <= max_bytes <= collected.size_bytes():
            return number + 1
    return len(table) // 64


def _misplaced(claimed: int, physical_offset: int) -> BadRecord:
    return BadRecord(f"a record for physical offset {claimed} is at {physical_offset}")


@cython.final
@cython.cclass
class _Wanted:
    """Selection of records that become rows, apart from their tags."""

    accept: Any
    from_queue_offset: cython.longlong
    to_queue_offset: cython.longlong
    from_time_ms: cython.longlong
    last_time_ms: cython.longlong
    answers: Any
    # The topics met last, by a hash of their names, and whether they are wanted.
    names: list[Any]
    said: cython.bint[64]

    def __init__(self, accept: Any, from_time_ms: int, last_time_ms: int) -> None:
        self.accept = accept
        self.from_queue_offset = 0
        self.to_queue_offset = 0x7FFFFFFFFFFFFFFF
        self.from_time_ms = from_time_ms
        self.last_time_ms = last_time_ms
        self.answers = {}
        self.names = [None] * 64

    def set_offsets(self, from_queue_offset: int, to_queue_offset: int) -> None:
        """Bounds of queue offsets, the second not included."""
        self.from_queue_offset = from_queue_offset
        self.to_queue_offset = to_queue_offset

    def takes(self, topic: bytes) -> bool:
        """True if a topic is wanted."""
        if self.accept is None:
            return True
        answer = self.answers.get(topic)
        if answer is None:
            answer = self.answers[topic] = bool(self.accept(topic.decode()))
        return answer

    @cython.cfunc
    def takes_topic(self, topic: Span) -> cython.int:
        """`takes`, mostly without an object. Compiled only."""
        slot: cython.int
        name: bytes
        slot = (
            cython.cast(cython.int, topic.size) * 31
            + byte_of(topic, topic.size - 1) * 7
            + byte_of(topic, topic.size >> 1)
        ) & 63
        if self.names[slot] is not None:
            name = self.names[slot]
            if is_same(span_of(name), topic):
                return self.said[slot]
        name = bytes_of(topic)
        self.said[slot] = self.takes(name)
        self.names[slot] = name
        return self.said[slot]


def _as_bad(error: Exception, position: int) -> BadRecord:
    if isinstance(error, BadRecord):
        return BadRecord(error.reason, position)
    if isinstance(error, ValueError):
        return BadRecord(str(error), position)
    # The library to inflate with is missing: that is no fault of the record.
    raise error


# ---- interpreted ----


class _Lists:
    """The columns as lists of Python values."""

    def __init__(self, columns: tuple[str, ...], tags: set[bytes] | None, max_body_bytes: int) -> None:
        self._columns: dict[str, list[Any]] = {name: [] for name in columns}
        self._tags = None if tags is None else {tag.decode() for tag in tags}
        self._max_body_bytes = max_body_bytes
        self._looks_at_properties = tags is not None or not _FROM_PROPERTIES.isdisjoint(columns)
        self._rows = 0
        self._size_bytes = 0

    def row_count(self) -> int:
        return self._rows

    def size_bytes(self) -> int:
        return self._size_bytes

    def add(self, record: StoredMessage, from_offset: int, to_offset: int) -> None:
        if is_inner_batch(record.sys_flag):
            for message in plain_messages(record, self._max_body_bytes):
                if from_offset <= message.queue_offset < to_offset:
                    self._add_row(message, record.sys_flag)
        elif from_offset <= record.queue_offset < to_offset:
            self._add_row(record, record.sys_flag)

    def _add_row(self, message: StoredMessage, sys_flag: int) -> None:
        properties = decode_properties(message.properties) if self._looks_at_properties else {}
        if self._tags is not None and properties.get("TAGS") not in self._tags:
            return
        if message.sys_flag & 1 and "body" in self._columns:
            message = message.with_body(inflate(message.body, message.sys_flag, self._max_body_bytes))
        row = {name: _VALUES[name](message, properties) for name in self._columns}
        if "sysFlag" in row:
            row["sysFlag"] = sys_flag
        for name, value in row.items():
            self._columns[name].append(value)
            self._size_bytes += _value_bytes(COLUMN_TYPES[name], value)
        self._rows += 1

    def arrays(self) -> list[Any]:
        return [pa.array(values, COLUMN_TYPES[name]) for name, values in self._columns.items()]


_VALUES: dict[str, Any] = {
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
    return time_ms * 1000 if -_MAX_TIME_MS <= time_ms <= _MAX_TIME_MS else None


def _value_bytes(kind: Any, value: Any) -> int:
    if isinstance(value, str):
        return 4 + len(value.encode())
    if isinstance(value, bytes):
        return 4 + len(value)
    if isinstance(value, list):
        return 4 + sum(8 + len(name.encode()) + len(text.encode()) for name, text in value)
    return 4 if kind == pa.int32() or kind == pa.string() else 8


# ---- compiled ----


@cython.final
@cython.cclass
class _Memory:
    """Bytes that grow at their end.

    Adding raises nothing, so that nobody has to look after each number whether it did: that memory was short
    is reported when the bytes are asked for.
    """

    block: bytearray
    out: Writer
    failed: cython.bint

    def __init__(self, room: cython.Py_ssize_t = 1024) -> None:
        self.failed = False
        if cython.compiled:
            self.block = new_array(room)
            self.out = writer_of(self.block)

    @cython.cfunc
    @cython.exceptval(check=False)
    def grow(self, more: cython.Py_ssize_t) -> cython.void:
        try:
            make_room(self.block, cython.address(self.out), more)
        except MemoryError:
            self.failed = True

    @cython.cfunc
    @cython.exceptval(check=False)
    @cython.inline
    def put(self, data: Span) -> cython.void:
        if data.size > left_of(cython.address(self.out)):
            self.grow(data.size)
        put_span(cython.address(self.out), data)

    @cython.cfunc
    @cython.exceptval(check=False)
    @cython.inline
    def put_int(self, value: cython.int) -> cython.void:
        if left_of(cython.address(self.out)) < 4:
            self.grow(4)
        put_native_i32(cython.address(self.out), value)

    @cython.cfunc
    @cython.exceptval(check=False)
    @cython.inline
    def put_long(self, value: cython.longlong) -> cython.void:
        if left_of(cython.address(self.out)) < 8:
            self.grow(8)
        put_native_i64(cython.address(self.out), value)

    @cython.cfunc
    @cython.exceptval(check=False)
    @cython.inline
    def size(self) -> cython.Py_ssize_t:
        return written(cython.address(self.out))

    def buffer(self) -> Any:
        """The bytes for Arrow, which keeps them from now on. Raises MemoryError."""
        if self.failed:
            raise MemoryError("no memory for a column of a batch")
        del self.block[self.size() :]
        return pa.py_buffer(self.block)


@cython.final
@cython.cclass
class _Column:
    """One column: values of 4 or 8 bytes, or texts (width 0) with their offsets."""

    width: cython.int
    rows: cython.Py_ssize_t
    null_count: cython.Py_ssize_t
    data_bytes: cython.Py_ssize_t
    data: _Memory
    offsets: _Memory
    nulls: _Memory

    def __init__(self, width: cython.int, before: Any = None) -> None:
        """`before` is the same column of the last batch: this one will hardly be larger."""
        last: _Column
        data_room: cython.Py_ssize_t = 1024
        offsets_room: cython.Py_ssize_t = 1024
        if before is not None:
            last = before
            data_room += last.data_bytes + last.data_bytes // 8
            offsets_room += 4 * (last.rows + last.rows // 8)
        self.width = width
        self.rows = 0
        self.null_count = 0
        self.data_bytes = 0
        self.data = _Memory(data_room)
        self.nulls = _Memory()
        if width == 0:
            self.offsets = _Memory(offsets_room)
            if cython.compiled:
                self.offsets.put_int(0)

    @cython.cfunc
    @cython.exceptval(check=False)
    @cython.inline
    def add_int(self, value: cython.int) -> cython.void:
        self.data.put_int(value)
        self.rows += 1

    @cython.cfunc
    @cython.exceptval(check=False)
    @cython.inline
    def add_long(self, value: cython.longlong) -> cython.void:
        self.data.put_long(value)
        self.rows += 1

    @cython.cfunc
    @cython.exceptval(check=False)
    def add_time(self, time_ms: cython.longlong) -> cython.void:
        if -9223372036854775 <= time_ms <= 9223372036854775:
            self.add_long(time_ms * 1000)
        else:
            self._note_null()
            self.add_long(0)

    @cython.cfunc
    @cython.exceptval(check=False)
    @cython.inline
    def add_bytes(self, data: Span) -> cython.void:
        self.data.put(data)
        self.offsets.put_int(cython.cast(cython.int, self.data.size()))
        self.rows += 1

    @cython.cfunc
    @cython.inline
    def add_text(self, text: Span) -> cython.int:
        """Adds text that has to be UTF-8, with U+FFFD where it is not."""
        if is_ascii(text):
            self.add_bytes(text)
        else:
            self.add_object(replaced_text_of(text).encode())
        return 0

    @cython.cfunc
    @cython.exceptval(check=False)
    def add_object(self, text: bytes) -> cython.void:
        self.add_bytes(span_of(text))

    @cython.cfunc
    @cython.inline
    def add_text_or_null(self, text: Span) -> cython.int:
        if not is_there(text):
            self._note_null()
        self.add_text(text)
        return 0

    @cython.cfunc
    @cython.exceptval(check=False)
    def _note_null(self) -> cython.void:
        self.nulls.put_long(self.rows)
        self.null_count += 1

    @cython.cfunc
    @cython.exceptval(check=False)
    def bytes_held(self) -> cython.Py_ssize_t:
        return self.data.size() + (self.offsets.size() - 4 if self.width == 0 else 0)

    def array(self, kind: Any) -> Any:
        """The column as an Arrow array."""
        self.data_bytes = self.data.size()
        buffers = [self._validity()]
        if self.width == 0:
            buffers.append(self.offsets.buffer())
        buffers.append(self.data.buffer())
        return pa.Array.from_buffers(kind, self.rows, buffers, self.null_count)

    def _validity(self) -> Any:
        row: cython.Py_ssize_t
        if self.null_count == 0:
            return None
        bitmap: bytearray = bytearray(b"\xff") * ((self.rows + 7) // 8)
        if cython.compiled:
            numbers: Reader = reader_over(span_written(cython.address(self.nulls.out)))
            while unread(cython.address(numbers)):
                row = get_native_i64(cython.address(numbers))
                bitmap[row >> 3] &= ~(1 << (row & 7)) & 0xFF
        return pa.py_buffer(bitmap)


@cython.final
@cython.cclass
class _Columns:
    """The asked columns, and what is needed to fill them. Compiled only; `_Lists` is its twin."""

    names: tuple[str, ...]
    made: dict[str, Any]
    tags: list[bytes]
    max_body_bytes: cython.Py_ssize_t
    rows: cython.Py_ssize_t
    weight: cython.longlong
    row_bytes: cython.longlong
    looks_at_properties: cython.bint
    # Columns that nobody asked for are None.
    topic: _Column
    queue_id: _Column
    queue_offset: _Column
    physical_offset: _Column
    keys: _Column
    tag: _Column
    body: _Column
    map_ends: _Column
    map_names: _Column
    map_values: _Column
    flag: _Column
    sys_flag: _Column
    born_timestamp: _Column
    store_timestamp: _Column
    born_host: _Column
    store_host: _Column
    message_id: _Column
    offset_id: _Column
    reconsume_times: _Column
    record_size: _Column
    property_bytes: _Column
    # The last host of each kind and its text: neighbours mostly share it.
    last_born_host: bytes
    last_born_text: bytes
    last_store_host: bytes
    last_store_text: bytes
    # The properties of the record at hand.
    entries: cython.int
    entry_names: Span[64]
    entry_values: Span[64]
    keys_text: Span
    tags_text: Span
    unique: Span

    def __init__(
        self, names: tuple[str, ...], tags: set[bytes] | None, max_body_bytes: int, before: Any = None
    ) -> None:
        made: dict[str, Any] = {}
        last: Any = {} if before is None else before.made_before()
        for name in names:
            kind = COLUMN_TYPES[name]
            if name != "properties":
                width = 0 if kind in (pa.string(), pa.binary()) else kind.bit_width // 8
                made[name] = _Column(width, last.get(name))
        self.names = names
        self.made = made
        self.tags = None if tags is None else list(tags)  # type: ignore[assignment]
        self.max_body_bytes = max_body_bytes
        self.rows = 0
        self.weight = 0
        # Bytes of a row beside its body and its properties, roughly: texts with their offsets, numbers.
        self.row_bytes = 0
        for name in names:
            kind = COLUMN_TYPES[name]
            self.row_bytes += 24 if kind == pa.string() else 4 if name in ("body", "properties") else 8
        # To mypy an attribute of an extension type cannot be None; here it can.
        asked: Any = made.get
        self.topic = asked("topic")
        self.queue_id = asked("queueId")
        self.queue_offset = asked("queueOffset")
        self.physical_offset = asked("physicalOffset")
        self.keys = asked("keys")
        self.tag = asked("tags")
        self.body = asked("body")
        self.flag = asked("flag")
        self.sys_flag = asked("sysFlag")
        self.born_timestamp = asked("bornTimestamp")
        self.store_timestamp = asked("storeTimestamp")
        self.born_host = asked("bornHost")
        self.store_host = asked("storeHost")
        self.message_id = asked("msgId")
        self.offset_id = asked("offsetMsgId")
        self.reconsume_times = asked("reconsumeTimes")
        self.record_size = asked("recordSize")
        self.property_bytes = asked("propertyBytes")
        self.map_ends = self.map_names = self.map_values = asked("properties")
        if "properties" in names:
            self.map_ends = _Column(4, last.get("properties"))
            self.map_names = _Column(0, last.get("properties.names"))
            self.map_values = _Column(0, last.get("properties.values"))
            if cython.compiled:
                self.map_ends.add_int(0)
        self.looks_at_properties = bool(tags is not None or not _FROM_PROPERTIES.isdisjoint(names))
        self.last_born_host = self.last_born_text = self.last_store_host = self.last_store_text = b""

    def made_before(self) -> dict[str, Any]:
        """The columns by name, for those of the next batch to begin as large."""
        parts = {
            "properties": self.map_ends,
            "properties.names": self.map_names,
            "properties.values": self.map_values,
        }
        return self.made | parts if "properties" in self.names else self.made

    def row_count(self) -> int:
        return self.rows

    def size_bytes(self) -> int:
        size: cython.Py_ssize_t = 0
        column: _Column
        for name in self.names:
            if name == "properties":
                size += self.map_ends.bytes_held() - 4
                size += self.map_names.bytes_held() + self.map_values.bytes_held()
            else:
                column = self.made[name]
                size += column.bytes_held()
        return size

    def arrays(self) -> list[Any]:
        """The columns as Arrow arrays. Nothing may be added afterwards."""
        return [
            self._map() if name == "properties" else self.made[name].array(COLUMN_TYPES[name])
            for name in self.names
        ]

    def _map(self) -> Any:
        return pa.MapArray.from_arrays(
            self.map_ends.array(pa.int32()),
            self.map_names.array(pa.string()),
            self.map_values.array(pa.string()),
        )

    @cython.cfunc
    def add_record(
        self, data: Span, row: Parts, sys_flag: cython.int, queue_offset: cython.longlong
    ) -> cython.int:
        """Adds a record that holds one message, if its tag is wanted."""
        properties: Span = part_of(data, row.properties, row.record + row.size - row.properties)
        body: Span = part_of(data, row.body, row.body_length)
        inflated: bytes
        if self.looks_at_properties:
            self._read_properties(properties)
            if self.tags is not None and not self._tag_is_wanted():
                return 0
        if self.body is not None and sys_flag & 1:
            inflated = inflate(bytes_of(body), sys_flag, self.max_body_bytes)
            body = span_of(inflated)
        self._add_row(data, row, sys_flag, i32_of(data, row.record + 16), queue_offset, properties, body)
        return 0

    @cython.cfunc
    def add_inner_batch(
        self,
        buf: object,
        data: Span,
        row: Parts,
        from_queue_offset: cython.longlong,
        to_queue_offset: cython.longlong,
    ) -> cython.int:
        """Adds the messages of a record that holds several."""
        properties: bytes
        body: bytes
        offset: cython.longlong
        record = decode_record(buf, row.record, False)
        for message in plain_messages(record, self.max_body_bytes):
            offset = message.queue_offset
            if offset < from_queue_offset or offset >= to_queue_offset:
                continue
            properties = message.properties
            body = message.body
            if self.looks_at_properties:
                self._read_properties(span_of(properties))
                if self.tags is not None and not self._tag_is_wanted():
                    continue
            self._add_row(
                data, row, record.sys_flag, message.flag, offset, span_of(properties), span_of(body)
            )
        return 0

    @cython.cfunc
    def _add_row(
        self,
        data: Span,
        row: Parts,
        sys_flag: cython.int,
        flag: cython.int,
        queue_offset: cython.longlong,
        properties: Span,
        body: Span,
    ) -> cython.int:
        """Adds one row; the properties were read before, where a column needs them."""
        host: Span
        id_memory: cython.uchar[56]
        id_text: Writer = writer_over(id_memory, cython.sizeof(id_memory))
        if self.topic is not None:
            self.topic.add_bytes(part_of(data, row.topic, row.topic_length))
        if self.queue_id is not None:
            self.queue_id.add_int(i32_of(data, row.record + 12))
        if self.queue_offset is not None:
            self.queue_offset.add_long(queue_offset)
        if self.physical_offset is not None:
            self.physical_offset.add_long(i64_of(data, row.record + 28))
        if self.keys is not None:
            self.keys.add_text_or_null(self.keys_text)
        if self.tag is not None:
            self.tag.add_text_or_null(self.tags_text)
        if self.body is not None:
            self.body.add_bytes(body)
        if self.map_ends is not None:
            self._add_map(properties)
        if self.flag is not None:
            self.flag.add_int(flag)
        if self.sys_flag is not None:
            self.sys_flag.add_int(sys_flag)
        if self.born_timestamp is not None:
            self.born_timestamp.add_time(i64_of(data, row.record + 40))
        if self.store_timestamp is not None:
            self.store_timestamp.add_time(i64_of(data, row.store_time))
        if self.born_host is not None:
            host = part_of(data, row.record + 48, row.store_time - row.record - 48)
            if not is_same(span_of(self.last_born_host), host):
                self.last_born_host = bytes_of(host)
                self.last_born_text = host_text(self.last_born_host).encode()
            self.born_host.add_object(self.last_born_text)
        host = part_of(data, row.store_time + 8, row.body - row.store_time - 24)
        if self.store_host is not None:
            if not is_same(span_of(self.last_store_host), host):
                self.last_store_host = bytes_of(host)
                self.last_store_text = host_text(self.last_store_host).encode()
            self.store_host.add_object(self.last_store_text)
        if self.offset_id is not None or (self.message_id is not None and not is_there(self.unique)):
            put_hex_span(cython.address(id_text), host)
            put_hex_span(cython.address(id_text), part_of(data, row.record + 28, 8))
        if self.offset_id is not None:
            self.offset_id.add_bytes(span_written(cython.address(id_text)))
        if self.message_id is not None:
            if is_there(self.unique):
                self.message_id.add_text(self.unique)
            else:
                self.message_id.add_bytes(span_written(cython.address(id_text)))
        if self.reconsume_times is not None:
            self.reconsume_times.add_int(i32_of(data, row.body - 16))
        if self.record_size is not None:
            self.record_size.add_int(cython.cast(cython.int, row.size))
        if self.property_bytes is not None:
            self.property_bytes.add_bytes(properties)
            self.weight += properties.size
        self.rows += 1
        self.weight += self.row_bytes + row.topic_length
        if self.body is not None:
            self.weight += body.size
        if self.looks_at_properties:
            self.weight += properties.size
        # Arrow counts the bytes of a column with 31 bits; no column comes near that before this does.
        if self.weight > 0x20000000:
            raise OverflowError("more than 512 MiB in one batch: take() it earlier")
        return 0

    @cython.cfunc
    @cython.exceptval(check=False)
    def _read_properties(self, properties: Span) -> cython.void:
        """Finds the entries of a property string; `entries` is -1 if there are more than fit.

        Entries without name or value do not count; a later one of the same name stands in place of the first.
        """
        entry: Span
        name: Span
        value: Span
        at: cython.Py_ssize_t = 0
        stop: cython.Py_ssize_t
        middle: cython.Py_ssize_t
        i: cython.int
        wants_map: cython.bint = self.map_ends is not None
        self.entries = 0
        self.keys_text = self.tags_text = self.unique = no_span()
        while at < properties.size:
            stop = find_end(properties, 2, at)
            entry = part_of(properties, at, stop - at)
            middle = find_byte(entry, 1)
            if 0 < middle < entry.size - 1:
                name = part_of(entry, 0, middle)
                value = rest_of(entry, middle + 1)
                if is_literal(name, b"TAGS"):
                    self.tags_text = value
                elif is_literal(name, b"KEYS"):
                    self.keys_text = value
                elif is_literal(name, b"UNIQ_KEY"):
                    self.unique = value
                if wants_map and self.entries >= 0:
                    i = 0
                    while i < self.entries and not is_same(self.entry_names[i], name):
                        i += 1
                    if i == 64:
                        self.entries = -1
                    else:
                        self.entry_names[i] = name
                        self.entry_values[i] = value
                        if i == self.entries:
                            self.entries += 1
            at = stop + 1

    @cython.cfunc
    def _add_map(self, properties: Span) -> cython.int:
        i: cython.int
        if self.entries >= 0:
            for i in range(self.entries):
                self.map_names.add_text(self.entry_names[i])
                self.map_values.add_text(self.entry_values[i])
        else:
            found: dict[str, str] = decode_properties(bytes_of(properties))
            for name, value in found.items():
                self.map_names.add_object(name.encode())
                self.map_values.add_object(value.encode())
        self.map_ends.add_int(cython.cast(cython.int, self.map_names.rows))
        return 0

    @cython.cfunc
    def _tag_is_wanted(self) -> cython.int:
        tag: bytes
        found: cython.bint = False
        for tag in self.tags:
            found |= is_there(self.tags_text) and is_same(span_of(tag), self.tags_text)
        return found
