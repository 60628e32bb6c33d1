"""Messages by id, unique id, key, or place."""

from __future__ import annotations

from collections.abc import Sequence

from orbitmq.admin.admin import Admin, BrokerAt
from orbitmq.admin.topics import offset_at_time, topic_status
from orbitmq.net.address import format_address, parse_address
from orbitmq.net.errors import BadAddress
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.errors import NotFound, OrbitError, PullOffsetMoved
from orbitmq.protocol.names import TOOLS_GROUP
from orbitmq.protocol.records.ids import parse_offset_message_id
from orbitmq.protocol.records.message import StoredMessage
from orbitmq.protocol.records.message_cy import decode_record, decode_records
from orbitmq.protocol.requests.pull import (
    PullReply,
    QueryMessage,
    ViewMessageById,
    pull_without_commit,
)

MOST_PULLED = 32
"""Messages that one pull asks for: by default brokers give no more, and of cold ones fewer."""


END_OF_TIME_MS = 2**63 - 1
"""Later than any message was stored."""


class NoMessage(OrbitError):
    """Nothing is stored there, or under that name."""


async def message_by_id(admin: Admin, message_id: str, topic: str | None = None) -> StoredMessage:
    """The message with an offset id, from the broker that the id names, as it is stored.

    Raises MalformedId, PeerFailed.
    """
    place = parse_offset_message_id(message_id)
    address = format_address(*place.address)
    try:
        parse_address(address)
    except BadAddress:
        raise NoMessage(f"{message_id} is no offset id: it names {address} as its broker") from None
    body = (await admin.call(address, ViewMessageById(place.physical_offset, topic))).body
    if not body:
        raise NoMessage(f"no message with id {message_id}")
    return decode_record(body)


async def messages_by_key(
    admin: Admin,
    topic: str,
    key: str,
    *,
    unique: bool = False,
    max_count: int = 32,
    begin_ms: int = 0,
    end_ms: int = END_OF_TIME_MS,
    brokers: Sequence[BrokerAt] | None = None,
) -> list[StoredMessage]:
    """Messages of a topic by a key of theirs, or by their unique id, oldest first, as they are stored.

    `brokers` are those of the topic, where they are known already.
    Indexes hold hashes of keys: what only has the same hash is left out.
    """

    async def ask(one: BrokerAt) -> list[StoredMessage]:
        request = QueryMessage(topic, key, max_count, begin_ms, end_ms, is_unique_key=unique)
        try:
            body = (await admin.call(one.address, request)).body
        except NotFound:
            return []
        messages, _ = decode_records(body or b"")
        return [
            found
            for found in messages
            if found.topic == topic and (found.unique_id == key if unique else key in found.keys)
        ]

    lists = await admin.each(brokers or await admin.brokers_of(topic), ask)
    return sorted((found for part in lists for found in part), key=lambda found: found.store_timestamp)


async def message_at(admin: Admin, queue: MessageQueue, queue_offset: int) -> StoredMessage:
    """The message at a place in a queue, as it is stored. Raises NoMessage."""
    address = {one.name: one.address for one in await admin.brokers_of(queue.topic)}.get(queue.broker_name)
    if address is None:
        raise NoMessage(f"broker {queue.broker_name} has no queues of topic {queue.topic}")
    reply = await pull(admin, address, queue, queue_offset, 1)
    messages, damaged = decode_records(reply.body or b"")
    for found in messages:
        if found.queue_offset == queue_offset:
            return found
    if damaged:
        raise damaged[0]
    raise NoMessage(
        f"no message at offset {queue_offset} of queue {queue.queue_id} of {queue.topic} "
        f"on {queue.broker_name}: it holds {reply.min_offset} up to, without it, {reply.max_offset}"
    )


async def messages_from(
    admin: Admin, topic: str, from_ms: int, max_count: int = 32
) -> list[tuple[MessageQueue, StoredMessage]]:
    """The first messages of a topic stored at a time (ms) or later, with their queues, oldest first.

    They are as they are stored. Brokers give what one pull brings of each queue: of large messages that may
    be fewer than `max_count`.
    """
    addresses = {one.name: one.address for one in await admin.brokers_of(topic)}
    status = await topic_status(admin, topic)

    async def read(queue: MessageQueue) -> list[tuple[MessageQueue, StoredMessage]]:
        address = addresses[queue.broker_name]
        start = await offset_at_time(admin, address, queue, status[queue], from_ms)
        if start >= status[queue].max_offset:
            return []
        try:
            reply = await pull(admin, address, queue, start, max_count)
        except (NotFound, PullOffsetMoved):
            return []
        messages, _ = decode_records(reply.body or b"")
        return [(queue, one) for one in messages if one.store_timestamp >= from_ms]

    queues = [queue for queue in status if queue.broker_name in addresses]
    found = [one for part in await admin.each(queues, read) for one in part]
    return sorted(found, key=lambda one: one[1].store_timestamp)[:max_count]


async def pull(admin: Admin, address: str, queue: MessageQueue, offset: int, count: int) -> PullReply:
    """Messages of a queue from an offset on, of any tag. Raises NotFound, PullOffsetMoved."""
    return await admin.call(
        address, pull_without_commit(TOOLS_GROUP, queue.topic, queue.queue_id, offset, count)
    )


async def page(
    admin: Admin, address: str, queue: MessageQueue, offset: int, count: int
) -> tuple[list[StoredMessage], int]:
    """Messages of a queue from an offset on, as they are stored, and the offset to continue at.

    It is behind `offset` in any case: where retention was faster, it is the first one that is there.
    """
    try:
        reply = await pull(admin, address, queue, offset, count)
    except (NotFound, PullOffsetMoved):
        now = (await topic_status(admin, queue.topic)).get(queue)
        return [], max(offset + 1, now.min_offset if now is not None else END_OF_TIME_MS)
    messages, _ = decode_records(reply.body or b"")
    return messages, max(offset + 1, reply.next_begin_offset)
