"""Single messages: by physical offset, by queue offset, by store time.

One lookup belongs to the owner of the store. Others, made by `frozen`, are for work in a thread: they know
the queues as they were then, and nothing of what the owner changes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from orbitmq.protocol.records.message import FIXED_BYTES, BadRecord, StoredMessage
from orbitmq.protocol.records.message_cy import decode_record, read_header
from orbitmq.protocol.records.properties_cy import tags_code
from orbitmq.store.log.commit_log import CommitLog
from orbitmq.store.queue.consume_queue import UNIT_BYTES, ConsumeQueue, QueueTable, unit_in
from orbitmq.store.queue.filtering import MessageFilter
from orbitmq.store.queue.records_cy import properties_of

NEVER = 1 << 62
"""Later than any store time."""


OPEN_FILES = 8
"""Files of queues that work in a thread keeps open."""


class _Queue(Protocol):
    @property
    def min_offset(self) -> int: ...


class _Queues(Protocol):
    def find(self, topic: str, queue_id: int) -> _Queue | None: ...
    def read(self, queue: Any, queue_offset: int, count: int) -> bytes: ...
    def unit(self, queue: Any, queue_offset: int) -> tuple[int, int, int] | None: ...


class _Visible(Protocol):
    @property
    def end_of_log(self) -> int: ...
    def end(self, queue: Any) -> int: ...


class _Extension(Protocol):
    @property
    def topics(self) -> Collection[str]: ...
    def tags_code(self, queue: Any, address: int) -> int | None: ...


@dataclass(eq=False, repr=False)
class Lookup:
    """Answers from the log and the queues."""

    _log: CommitLog
    _table: _Queues
    _arrivals: _Visible
    _extension: _Extension
    _whole: bool
    """True if the checksum of a whole record is verified, where there is one."""

    def __post_init__(self) -> None:
        self._earliest = -1, -1
        """The first physical offset of the log, and when the record there was stored."""

    def frozen(self, table: QueueTable, queues: Iterable[tuple[str, int]]) -> Lookup:
        """A lookup for a thread, which sees these queues (topic, queue id) as they are now."""
        copies = {}
        for topic, queue_id in queues:
            queue = table.find(topic, queue_id)
            if queue is not None:
                copies[topic, queue_id] = _FrozenQueue(queue, self._arrivals.end(queue))
        return Lookup(
            self._log,
            _FrozenQueues(table, copies),
            _FrozenArrivals(self._arrivals.end_of_log),
            _FrozenExtension(frozenset(self._extension.topics)),
            self._whole,
        )

    def min_offset(self, topic: str, queue_id: int) -> int:
        """The first queue offset that is still there; -1 for a queue that does not exist."""
        queue = self._table.find(topic, queue_id)
        return -1 if queue is None else queue.min_offset

    def max_offset(self, topic: str, queue_id: int) -> int:
        """The queue offset behind the last message that readers see; 0 for a queue that does not exist."""
        queue = self._table.find(topic, queue_id)
        return 0 if queue is None else self._arrivals.end(queue)

    def store_time(self, topic: str, queue_id: int, queue_offset: int) -> int:
        """Store time of a message, in ms; -1 if it is not there."""
        unit = self.unit(topic, queue_id, queue_offset)
        return -1 if unit is None else self.store_time_at(unit[0], unit[1])

    def earliest_time(self, topic: str, queue_id: int) -> int:
        """Store time of the first message of a queue, in ms; -1 without one."""
        return self.store_time(topic, queue_id, max(0, self.min_offset(topic, queue_id)))

    def record_at(self, physical_offset: int, end: int | None = None) -> memoryview | None:
        """The record that begins at a physical offset; None if none does, or if it is damaged.

        It lies before `end`; without it, before what readers see.
        """
        size = int.from_bytes(self._log.read(physical_offset, 4), "big", signed=True)
        record = self._sound(physical_offset, size, end)
        return None if record is None else memoryview(record[0])

    def message_at(self, physical_offset: int, size: int) -> StoredMessage | None:
        """The message of so many bytes at a physical offset; None if there is none, or if it is damaged."""
        record = self._sound(physical_offset, size)
        return None if record is None or record[1].size != size else record[1]

    def _sound(
        self, physical_offset: int, size: int, end: int | None = None
    ) -> tuple[bytes, StoredMessage] | None:
        """The bytes of a record, and what they say."""
        if size < FIXED_BYTES or physical_offset + size > (self._arrivals.end_of_log if end is None else end):
            return None
        # Read, not viewed: a mapped page that is not in memory would stop everybody until the disk answers.
        record = self._log.read(physical_offset, size)
        try:
            found = decode_record(record, 0, True, self._whole)
        except BadRecord:
            return None
        return (record, found) if found.physical_offset == physical_offset else None

    def unit(self, topic: str, queue_id: int, queue_offset: int) -> tuple[int, int, int] | None:
        """(physical offset, size, tags code) of a message, None if the queue does not have it."""
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
        """The units of up to `count` messages of a queue from an offset on; none if the first is missing."""
        queue = self._table.find(topic, queue_id)
        if queue is None or not queue.min_offset <= queue_offset < self._arrivals.end(queue):
            return b""
        return self._table.read(queue, queue_offset, min(count, self._arrivals.end(queue) - queue_offset))

    def matches_at(self, topic: str, queue_id: int, queue_offset: int, wanted: MessageFilter) -> bool:
        unit = self.unit(topic, queue_id, queue_offset)
        record = None if unit is None else self.record_at(unit[0])
        return record is not None and wanted.matches(properties_of(record, 0, len(record)))

    def store_time_at(self, physical_offset: int, size: int) -> int:
        """Store time of the record at a physical offset, in ms; -1 if none is there."""
        try:
            return read_header(self._log.read(physical_offset, size))[6]
        except BadRecord:
            return -1

    def earliest_store_time(self) -> int:
        """Store time of the first message in the log, in ms; -1 without one."""
        first = self._log.min_physical
        if self._earliest[0] != first:
            stored = self._stored_at(first)
            if stored < 0:
                return stored
            self._earliest = first, stored  # the disk is asked once for each segment that becomes the first
        return self._earliest[1]

    def store_time_from(self, physical_offset: int) -> int:
        """Store time of the first record from a physical offset on, in ms; -1 if there is none. At the end
        of a segment that is the first one of the next.
        """
        stored = self._stored_at(physical_offset)
        return stored if stored > 0 else self._stored_at(self._log.next_segment_start(physical_offset))

    def _stored_at(self, physical_offset: int) -> int:
        size = int.from_bytes(self._log.read(physical_offset, 4), "big", signed=True)
        return self.store_time_at(physical_offset, size) if size >= FIXED_BYTES else -1

    def offset_by_time(self, topic: str, queue_id: int, time_ms: int, upper: bool = False) -> int:
        """The queue offset for a store time: of the first message stored then or later.

        With `upper` of the last message stored then or earlier. 0 for a queue that does not exist.
        """
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

    def _time_near(self, queue: _Queue, queue_offset: int, end: int) -> int:
        """The store time of a message, or of the next one that can be read."""
        while queue_offset < end:
            unit = self._table.unit(queue, queue_offset)
            if unit is not None:
                stored = self.store_time_at(unit[0], unit[1])
                if stored >= 0:
                    return stored
            queue_offset += 1
        return NEVER


class _FrozenQueue:
    """A queue as it was: units before `tail_start` are in its files, the others here."""

    __slots__ = ("end", "files_of", "min_offset", "tail", "tail_start")

    def __init__(self, queue: ConsumeQueue, end: int) -> None:
        self.files_of = queue
        self.min_offset = queue.min_offset
        self.end = end
        self.tail_start = queue.tail_start
        self.tail = bytes(queue.tail)


class _FrozenQueues:
    def __init__(self, table: QueueTable, queues: dict[tuple[str, int], _FrozenQueue]) -> None:
        self._table = table
        self._queues = queues
        self._files = table.open_files(OPEN_FILES)

    def find(self, topic: str, queue_id: int) -> _FrozenQueue | None:
        return self._queues.get((topic, queue_id))

    def read(self, queue: _FrozenQueue, queue_offset: int, count: int) -> bytes:
        if queue_offset >= queue.tail_start:
            first = (queue_offset - queue.tail_start) * UNIT_BYTES
            return queue.tail[first : first + count * UNIT_BYTES]
        count = min(count, queue.tail_start - queue_offset)
        return self._table.read_file(self._files, queue.files_of, queue_offset, count)

    def unit(self, queue: _FrozenQueue, queue_offset: int) -> tuple[int, int, int] | None:
        return unit_in(self.read(queue, queue_offset, 1))


class _FrozenArrivals:
    def __init__(self, end_of_log: int) -> None:
        self.end_of_log = end_of_log

    def end(self, queue: _FrozenQueue) -> int:
        return queue.end


class _FrozenExtension:
    """No files: the tags of a message are read from its record."""

    def __init__(self, topics: frozenset[str]) -> None:
        self.topics = topics

    def tags_code(self, queue: _FrozenQueue, address: int) -> int | None:
        return None
