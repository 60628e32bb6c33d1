"""Appending what a master sends: bytes of its log, cut anywhere, and queues that follow from whole records.

The log takes whole records only. The beginning of a record that is not whole stays in memory, and is asked
for once more after a disconnect; so nothing else in the store knows of half records. A segment ends where the
master's does: a blank record says so, and what stands behind it in the segment belongs to nobody.
"""

from __future__ import annotations

import logging

from orbitmq.protocol.records.message import BLANK_BYTES, INNER_BATCH
from orbitmq.protocol.records.message_cy import FIXED_BYTES, ScannedRecord, scan_records
from orbitmq.protocol.records.properties_cy import tags_code
from orbitmq.store.errors import NotTheMasters
from orbitmq.store.log.commit_log import CommitLog
from orbitmq.store.queue.consume_queue import BLANK_UNIT, UNIT, ConsumeQueue, QueueTable, due_time
from orbitmq.store.queue.extension import ExtensionFiles

log = logging.getLogger(__name__)

_BLANK_MAGIC = 0xCBD43194
_MAGICS = (0xDAA320A7, 0xDAA320AB)
_IN_NO_QUEUE = (0x4, 0xC)

ROOM_WAIT_SECONDS = 1.0
"""A slave waits so long for the thread that reserves: refusing what the master sent ends the connection."""


class RawAppend:
    """The log's end as a slave writes it. Belongs to the owner of the store."""

    def __init__(self, commit_log: CommitLog, most_record_bytes: int) -> None:
        self._log = commit_log
        self._most = most_record_bytes
        self._partial = bytearray()
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

    def append(self, physical_offset: int, data: bytes) -> list[ScannedRecord]:
        """Writes what is whole by now into the log; gives the records. Raises NotTheMasters, OSError.

        Bytes that are already there are refused, as is a gap: both would be another log than the master's.
        """
        if physical_offset != self.end:
            if self.end:
                raise NotTheMasters(
                    f"bytes of the log from {physical_offset} on do not join a log that ends at {self.end}"
                )
            self._begin_at(physical_offset)
        found: list[ScannedRecord] = []
        if self._filler:
            skipped = min(self._filler, len(data))
            self._filler -= skipped
            data = data[skipped:]
        if not data:
            return found
        self._partial += data
        while self._partial and self._take(found):
            pass
        return found

    def _begin_at(self, physical_offset: int) -> None:
        size = self._log.segment_bytes
        if physical_offset % size:
            raise NotTheMasters(
                f"the master's log begins at {physical_offset}, which is no multiple of {size} bytes: set "
                "mappedFileSizeCommitLog to the size of the master's segments"
            )
        self._log.begin_at(physical_offset)

    def _take(self, found: list[ScannedRecord]) -> bool:
        """Moves the whole records of a segment from memory to the log; True if there may be more."""
        buffer = self._partial
        begin = self._log.max_physical
        left_in_segment = self._log.segment_bytes - begin % self._log.segment_bytes
        end, blank = self._whole(buffer, begin, left_in_segment)
        if end:
            segment = self._log.ensure_space(end, ROOM_WAIT_SECONDS)
            scan = scan_records(buffer, 0, end, begin, False)
            if scan.position != end:
                raise self._foreign(begin + scan.position, scan.reason or "it is no record")
            segment.view[segment.wrote : segment.wrote + end] = buffer[:end]
            segment.wrote += end
            found += scan.records
            del buffer[:end]
        if blank:
            self._log.end_segment()
            self._filler = max(0, blank - len(buffer))
            del buffer[:blank]
        return bool(end or blank)

    def _whole(self, buffer: bytearray, begin: int, left_in_segment: int) -> tuple[int, int]:
        """The end of the last whole record in memory; and the size of a blank record there, 0 without one."""
        at = 0
        length = len(buffer)
        while length - at >= BLANK_BYTES:
            size = int.from_bytes(buffer[at : at + 4], "big", signed=True)
            magic = int.from_bytes(buffer[at + 4 : at + 8], "big")
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


class QueueFollower:
    """Makes units of records that were appended, as the master did."""

    def __init__(
        self,
        table: QueueTable,
        extension: ExtensionFiles,
        delays_ms: tuple[int, ...],
        dirty: list[ConsumeQueue],
    ) -> None:
        self._table = table
        self._extension = extension
        self._delays = delays_ms
        self.dirty = dirty

    def follow(self, records: list[ScannedRecord]) -> int:
        """Gives records their units; gives how many it did before a queue that the master has begun anew."""
        table, dirty = self._table, self.dirty
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
                self._step_over(queue, queue_offset)
            code = record[7]
            if queue.code_is_special:
                code = self._special_code(queue, record)
            queue.tail += UNIT.pack(record[0], record[1], code)
            queue.max_offset = queue_offset + 1
            if not queue.dirty:
                queue.dirty = True
                dirty.append(queue)
        return len(records)

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
