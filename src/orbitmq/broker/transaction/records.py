"""Records of transactions in the log: half messages, op records, the messages that commits publish.

A half message is the message a producer sent, stored in RMQ_SYS_TRANS_HALF_TOPIC with its real topic and
queue in properties. That it is decided, or that a newer copy took its place, says an op record: a message of
RMQ_SYS_TRANS_OP_HALF_TOPIC with tag `d`, whose body lists queue offsets of half messages, `17,18,21,`.

All here is bytes and values; nothing knows which half is open.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from orbitmq.broker.copied_properties import NoRoom, copied_properties
from orbitmq.protocol.names import (
    CHECK_IMMUNITY_TIME_IN_SECONDS,
    DELAY,
    HALF_TOPIC,
    OP_HALF_TOPIC,
    OP_TAG,
    PRODUCER_GROUP,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    TAGS,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELIVER_MS,
    TRANSACTION_CHECK_TIMES,
    TRANSACTION_CHECK_TOPIC,
    TRANSACTION_ID,
    TRANSACTION_PREPARED,
    TRANSACTION_PREPARED_QUEUE_OFFSET,
    UNIQ_KEY,
    WAIT,
)
from orbitmq.protocol.records.encoding_cy import encode_record
from orbitmq.protocol.records.ids import offset_message_id
from orbitmq.protocol.records.message import TRANSACTION_COMMIT, TRANSACTION_MASK, BadRecord, StoredMessage
from orbitmq.protocol.records.message_cy import decode_record
from orbitmq.protocol.records.properties import (
    change_properties,
    decode_properties,
    encode_properties,
    find_property,
)
from orbitmq.protocol.requests.transaction import CheckTransactionState
from orbitmq.store import PendingMessage

QUEUE_ID = 0
"""Half messages and op records have one queue each."""
SEPARATOR = b","
TIMERS = frozenset({TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS})


def has_delay_level(properties: Mapping[str, str]) -> bool:
    """True if a message asks for a delay level."""
    return _number(properties, DELAY, 0) > 0


def is_delayed(properties: Mapping[str, str]) -> bool:
    """True if a message asks for any delay: a half message that does could never be published in time."""
    return has_delay_level(properties) or not TIMERS.isdisjoint(properties)


def reroute_to_half(properties: dict[str, str], topic: str, queue_id: int, group: str) -> None:
    """Makes the properties of a sent message those of a half message of `topic` and `queue_id`.

    No client may set the properties that the checks of earlier rounds leave in a message: it is dropped.
    """
    for name in (TRANSACTION_CHECK_TIMES, TRANSACTION_PREPARED_QUEUE_OFFSET):
        properties.pop(name, None)
    properties.setdefault(PRODUCER_GROUP, group)
    properties[TRANSACTION_ID] = properties[UNIQ_KEY]
    properties[REAL_TOPIC] = topic
    properties[REAL_QUEUE_ID] = str(queue_id)


def is_usual(properties: bytes) -> bool:
    """True if properties of a half message say nothing that its decision has to know, and stand in such an
    order that those of the published message are the same without those of `reroute_to_half`'s last two.
    """
    return (
        properties.isascii()
        and properties.count(b"REAL_") == 2
        and b"CHECK_IMMUNITY_" not in properties
        and b"PGROUP\x01" in properties
    )


@dataclass(slots=True)
class Half:
    """One half message as it stands in the log, and what its properties say."""

    record: StoredMessage
    properties: dict[str, str]
    topic: str
    """Topic that it goes to when it is committed."""
    queue_id: int

    @property
    def group(self) -> str:
        """The producer group that decides; empty where the record does not say."""
        return self.properties.get(PRODUCER_GROUP, "")

    @property
    def unique_id(self) -> str:
        return self.properties.get(UNIQ_KEY, "")

    @property
    def offset(self) -> int:
        """Its queue offset among the half messages."""
        return self.record.queue_offset

    @property
    def physical_offset(self) -> int:
        return self.record.physical_offset

    def at(self, offset: int) -> Half:
        """The same half message in the place of a copy of it."""
        return replace(self, record=replace(self.record, queue_offset=offset))

    @property
    def root(self) -> int:
        """The queue offset of the half message that the client sent, of which this one may be a copy."""
        first = _number(self.properties, TRANSACTION_PREPARED_QUEUE_OFFSET, -1)
        return first if 0 <= first < self.record.queue_offset else self.record.queue_offset

    @property
    def check_times(self) -> int:
        """Number of times that its producers were asked."""
        return max(0, _number(self.properties, TRANSACTION_CHECK_TIMES, 0))

    @property
    def identity(self) -> tuple[str, int]:
        """Marks that all copies of it share, and the message that a commit publishes: id and time of
        birth.
        """
        return self.unique_id, self.record.born_timestamp

    def immunity_ms(self, timeout_ms: int) -> int | None:
        """Time after its birth in which its producer is not asked, if it says so itself.

        A value that is no number, or below 0, is the broker's own `timeout_ms`.
        """
        if CHECK_IMMUNITY_TIME_IN_SECONDS not in self.properties:
            return None
        seconds = _number(self.properties, CHECK_IMMUNITY_TIME_IN_SECONDS, -1)
        return timeout_ms if seconds < 0 else seconds * 1000

    def age_ms(self, now: int) -> int:
        """Age by its producer's clock, or by the broker's where that one is ahead; below 0 if this one was
        set back since.
        """
        age = now - self.record.born_timestamp
        return age if age >= 0 else now - self.record.store_timestamp


def _number(properties: Mapping[str, str], name: str, default: int) -> int:
    try:
        return int(properties.get(name, default))
    except ValueError:
        return default


def read_half(record: bytes | memoryview | None) -> Half | None:
    """The half message in a record of the log; None if there is none in it."""
    if record is None:
        return None
    try:
        return half_of(decode_record(record))
    except BadRecord:
        return None


def half_of(message: StoredMessage) -> Half | None:
    """The half message that a record is; None if it is none."""
    properties = decode_properties(message.properties)
    topic = properties.get(REAL_TOPIC)
    queue_id = _number(properties, REAL_QUEUE_ID, -1)
    if message.topic != HALF_TOPIC or not topic or topic == HALF_TOPIC or queue_id < 0:
        return None
    return Half(message, properties, topic, queue_id)


def committed(half: Half, store_host: bytes) -> PendingMessage:
    """The message that a commit publishes: it names its half message by physical offset."""
    changes: dict[str, str | None] = {REAL_TOPIC: None, REAL_QUEUE_ID: None}
    if CHECK_IMMUNITY_TIME_IN_SECONDS not in half.properties:
        changes[TRANSACTION_PREPARED_QUEUE_OFFSET] = None
    changes[TRANSACTION_PREPARED] = "true"
    properties = change_properties(half.record.properties, changes)
    message = _like(half.record, half.topic, half.queue_id, properties, store_host)
    message.sys_flag = half.record.sys_flag & ~TRANSACTION_MASK | TRANSACTION_COMMIT
    message.prepared_transaction_offset = half.record.physical_offset
    return message


def copied(half: Half, check_times: int, store_host: bytes) -> PendingMessage:
    """The half message once more, at the end of its queue: it takes the place of the old one.

    So a half that stays open neither holds up those behind it nor grows too old for its segment. It keeps
    the offset of the first one, by which an answer that names any copy finds the newest. Raises NoRoom if its
    properties cannot hold that.
    """
    changes = {
        TRANSACTION_CHECK_TIMES: str(check_times) if check_times else None,
        TRANSACTION_PREPARED_QUEUE_OFFSET: str(half.root),
    }
    properties = copied_properties(half.record.properties, changes)
    return _like(half.record, HALF_TOPIC, QUEUE_ID, properties, store_host)


def given_up(half: Half, store_host: bytes) -> PendingMessage:
    """The half message as it is kept in TRANS_CHECK_MAX_TIME_TOPIC."""
    return _like(half.record, TRANSACTION_CHECK_TOPIC, 0, half.record.properties, store_host)


def resumed(record: StoredMessage, store_host: bytes) -> PendingMessage | None:
    """A message of TRANS_CHECK_MAX_TIME_TOPIC as a half message whose producer was not asked yet.

    None if the record does not say where it belongs.
    """
    if record.topic != TRANSACTION_CHECK_TOPIC or not find_property(record.properties, REAL_TOPIC.encode()):
        return None
    changes = {TRANSACTION_CHECK_TIMES: "0", TRANSACTION_PREPARED_QUEUE_OFFSET: None}
    try:
        properties = copied_properties(record.properties, changes, (TRANSACTION_CHECK_TIMES,))
    except NoRoom:
        properties = record.properties
    return _like(record, HALF_TOPIC, QUEUE_ID, properties, store_host)


def _like(
    record: StoredMessage, topic: str, queue_id: int, properties: bytes, store_host: bytes
) -> PendingMessage:
    return PendingMessage(
        topic=topic,
        queue_id=queue_id,
        flag=record.flag,
        sys_flag=record.sys_flag & ~TRANSACTION_MASK,
        born_timestamp=record.born_timestamp,
        born_host=record.born_host,
        store_host=store_host,
        reconsume_times=record.reconsume_times,
        prepared_transaction_offset=0,
        body=record.body,
        properties=properties,
        copy_of=record.physical_offset,
    )


def op_records(
    offsets: Iterable[int],
    max_body_bytes: int,
    host: bytes,
    now: int,
) -> Iterator[tuple[PendingMessage, list[int]]]:
    """Op records that name `offsets`, each with those it names; at least one to a record."""
    named: list[int] = []
    body = bytearray()
    for offset in offsets:
        text = b"%d," % offset
        if named and len(body) + len(text) > max_body_bytes:
            yield _op_record(bytes(body), host, now), named
            named, body = [], bytearray()
        named.append(offset)
        body += text
    if named:
        yield _op_record(bytes(body), host, now), named


OP_PROPERTIES = encode_properties({WAIT: "true", TAGS: OP_TAG})


def _op_record(body: bytes, host: bytes, now: int) -> PendingMessage:
    return PendingMessage(OP_HALF_TOPIC, QUEUE_ID, 0, 0, now, host, host, 0, 0, body, OP_PROPERTIES)


def op_offsets(body: bytes) -> list[int]:
    """The half messages that an op record names; text that is no number names none."""
    return [int(part) for part in bytes(body).split(SEPARATOR) if part.isdigit()]


def check_request(half: Half, broker_name: str) -> CheckTransactionState:
    """The question to a producer. Its body is the half message under the topic the application knows."""
    record = half.record
    body = bytearray(record.size + len(half.topic.encode()))
    written = encode_record(
        body,
        0,
        half.queue_id,
        record.flag,
        record.queue_offset,
        record.physical_offset,
        record.sys_flag,
        record.born_timestamp,
        record.born_host,
        record.store_timestamp,
        record.store_host,
        record.reconsume_times,
        record.prepared_transaction_offset,
        record.body,
        half.topic.encode(),
        record.properties,
        record.body_crc,
    )
    return CheckTransactionState(
        tran_state_table_offset=record.queue_offset,
        commit_log_offset=record.physical_offset,
        topic=HALF_TOPIC,
        msg_id=half.unique_id,
        transaction_id=half.unique_id,
        offset_msg_id=offset_message_id(record.store_host, record.physical_offset),
        broker_name=broker_name,
        body=bytes(body[:written]),
    )
