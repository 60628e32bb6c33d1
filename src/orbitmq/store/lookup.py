"""Single messages: by physical offset, by queue offset, by store time. Belongs to the owner of the store."""

from __future__ import annotations

from orbitmq.protocol.message import BadRecord, StoredMessage
from orbitmq.protocol.message_cy import FIXED_BYTES, decode_record, read_header
from orbitmq.protocol.properties_cy import tags_code
from orbitmq.store.arrivals import Arrivals
from orbitmq.store.commit_log import CommitLog
from orbitmq.store.consume_queue import ConsumeQueue, QueueTable
from orbitmq.store.extension import ExtensionFiles
from orbitmq.store.scan_cy import properties_of

NEVER = 1 << 62
"""Later than any store time."""


class Lookup:
    """Answers from the log and the queues."""

    def __init__(
        self,
        commit_log: CommitLog,
        table: QueueTable,
        arrivals: Arrivals,
        extension: ExtensionFiles,
        whole: bool,
    ) -> None:
        self._log = commit_log
        self._table = table
        self._arrivals = arrivals
        self._extension = extension
        self._whole = whole
        """Whether the checksum over a whole record is looked at, where it has one."""

    def record_at(self, physical_offset: int) -> memoryview | None:
        """See `MessageStore.record_at`."""
        size = int.from_bytes(self._log.read(physical_offset, 4), "big", signed=True)
        record = self._sound(physical_offset, size)
        return None if record is None else memoryview(record[0])

    def message_at(self, physical_offset: int, size: int) -> StoredMessage | None:
        """See `MessageStore.message_at`."""
        record = self._sound(physical_offset, size)
        return None if record is None or record[1].size != size else record[1]

    def _sound(self, physical_offset: int, size: int) -> tuple[bytes, StoredMessage] | None:
        """The bytes of a record, and what they say."""
        if size < FIXED_BYTES or physical_offset + size > self._arrivals.end_of_log:
            return None
        # Read, not viewed: a mapped page that is not in memory would stop everybody until the disk answers.
        record = self._log.read(physical_offset, size)
        try:
            found = decode_record(record, 0, True, self._whole)
        except BadRecord:
            return None
        return (record, found) if found.physical_offset == physical_offset else None

    def unit(self, topic: str, queue_id: int, queue_offset: int) -> tuple[int, int, int] | None:
        """See `MessageStore.physical_offset_of`."""
        queue = self._table.find(topic, queue_id)
        if queue is None or not queue.min_offset <= queue_offset < self._arrivals.end(queue):
            return None
        unit = self._table.unit(queue, queue_offset)
        if unit is not None and topic in self._extension.topics:
            code = self._extension.tags_code(queue, unit[2])
            if code is None:
                code = tags_code(properties_of(self._log.read(unit[0], unit[1]), 0, unit[1]))
            return unit[0], unit[1], code
        return unit

    def units(self, topic: str, queue_id: int, queue_offset: int, count: int) -> bytes:
        """See `MessageStore.units`."""
        queue = self._table.find(topic, queue_id)
        if queue is None or not queue.min_offset <= queue_offset < self._arrivals.end(queue):
            return b""
        return self._table.read(queue, queue_offset, min(count, self._arrivals.end(queue) - queue_offset))

    def store_time_at(self, physical_offset: int, size: int) -> int:
        """When the record at a physical offset was stored, in ms; -1 if none is there."""
        try:
            return read_header(self._log.read(physical_offset, size))[6]
        except BadRecord:
            return -1

    def earliest_store_time(self) -> int:
        """See `MessageStore.earliest_store_time`."""
        return self._stored_at(self._log.min_physical)

    def store_time_from(self, physical_offset: int) -> int:
        """When the first record from a physical offset on was stored, in ms; -1 if there is none. At the end
        of a segment that is the first one of the next.
        """
        stored = self._stored_at(physical_offset)
        return stored if stored > 0 else self._stored_at(self._log.next_segment_start(physical_offset))

    def _stored_at(self, physical_offset: int) -> int:
        size = int.from_bytes(self._log.read(physical_offset, 4), "big", signed=True)
        return self.store_time_at(physical_offset, size) if size >= FIXED_BYTES else -1

    def offset_by_time(self, topic: str, queue_id: int, time_ms: int, upper: bool) -> int:
        """See `MessageStore.offset_by_time`."""
        queue = self._table.find(topic, queue_id)
        if queue is None:
            return 0
        low, end = queue.min_offset, self._arrivals.end(queue)
        if low >= end:
            return end
        # The first message stored later than the time (upper), or not earlier (lower).
        first, behind = low, end
        while first < behind:
            middle = (first + behind) // 2
            stored = self._time_near(queue, middle, behind)
            if stored < time_ms or (upper and stored == time_ms):
                first = middle + 1
            else:
                behind = middle
        return max(low, first - 1) if upper else first

    def _time_near(self, queue: ConsumeQueue, queue_offset: int, end: int) -> int:
        """The store time of a message, or of the next one that can be read."""
        while queue_offset < end:
            unit = self._table.unit(queue, queue_offset)
            if unit is not None:
                stored = self.store_time_at(unit[0], unit[1])
                if stored >= 0:
                    return stored
            queue_offset += 1
        return NEVER
