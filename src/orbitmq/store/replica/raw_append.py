"""Appending what a master sends: bytes of its log, cut anywhere, and queues that follow from whole records.

The log takes whole records only. The beginning of a record that is not whole stays in memory, and is asked
for once more after a disconnect; so nothing else in the store knows of half records. A segment ends where the
master's does: a blank record says so, and the rest of the segment behind it is unused.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from orbitmq.protocol.lite_topics import lmq_places
from orbitmq.protocol.records.message import BLANK_BYTES, FIXED_BYTES, INNER_BATCH
from orbitmq.protocol.records.properties_cy import tags_code
from orbitmq.protocol.records.scanning_cy import scan_records
from orbitmq.protocol.records.scans import ScannedRecord
from orbitmq.store.errors import GapTooWide, NotTheMasters
from orbitmq.store.log.commit_log import CommitLog
from orbitmq.store.queue.consume_queue import BLANK_UNIT, UNIT, ConsumeQueue, QueueTable, due_time
from orbitmq.store.queue.extension import ExtensionFiles
from orbitmq.store.replica.follow_cy import end_of_plain, put_plain_units

log = logging.getLogger(__name__)

_BLANK_MAGIC = 0xCBD43194
_MAGICS = (0xDAA320A7, 0xDAA320AB)
_IN_NO_QUEUE = (0x4, 0xC)

Stored: TypeAlias = Callable[[memoryview, int, int], None]
"""(data, end, physical offset): called with records that are in the log, `data[:end]` at that offset."""

SCANNED_RECORDS = 64
"""Records that are not plain, and those behind them, are looked at so many at a time."""

MAX_GAP_UNITS = 1 << 20
"""Units of 20 bytes that a stream can have made for messages that it does not have. Each byte of records
gives one more, up to this number again.
"""

ROOM_WAIT_SECONDS = 1.0
"""A slave waits so long for the thread that reserves: refusing what the master sent ends the connection."""


class RawAppend:
    """The log's end as a slave writes it. Belongs to the owner of the store."""

    def __init__(self, commit_log: CommitLog, most_record_bytes: int) -> None:
        self._log = commit_log
        self._most = most_record_bytes
        self._partial = bytearray()
        self._rest = memoryview(b"")
        """Bytes that `append` has not looked at yet."""
        self._filler = 0
        """Bytes behind a blank record that are still to come."""

    @property
    def end(self) -> int:
        """The physical offset behind everything received."""
        return self._log.max_physical - self._filler + len(self._partial)

    def drop_partial(self) -> None:
        """Forgets what is not whole."""
        self._partial.clear()
        # The blank record itself is in the log: the segment is full, whatever would still come of it.
        self._filler = 0

    def append(self, physical_offset: int, data: bytes | memoryview, stored: Stored) -> None:
        """Writes what is whole by now into the log, and calls `stored`. Raises NotTheMasters, OSError. Of
        records for which `stored` raises GapTooWide, those before the named one stay.

        Bytes that are already there are refused, as is a gap: both would be another log than the master's.
        """
        if physical_offset != self.end:
            if self.end:
                raise NotTheMasters(
                    f"bytes of the log from {physical_offset} on do not join a log that ends at {self.end}"
                )
            self._begin_at(physical_offset)
        if self._filler:
            skipped = min(self._filler, len(data))
            self._filler -= skipped
            data = memoryview(data)[skipped:]
        if self._partial:
            self._partial += data
            if len(self._partial) < max(BLANK_BYTES, int.from_bytes(self._partial[:4], "big")):
                return
            data = bytes(self._partial)
        self._rest = memoryview(data)
        try:
            while self._rest and self._append_whole(stored):
                pass
        finally:
            self._partial = bytearray(self._rest)
            self._rest = memoryview(b"")

    def _begin_at(self, physical_offset: int) -> None:
        size = self._log.segment_bytes
        if physical_offset % size:
            raise NotTheMasters(
                f"the master's log begins at {physical_offset}, which is no multiple of {size} bytes: set "
                "mappedFileSizeCommitLog to the size of the master's segments"
            )
        self._log.begin_at(physical_offset)

    def _append_whole(self, stored: Stored) -> bool:
        """Moves the whole records of a segment from memory to the log; True if there may be more."""
        data = self._rest
        begin = self._log.max_physical
        left_in_segment = self._log.segment_bytes - begin % self._log.segment_bytes
        plain = end_of_plain(data, begin, left_in_segment, self._most)
        end, blank = self._whole(data, plain, begin, left_in_segment)
        if end:
            segment = self._log.ensure_space(end, ROOM_WAIT_SECONDS)
            scan = scan_records(data, plain, end, begin, False)
            if scan.position != end:
                raise self._foreign(begin + scan.position, scan.reason or "it is no record")
            # Not through the map: a page that is touched there first costs more than all else.
            segment.file.write(segment.wrote, data[:end])
            segment.wrote += end
            self._rest = data[end:]
            # Now, for what comes next may fail.
            try:
                stored(data, end, begin)
            except GapTooWide as error:
                self._rest = memoryview(b"")
                self._log.cut_to(error.physical_offset)
                raise
        if blank:
            self._log.end_segment()
            self._filler = max(0, blank - len(self._rest))
            self._rest = self._rest[blank:]
        return bool(end or blank)

    def _whole(self, data: memoryview, at: int, begin: int, left_in_segment: int) -> tuple[int, int]:
        """The end of the last whole record in memory, looked for from a place on where one ends; and the size
        of a blank record there, 0 without one.
        """
        length = len(data)
        while length - at >= BLANK_BYTES:
            size = int.from_bytes(data[at : at + 4], "big", signed=True)
            magic = int.from_bytes(data[at + 4 : at + 8], "big")
            if magic == _BLANK_MAGIC:
                if size != left_in_segment - at:
                    if at:
                        break
                    raise NotTheMasters(
                        f"a segment of the master ends at {begin + at + size}, and here one ends at "
                        f"{begin + left_in_segment}: set mappedFileSizeCommitLog to the size of the "
                        "master's segments"
                    )
                return at, size
            if at and (magic not in _MAGICS or not FIXED_BYTES <= size <= self._most):
                break  # first those before it
            if magic not in _MAGICS or size < FIXED_BYTES:
                raise self._foreign(begin + at, "it is no record")
            if size > self._most:
                raise self._foreign(
                    begin + at,
                    f"it has {size} bytes, and here {self._most} are allowed: set maxMessageSize to "
                    "that of the master",
                )
            if at + size + BLANK_BYTES > left_in_segment:
                if at:
                    break
                raise self._foreign(
                    begin + at,
                    "it crosses the end of a segment: set mappedFileSizeCommitLog to that of the master",
                )
            if at + size > length:
                break
            at += size
        return at, 0

    @staticmethod
    def _foreign(physical_offset: int, why: str) -> NotTheMasters:
        return NotTheMasters(
            f"what the master sent for {physical_offset} cannot be stored: {why}. If this log is not "
            "a beginning of "
            "the master's, start the slave with an empty store"
        )


