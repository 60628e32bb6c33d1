"""Undecided transactions: half messages, and those that brokers no longer ask about."""

from __future__ import annotations

from dataclasses import dataclass, field

from orbitmq.admin.admin import Admin, BrokerAt
from orbitmq.admin.messages import MOST_PULLED, page
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.errors import NotFound, OrbitError, TopicNotExist
from orbitmq.protocol.names import (
    HALF_TOPIC,
    OP_HALF_TOPIC,
    OP_TAG,
    PRODUCER_GROUP,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    TRANSACTION_CHECK_TIMES,
    TRANSACTION_CHECK_TOPIC,
    TRANSACTION_GROUP,
)
from orbitmq.protocol.records.message import StoredMessage
from orbitmq.protocol.records.properties import whole_number
from orbitmq.protocol.requests.offset import GetMaxOffset, GetMinOffset, QueryConsumerOffset
from orbitmq.protocol.requests.transaction import ResumeCheckHalfMessage


@dataclass(frozen=True, slots=True)
class HalfMessage:
    """One half message. Its age is the time since `born_ms`."""

    broker: str
    topic: str
    """The topic to which a commit publishes it."""
    queue_id: int
    group: str
    """The producer group that is asked."""
    checks: int
    """Times that the group was asked."""
    message: StoredMessage
    """As it is stored."""


@dataclass(slots=True)
class Transactions:
    """Open transactions of all masters, the oldest first."""

    open: list[HalfMessage] = field(default_factory=list)
    given_up: list[HalfMessage] = field(default_factory=list)
    """Half messages that brokers no longer ask about, the newest first."""
    is_complete: bool = True
    """False where there was more to read than the budget allows."""
    errors: list[str] = field(default_factory=list)


async def transactions(admin: Admin, *, budget: int = 10_000, most_given_up: int = 100) -> Transactions:
    """Half messages without a decision. `budget` limits the records that are read of one broker."""
    found = Transactions()

    async def ask(one: BrokerAt) -> None:
        try:
            await _open_of(admin, one, budget, found)
            await _given_up_of(admin, one, most_given_up, found)
        except OrbitError as error:
            found.errors.append(f"{one.name}: {error}")
            found.is_complete = False

    await admin.each(await admin.masters(), ask)
    found.open.sort(key=lambda one: one.message.born_timestamp)
    found.given_up.sort(key=lambda one: -one.message.store_timestamp)
    return found


async def check_again(admin: Admin, broker: str, message_id: str) -> None:
    """Has the broker ask the producers about a half message from the start, by its message id.

    Raises BrokerRefused where it was decided meanwhile.
    """
    [master] = await admin.masters(broker=broker)
    await admin.call(master.address, ResumeCheckHalfMessage(HALF_TOPIC, message_id))


async def _open_of(admin: Admin, one: BrokerAt, budget: int, found: Transactions) -> None:
    ended: set[int] = set()
    # The begin of decisions is asked first, and they are read last: a half message that is decided meanwhile
    # does not look open.
    first_decision = await _begin(admin, one, OP_HALF_TOPIC)
    first_half = await _begin(admin, one, HALF_TOPIC)
    half_records, all_halves = await _read(admin, one, HALF_TOPIC, first_half, budget)
    if not half_records:
        return
    decisions, all_decisions = await _read(admin, one, OP_HALF_TOPIC, first_decision, budget)
    for record in decisions:
        if record.tags == OP_TAG:
            numbers = map(whole_number, bytes(record.body).split(b","))
            ended.update(number for number in numbers if number is not None)
    found.open += [_half(one.name, record) for record in half_records if record.queue_offset not in ended]
    found.is_complete = found.is_complete and all_halves and all_decisions


async def _given_up_of(admin: Admin, one: BrokerAt, most: int, found: Transactions) -> None:
    try:
        end = (await admin.call(one.address, GetMaxOffset(TRANSACTION_CHECK_TOPIC, 0))).offset
        begin = (await admin.call(one.address, GetMinOffset(TRANSACTION_CHECK_TOPIC, 0))).offset
    except (TopicNotExist, NotFound):
        return
    records, _ = await _pages(
        admin, one, MessageQueue(TRANSACTION_CHECK_TOPIC, one.name, 0), max(0, begin, end - most), end
    )
    found.given_up += [_half(one.name, record) for record in records]


async def _begin(admin: Admin, one: BrokerAt, topic: str) -> int:
    committed = QueryConsumerOffset(TRANSACTION_GROUP, topic, 0)
    try:
        return max(0, (await admin.call(one.address, committed)).offset)
    except NotFound:
        return max(0, (await admin.call(one.address, GetMinOffset(topic, 0))).offset)


async def _read(
    admin: Admin, one: BrokerAt, topic: str, begin: int, budget: int
) -> tuple[list[StoredMessage], bool]:
    """Records of a topic from an offset on, and whether these are all."""
    end = (await admin.call(one.address, GetMaxOffset(topic, 0))).offset
    return await _pages(admin, one, MessageQueue(topic, one.name, 0), begin, end, budget)


async def _pages(
    admin: Admin, one: BrokerAt, queue: MessageQueue, offset: int, end: int, budget: int = 1 << 30
) -> tuple[list[StoredMessage], bool]:
    records: list[StoredMessage] = []
    last = min(end, offset + budget)
    while offset < last:
        some, offset = await page(admin, one.address, queue, offset, min(MOST_PULLED, last - offset))
        records += some
    return records, last == end


def _half(broker: str, record: StoredMessage) -> HalfMessage:
    properties = record.property_map()
    return HalfMessage(
        broker,
        properties.get(REAL_TOPIC, ""),
        whole_number(properties.get(REAL_QUEUE_ID)) or 0,
        properties.get(PRODUCER_GROUP, ""),
        whole_number(properties.get(TRANSACTION_CHECK_TIMES)) or 0,
        record,
    )
