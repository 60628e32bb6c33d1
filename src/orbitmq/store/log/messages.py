"""Messages for the store, and its results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from orbitmq.protocol.records.queue_units import UNIT


class PutStatus(Enum):
    """The result of an append; the names are Apache's."""

    PUT_OK = "PUT_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"
    SERVICE_NOT_AVAILABLE = "SERVICE_NOT_AVAILABLE"
    """The disk is full, a flush has failed, or the store is closing."""
    CREATE_MAPPED_FILE_FAILED = "CREATE_MAPPED_FILE_FAILED"
    """The next segment of the commit log could not be made."""
    MESSAGE_ILLEGAL = "MESSAGE_ILLEGAL"
    """Body, topic or the whole is too long, or holds what no record can."""
    PROPERTIES_SIZE_EXCEEDED = "PROPERTIES_SIZE_EXCEEDED"
    OS_PAGE_CACHE_BUSY = "OS_PAGE_CACHE_BUSY"
    LMQ_CONSUME_QUEUE_NUM_EXCEEDED = "LMQ_CONSUME_QUEUE_NUM_EXCEEDED"
    """No further light message queue may be made."""
    UNKNOWN_ERROR = "UNKNOWN_ERROR"


FINAL_REFUSALS = frozenset({PutStatus.MESSAGE_ILLEGAL, PutStatus.PROPERTIES_SIZE_EXCEEDED})
"""Refusals of a message that will never be stored as it is; others may be over in a moment."""


class GetStatus(Enum):
    """The result of a read of a queue; the names are Apache's, and go to clients as remarks."""

    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    MESSAGE_WAS_REMOVING = "MESSAGE_WAS_REMOVING"
    OFFSET_FOUND_NULL = "OFFSET_FOUND_NULL"
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    NO_MATCHED_LOGIC_QUEUE = "NO_MATCHED_LOGIC_QUEUE"
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"
    OFFSET_RESET = "OFFSET_RESET"


@dataclass(slots=True)
class PendingMessage:
    """A message to be stored. Times are ms since 1970, hosts packed address and port (8 or 20 bytes)."""

    topic: str
    queue_id: int
    flag: int
    sys_flag: int
    born_timestamp: int
    born_host: bytes
    store_host: bytes
    reconsume_times: int
    prepared_transaction_offset: int
    body: bytes | memoryview
    properties: bytes
    tags_code: int | None = None
    """Tags code in the consume queue; None: the hash of the tag (for a delay level: the due time)."""
    batch: bytes = b""
    """Of a batch: its messages (see `protocol.records.batch_cy`), instead of flag, body and properties above.
    A batch is stored as a whole or not at all, and within one segment."""
    copy_of: int | None = None
    """Physical offset of the record that it is a copy of; None: a new message. A copy was accepted before: it
    may be longer than senders' messages by now (maxMessageSize)."""
    lmqs: tuple[str, ...] = ()
    """Light message queues in which it gets a place besides its own: the properties name them already, and
    get its offsets in them."""


@dataclass(slots=True)
class Appended:
    """The place of a stored message; all numbers are 0 unless `status` is PUT_OK."""

    status: PutStatus
    physical_offset: int = 0
    size: int = 0
    queue_offset: int = 0
    store_timestamp: int = 0
    units: bytes = b""
    """Of a batch: the unit of each message, as its queue has it; the numbers above are of the first message,
    `size` of all."""

    @property
    def parts(self) -> list[int]:
        """Of a batch: the physical offset of each message."""
        return [physical_offset for physical_offset, _, _ in UNIT.iter_unpack(self.units)]

    @property
    def end_offset(self) -> int:
        """The physical offset behind it: durable once the store's `durable_offset` has got there."""
        return self.physical_offset + self.size


class Cold(NamedTuple):
    """A range that is on the disk only: of the log, or of a queue's file."""

    offset: int
    """Physical offset; with `queue` the first queue offset."""
    size_bytes: int
    queue: object | None = None


@dataclass(slots=True)
class GetResult:
    """Messages of one queue, and where to continue.

    `records` are views into the log, each one or several whole records back to back. Let go of them soon: the
    memory of a deleted segment is given back with the last view.
    """

    status: GetStatus
    next_offset: int
    min_offset: int
    max_offset: int
    records: list[memoryview] = field(default_factory=list)
    count: int = 0
    size_bytes: int = 0
    suggest_slave: bool = False
    """The last message read is so old that it hardly is in memory any more."""
    cold: Cold | None = None
    """A range that has to come from the disk first. Nothing was read then: warm it with
    `QueueReader.read_cold` in a thread, and ask again.
    """

    @classmethod
    def without_records(
        cls, status: GetStatus, next_offset: int, min_offset: int, max_offset: int
    ) -> GetResult:
        """An answer that holds no messages."""
        return cls(status, next_offset, min_offset, max_offset)


@dataclass(slots=True)
class QueryResult:
    """Messages found by a key. The hash decides: compare the key itself before you rely on it."""

    records: Sequence[bytes | memoryview]
    last_timestamp: int
    """Store time of the newest message in the index, ms; 0 with an empty index."""
    last_physical_offset: int
    """Physical offset of the newest message in the index."""