@dataclass(eq=False, repr=False)
class QueueFollower:
    """Makes units of records that were appended, as the master did. `delete` is called with queues that the
    master has begun anew, and that are not in the table any more.
    """

    _table: QueueTable
    _extension: ExtensionFiles
    _delays: tuple[int, ...]
    _delete: Callable[[list[ConsumeQueue]], object]

    def __post_init__(self) -> None:
        self._gap_units_left = MAX_GAP_UNITS
        self._dirty: list[ConsumeQueue]
        self.last_record = -1
        """Physical offset of the last record that was followed since `begin`; -1 for none."""
        self.latest_ms = 0
        """The latest store time of one."""

    def begin(self, dirty: list[ConsumeQueue]) -> None:
        """Lists queues with something new in `dirty` from now on."""
        self._dirty = dirty
        self.last_record, self.latest_ms = -1, 0

    def follow(self, data: memoryview, end: int, physical_offset: int) -> None:
        """Gives the records in `data[:end]`, at a physical offset, their units. Raises GapTooWide."""
        table = self._table
        self._gap_units_left = min(MAX_GAP_UNITS, self._gap_units_left + end)
        at = 0
        while at < end:
            at, last_record, latest_ms = put_plain_units(
                data, at, end, physical_offset, table.by_topic, table.batch_topics, self._dirty
            )
            if at < end:
                records = scan_records(data, at, end, physical_offset, False, False, SCANNED_RECORDS).records
                done = self._follow(records)
                while done < len(records):
                    # The topic was deleted at the master and made again, and this is its first message there.
                    self._begin_anew(table.by_topic[records[done][6]][records[done][2]])
                    records = records[done:]
                    done = self._follow(records)
                last_record, latest_ms = records[-1][0], max(record[4] for record in records)
                at = last_record + records[-1][1] - physical_offset
            self.last_record = last_record
            self.latest_ms = max(self.latest_ms, latest_ms)

    def _follow(self, records: list[ScannedRecord]) -> int:
        """Gives records their units; gives their number before a queue that the master has started over."""
        table, dirty = self._table, self._dirty
        topic: str | None = None
        queue_id = -1
        queue: ConsumeQueue | None = None
        for index, record in enumerate(records):
            sys_flag = record[5]
            if sys_flag & 0xC in _IN_NO_QUEUE or sys_flag & INNER_BATCH or record[6] in table.batch_topics:
                continue
            queue_offset = record[3]
            if not 0 <= queue_offset <= record[0] // FIXED_BYTES:
                # As many messages have no room before it: the number is damaged, and has no checksum.
                log.error(
                    "the record at %d cannot have the queue offset %d: no queue holds it",
                    record[0],
                    queue_offset,
                )
                continue
            if queue is None or record[6] != topic or record[2] != queue_id:
                topic, queue_id = record[6], record[2]
                queue = table.find(topic, queue_id) or table.make(topic, queue_id, record[3])
            if queue_offset != queue.max_offset:
                if queue_offset < queue.max_offset:
                    return index
                missing = queue_offset - queue.max_offset
                if missing > self._gap_units_left:
                    if index:
                        self.last_record = records[index - 1][0]
                        self.latest_ms = max(self.latest_ms, *(one[4] for one in records[:index]))
                    raise GapTooWide(queue, missing, record[0])
                self._gap_units_left -= missing
                self._step_over(queue, queue_offset)
            code = record[7]
            if queue.code_is_special:
                code = self._special_code(queue, record)
            queue.tail += UNIT.pack(record[0], record[1], code)
            queue.max_offset = queue_offset + 1
            if not queue.dirty:
                queue.dirty = True
                dirty.append(queue)
            for name, lmq_offset in lmq_places(record[6], record[8]):
                self._follow_lmq(name, lmq_offset, record)
        return len(records)

    def _begin_anew(self, queue: ConsumeQueue) -> None:
        """Deletes a queue, and those of its topic that surely are as old: the topic was deleted behind the
        last message of this one. What has begun since may hold messages of the new topic.
        """
        table = self._table
        last = table.unit(queue, queue.max_offset - 1)
        old = [] if last is None else table.remove_older(queue.topic, last[0] + 1)
        if not queue.removed:
            table.remove(queue)
            old.append(queue)
        self._delete(old)

    def _follow_lmq(self, name: str, queue_offset: int, record: ScannedRecord) -> None:
        """Gives a record its unit in a light message queue. One without a beginning here has expired, at the
        master or here: it starts over.
        """
        if queue_offset > record[0] // FIXED_BYTES:
            return
        lmq = self._table.find(name, 0)
        if lmq is not None and lmq.max_offset != queue_offset:
            self._delete(self._table.remove_topic(name))
            lmq = None
        lmq = lmq or self._table.make(name, 0, queue_offset)
        lmq.tail += UNIT.pack(record[0], record[1], record[7])
        lmq.max_offset = queue_offset + 1
        if not lmq.dirty:
            lmq.dirty = True
            self._dirty.append(lmq)

    def _special_code(self, queue: ConsumeQueue, record: ScannedRecord) -> int:
        properties, stored = record[8], record[4]
        if queue.is_schedule:
            return due_time(properties, stored, self._delays)
        bits = self._extension.bits_of(queue.topic, properties)
        return self._extension.append(queue, tags_code(properties), stored, bits)

    def _step_over(self, queue: ConsumeQueue, queue_offset: int) -> None:
        """The master has no messages for some offsets: its log was damaged there, or began later."""
        missing = queue_offset - queue.max_offset
        log.warning("%s: the master's log has no message for %d of its offsets", queue, missing)
        queue.tail += BLANK_UNIT * missing
        queue.max_offset = queue_offset
