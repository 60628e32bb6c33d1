"""Stored records to Arrow: the answer to a pull, or a range of a commit log, becomes record batches.

`locate_records` checks the records and finds their parts; `collecting_cy` adds the selected ones to a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from orbitmq.protocol.records.compression import DEFAULT_MAX_INFLATED_BYTES
from orbitmq.protocol.records.message import BadRecord
from orbitmq.protocol.records.plain import behind_bad_record
from orbitmq.protocol.records.scanning_cy import locate_records
from orbitmq.protocol.records.scans import Stop
from orbitmq.spark.read.batch_builder_cy import new_batch
from orbitmq.spark.read.collecting_cy import collect_records
from orbitmq.spark.read.column_types import COLUMN_TYPES, MAX_QUEUE_OFFSET
from orbitmq.spark.read.selection_cy import Selection

_RECORDS_AT_ONCE = 1024
"""Records of a commit log that are located before their columns are filled: they stay in the cache."""


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

    A body may have `max_body_bytes` once it is inflated. The record of another one, or of one that cannot be
    inflated, is bad; with `null_unreadable` its body is null instead.

    A record that is damaged raises BadRecord; what was before it stays collected. With `skip_bad` it is left
    out and kept in `bad` instead; the scan continues behind it where its size can be believed.
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
        max_body_bytes: int = DEFAULT_MAX_INFLATED_BYTES,
        null_unreadable: bool = False,
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
        self._selection = Selection(accept, tags, from_time_ms, to_time_ms)
        self._skip_bad = skip_bad
        self._max_body_bytes = max_body_bytes
        self._null_unreadable = null_unreadable
        self._batch = new_batch(self.columns, max_body_bytes, null_unreadable=null_unreadable)

    @property
    def rows(self) -> int:
        """Rows collected and not yet taken."""
        rows: int = self._batch.row_count()
        return rows

    @property
    def unreadable(self) -> tuple[int, str]:
        """Number of rows not yet taken whose body is null, for it cannot be inflated, and the last reason."""
        return self._batch.unreadable, self._batch.unreadable_reason

    @property
    def size_bytes(self) -> int:
        """Memory of the rows collected and not yet taken, as the Arrow batch will need it (but for nulls)."""
        size: int = self._batch.size_bytes()
        return size

    def scan(self, buf: Any, from_queue_offset: int = 0, to_queue_offset: int = MAX_QUEUE_OFFSET) -> int:
        """Collects the records of a buffer whose queue offset is in [from, to); gives the number of new rows.

        The records stand back to back; the scan ends at the end of the buffer, or where a commit-log file has
        nothing more. Raises BadRecord, CompressionMissing.
        """
        before = self.rows
        for _ in self.fill(buf, from_queue_offset, to_queue_offset):
            pass
        return self.rows - before

    def fill(
        self,
        buf: Any,
        from_queue_offset: int = 0,
        to_queue_offset: int = MAX_QUEUE_OFFSET,
        max_bytes: int = -1,
    ) -> Iterator[None]:
        """As `scan`, but stops whenever `max_bytes` are collected, for the caller to take them.

        A small record may hold a large body: without a stop one buffer could become any number of bytes.
        """
        position = 0
        self._selection.set_offsets(from_queue_offset, to_queue_offset)
        while True:
            found = locate_records(buf, position)
            number = 0
            while number < found.record_count:
                number = collect_records(
                    self._batch,
                    self._selection,
                    buf,
                    found.table,
                    number,
                    self._note_bad,
                    MAX_QUEUE_OFFSET,
                    -1,
                    max_bytes,
                )
                if 0 <= max_bytes <= self.size_bytes:
                    yield
            position = found.position
            if found.stop is Stop.BAD:
                self._note_bad(BadRecord(found.reason, position))
                position = behind_bad_record(buf, position)
            elif found.stop is not Stop.END:
                break
            if position >= len(buf):
                break

    def scan_log(self, buf: Any, start: int, limit: int, base: int, max_bytes: int) -> LogScan:
        """Collects the records that begin in `buf[start:limit]`, until about `max_bytes` are collected.

        `base` is the physical offset of byte 0 of the buffer: a record that says it is elsewhere is bad. The
        first bad record ends the scan, whatever `skip_bad` says: what is behind it is the caller's to find.
        """
        self._selection.set_offsets(-1, MAX_QUEUE_OFFSET)
        position = start
        while position < limit:
            found = locate_records(buf, position, 1 << 62, True, _RECORDS_AT_ONCE)
            bad: list[BadRecord] = []
            number = collect_records(
                self._batch, self._selection, buf, found.table, 0, bad.append, limit, base, max_bytes
            )
            if bad:
                size = int.from_bytes(buf[bad[0].position : bad[0].position + 4], "big")
                return LogScan(bad[0].position, Stop.BAD, bad[0].reason, size)
            if number < found.record_count:
                following = found.position_of(number)
                return LogScan(following, Stop.END if following >= limit else None)
            position = found.position
            if found.stop is not Stop.END and position < limit:
                return LogScan(position, found.stop, found.reason)
        return LogScan(position, Stop.END)

    def _note_bad(self, error: BadRecord) -> None:
        if not self._skip_bad:
            raise error
        self.bad.append(error)

    def take(self) -> pa.RecordBatch:
        """The rows collected so far, as one batch with the columns in the order asked; starts over."""
        arrays = self._batch.arrays()
        self._batch = new_batch(
            self.columns, self._max_body_bytes, self._batch, null_unreadable=self._null_unreadable
        )
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)
