"""A store in memory: what the rules ask of a store, without files."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from orbitmq.protocol.records.encoding_cy import encode_record
from orbitmq.protocol.records.message import BadRecord, StoredMessage
from orbitmq.protocol.records.message_cy import decode_record
from orbitmq.protocol.records.properties import tags_code
from orbitmq.store import Appended, PendingMessage, PutStatus, QueryResult
from orbitmq.store.recovery.deleted_topics import LogEnd


@dataclass
class MemoryStore:
    """Keeps records by physical offset and units (physical offset, size, tags code) by queue.

    It is all parts of the store at once.
    """

    by_offset: dict[int, bytes] = field(default_factory=dict)
    queues: dict[tuple[str, int], list[tuple[int, int, int]]] = field(default_factory=dict)
    appended: list[PendingMessage] = field(default_factory=list)
    stored_ms: dict[int, int] = field(default_factory=dict)
    end: int = 0
    durable_offset: int = 0
    lmq_count: int = 0
    """There are no light message queues."""
    timers: None = None
    """There are no files for timer messages."""
    visible: dict[tuple[str, int], int] = field(default_factory=dict)
    """The ends of queues of which readers do not see all."""
    is_pressed: bool = False
    refuse: PutStatus | None = None
    """Status that every append is refused with, if any."""

    refuse_bodies: set[bytes] = field(default_factory=set)
    """Bodies that are refused, whatever else is taken."""
    refuse_bodies_with: PutStatus = PutStatus.OS_PAGE_CACHE_BUSY

    def __post_init__(self) -> None:
        self.log: Any = self
        self.lookup = self.reader = self.appending = self.newest = self.retention = self.key_search = self
        self.structures = self

    def append_many(
        self, messages: Sequence[PendingMessage], now_ms: int, answers: list[Appended] | None = None
    ) -> list[Appended]:
        answers = [] if answers is None else answers
        answers += [self.append(message, now_ms) for message in messages]
        return answers

    def append(self, message: PendingMessage, now_ms: int) -> Appended:
        if message.body in self.refuse_bodies:
            return Appended(self.refuse_bodies_with)
        if self.refuse is not None:
            return Appended(self.refuse, -1, 0, -1, now_ms)
        queue = self.queues.setdefault((message.topic, message.queue_id), [])
        out = bytearray(1 << 16)
        physical_offset, queue_offset = self.end, len(queue)
        size = encode_record(
            out,
            0,
            queue_id=message.queue_id,
            flag=message.flag,
            queue_offset=queue_offset,
            physical_offset=physical_offset,
            sys_flag=message.sys_flag,
            born_timestamp=message.born_timestamp,
            born_host=message.born_host,
            store_timestamp=now_ms,
            store_host=message.store_host,
            reconsume_times=message.reconsume_times,
            prepared_transaction_offset=message.prepared_transaction_offset,
            body=message.body,
            topic=message.topic.encode(),
            properties=message.properties,
        )
        code = tags_code(message.properties) if message.tags_code is None else message.tags_code
        queue.append((physical_offset, size, code))
        self.by_offset[physical_offset] = bytes(out[:size])
        self.stored_ms[physical_offset] = now_ms
        self.appended.append(message)
        self.end += size
        return Appended(PutStatus.PUT_OK, physical_offset, size, queue_offset, now_ms)

    @property
    def timestamp_ms(self) -> int:
        return 0

    @property
    def min_physical(self) -> int:
        return 0

    @property
    def max_physical(self) -> int:
        return self.end

    def log_end(self, physical_offset: int | None = None) -> LogEnd:
        return LogEnd(self.end if physical_offset is None else physical_offset)

    def store_time_from(self, physical_offset: int) -> int:
        return self.stored_ms.get(physical_offset, -1)

    def records(self, physical_offset: int) -> Iterator[StoredMessage]:
        return (
            decode_record(record) for at, record in sorted(self.by_offset.items()) if at >= physical_offset
        )

    def record_at(self, physical_offset: int, end: int | None = None) -> bytes | None:
        return self.by_offset.get(physical_offset)

    def units(self, topic: str, queue_id: int, queue_offset: int, count: int) -> bytes:
        """None at once: they are asked for one by one."""
        return b""

    def reserve(self, now_ms: int) -> None:
        """Nobody writes here but `append`."""

    def commit(self, writer: object) -> None:
        raise AssertionError("there was no room")

    rollback = commit

    def message_at(self, physical_offset: int, size: int) -> StoredMessage | None:
        try:
            return decode_record(self.by_offset[physical_offset])
        except (KeyError, BadRecord):
            return None

    def physical_offset_of(self, topic: str, queue_id: int, queue_offset: int) -> tuple[int, int, int] | None:
        queue = self.queues.get((topic, queue_id), [])
        return queue[queue_offset] if 0 <= queue_offset < len(queue) else None

    def min_offset(self, topic: str, queue_id: int) -> int:
        return 0 if (topic, queue_id) in self.queues else -1

    def queue_end(self, topic: str, queue_id: int) -> int:
        return len(self.queues.get((topic, queue_id), ()))

    def max_offset(self, topic: str, queue_id: int) -> int:
        return self.visible.get((topic, queue_id), self.queue_end(topic, queue_id))

    def ends(self, topic: str) -> dict[int, int]:
        return {queue_id: self.max_offset(topic, queue_id) for queue_id in self.queue_ids(topic)}

    def newest_queues(self, topic: str, most: int) -> tuple[list[int], int]:
        there = [one for one in self.queue_ids(topic) if self.queues[topic, one]]
        there.sort(key=lambda one: -self.queues[topic, one][-1][0])
        return there[:most], max(0, len(there) - most)

    def queue_ids(self, topic: str) -> list[int]:
        return sorted(queue_id for name, queue_id in self.queues if name == topic)

    def store_time(self, topic: str, queue_id: int, queue_offset: int) -> int:
        unit = self.physical_offset_of(topic, queue_id, queue_offset)
        return -1 if unit is None else self.stored_ms[unit[0]]

    def earliest_time(self, topic: str, queue_id: int) -> int:
        return self.store_time(topic, queue_id, 0)

    def offset_by_time(self, topic: str, queue_id: int, time_ms: int, upper: bool = False) -> int:
        units = self.queues.get((topic, queue_id), [])
        for queue_offset, unit in enumerate(units):
            if self.stored_ms[unit[0]] >= time_ms:
                return queue_offset
        return len(units)

    def is_in_memory(self, topic: str, queue_id: int, queue_offset: int) -> bool:
        return True

    def cold_unit(self, topic: str, queue_id: int, queue_offset: int) -> None:
        """Nothing here is on a disk."""

    def cold_record(self, physical_offset: int) -> None:
        """Nothing here is on a disk."""

    def search(self, queues: object = ()) -> MemoryStore:
        """Nothing here is on a disk."""
        return self

    def unit(self, topic: str, queue_id: int, queue_offset: int) -> tuple[int, int, int] | None:
        return self.physical_offset_of(topic, queue_id, queue_offset)

    def begin(self, *wanted: Any) -> Generator[None, None, QueryResult]:
        yield
        return self.query(*wanted)

    def query(
        self, topic: str, key: str, max_count: int, begin_ms: int, end_ms: int, index_type: str
    ) -> QueryResult:
        """Everything of the topic and time: an index that has nothing but collisions."""
        found = [
            record
            for physical_offset, record in self.by_offset.items()
            if decode_record(record).topic == topic and begin_ms <= self.stored_ms[physical_offset] <= end_ms
        ]
        last = max(self.stored_ms.values(), default=0)
        return QueryResult(found[:max_count], last, self.end)

    def delete_queues(self, topic: str) -> None:
        for key in [key for key in self.queues if key[0] == topic]:
            del self.queues[key]

    def topics(self) -> set[str]:
        return {topic for topic, _ in self.queues}
