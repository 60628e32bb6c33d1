"""`orbitmq admin message ...`: look messages up by id, unique id, key, or place."""

from __future__ import annotations

import click

from orbitmq.admin.admin import Admin, BrokerAt
from orbitmq.admin.command import Moment, command
from orbitmq.admin.commands.topic_status import topic_status
from orbitmq.admin.output import Column, Facts, Rows
from orbitmq.net.address import format_address, parse_address
from orbitmq.net.errors import BadAddress
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.errors import NotFound, OrbitError, PullOffsetMoved
from orbitmq.protocol.names import TOOLS_GROUP
from orbitmq.protocol.records.compression import MAX_BODY_BYTES, inflate
from orbitmq.protocol.records.ids import host_text, parse_offset_message_id
from orbitmq.protocol.records.message import COMPRESSED, StoredMessage
from orbitmq.protocol.records.message_cy import decode_record, decode_records
from orbitmq.protocol.requests.offset import SearchOffsetByTimestamp
from orbitmq.protocol.requests.pull import (
    SUBSCRIPTION_IN_REQUEST,
    PullMessage,
    PullReply,
    QueryMessage,
    ViewMessageById,
)

MOST_PULLED = 32
"""Messages that one pull asks for: by default brokers give no more, and of cold ones fewer."""
END_OF_TIME_MS = 2**63 - 1
"""Later than any message was stored."""


class NoMessage(OrbitError):
    """Nothing is stored there, or under that name."""


async def message_by_id(admin: Admin, message_id: str, topic: str | None = None) -> StoredMessage:
    """The message with an offset id, from the broker that the id names. Raises MalformedId, PeerFailed."""
    place = parse_offset_message_id(message_id)
    address = format_address(*place.address)
    try:
        parse_address(address)
    except BadAddress:
        raise NoMessage(f"{message_id} is no offset id: it names {address} as its broker") from None
    body = (await admin.call(address, ViewMessageById(place.physical_offset, topic))).body
    if not body:
        raise NoMessage(f"no message with id {message_id}")
    return plain(decode_record(body))


async def messages_by_key(
    admin: Admin,
    topic: str,
    key: str,
    *,
    unique: bool = False,
    max_count: int = 32,
    begin_ms: int = 0,
    end_ms: int = END_OF_TIME_MS,
) -> list[StoredMessage]:
    """Messages of a topic by a key of theirs, or by their unique id, oldest first.

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
            plain(found)
            for found in messages
            if found.topic == topic and (found.unique_id == key if unique else key in found.keys)
        ]

    lists = await admin.each(await admin.brokers_of(topic), ask)
    return sorted((found for part in lists for found in part), key=lambda found: found.store_timestamp)


async def message_at(admin: Admin, queue: MessageQueue, queue_offset: int) -> StoredMessage:
    """The message at a place in a queue. Raises NoMessage."""
    address = {one.name: one.address for one in await admin.brokers_of(queue.topic)}.get(queue.broker_name)
    if address is None:
        raise NoMessage(f"broker {queue.broker_name} has no queues of topic {queue.topic}")
    reply = await pull(admin, address, queue, queue_offset, 1)
    messages, damaged = decode_records(reply.body or b"")
    for found in messages:
        if found.queue_offset == queue_offset:
            return plain(found)
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

    Brokers give what one pull brings of each queue: of large messages that may be fewer than `max_count`.
    """
    addresses = {one.name: one.address for one in await admin.brokers_of(topic)}

    async def read(queue: MessageQueue) -> list[tuple[MessageQueue, StoredMessage]]:
        address = addresses[queue.broker_name]
        start = (await admin.call(address, SearchOffsetByTimestamp(topic, queue.queue_id, from_ms))).offset
        try:
            reply = await pull(admin, address, queue, start, max_count)
        except (NotFound, PullOffsetMoved):
            return []
        messages, _ = decode_records(reply.body or b"")
        return [(queue, plain(one)) for one in messages if one.store_timestamp >= from_ms]

    queues = [queue for queue in await topic_status(admin, topic) if queue.broker_name in addresses]
    found = [one for part in await admin.each(queues, read) for one in part]
    return sorted(found, key=lambda one: one[1].store_timestamp)[:max_count]


async def pull(admin: Admin, address: str, queue: MessageQueue, offset: int, count: int) -> PullReply:
    """Messages of a queue from an offset on, of any tag. Raises NotFound, PullOffsetMoved."""
    return await admin.call(
        address,
        PullMessage(
            consumer_group=TOOLS_GROUP,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=offset,
            max_msg_nums=count,
            sys_flag=SUBSCRIPTION_IN_REQUEST,
            commit_offset=0,
            suspend_timeout_millis=0,
            sub_version=0,
            subscription="*",
            expression_type="TAG",
        ),
    )


async def page(
    admin: Admin, address: str, queue: MessageQueue, offset: int, count: int
) -> tuple[list[StoredMessage], int]:
    """Messages of a queue from an offset on, as they are stored, and the offset to go on at.

    It is behind `offset` in any case: where retention was faster, it is the first one that is there.
    """
    try:
        reply = await pull(admin, address, queue, offset, count)
    except (NotFound, PullOffsetMoved):
        now = (await topic_status(admin, queue.topic)).get(queue)
        return [], max(offset + 1, now.min_offset if now is not None else END_OF_TIME_MS)
    messages, _ = decode_records(reply.body or b"")
    return messages, max(offset + 1, reply.next_begin_offset)


def plain(message: StoredMessage) -> StoredMessage:
    """The message with its body inflated, where that is compressed. Raises Malformed."""
    if not message.sys_flag & COMPRESSED:
        return message
    return message.with_body(inflate(message.body, message.sys_flag, MAX_BODY_BYTES))


@command("message", "id", "orbitmq admin message id 7F00000100002A9F0000000000000000")
@click.argument("message_id")
@click.option("-t", "--topic", metavar="NAME", help="Its topic, which some proxies need.")
async def by_id(admin: Admin, message_id: str, topic: str | None) -> Facts:
    """The message with this offset id, which names its place in the store."""
    return facts(await message_by_id(admin, message_id, topic))


@command("message", "unique-id", "orbitmq admin message unique-id flights 7F000001C4D818B4AAC20B5A7E3C0000")
@click.argument("topic")
@click.argument("unique_id")
async def by_unique_id(admin: Admin, topic: str, unique_id: str) -> Facts:
    """The message of TOPIC with this unique id, which the producer's client gave it."""
    found = await messages_by_key(admin, topic, unique_id, unique=True)
    if not found:
        raise NoMessage(f"no message of topic {topic} with unique id {unique_id}")
    return facts(found[-1])


@command("message", "key", "orbitmq admin message key flights 2013-1-1-UA-1545-EWR --json")
@click.argument("topic")
@click.argument("key")
@click.option(
    "--max",
    "max_count",
    type=click.IntRange(1, 64),
    default=32,
    show_default=True,
    help="Maximum of messages from each broker.",
)
@click.option("--begin", type=Moment(), default=0, help="Stored at this time or later.")
@click.option("--end", type=Moment(), default=END_OF_TIME_MS, help="Stored at this time or before.")
async def by_key(admin: Admin, topic: str, key: str, max_count: int, begin: int, end: int) -> Rows:
    """Messages of TOPIC that carry KEY, oldest first."""
    found = await messages_by_key(admin, topic, key, max_count=max_count, begin_ms=begin, end_ms=end)
    if not found:
        raise NoMessage(f"no message of topic {topic} with key {key}")
    return Rows(
        (
            Column("messageId", "Message id"),
            Column("uniqueId", "Unique id"),
            Column("queueId", "Queue"),
            Column("queueOffset", "Offset"),
            Column("tags", "Tag"),
            Column("stored", "Stored", is_time=True),
            Column("bodySize", "Bytes"),
        ),
        [
            (
                one.offset_id,
                one.unique_id,
                one.queue_id,
                one.queue_offset,
                one.tags,
                one.store_timestamp,
                len(one.body),
            )
            for one in found
        ],
    )


@command("message", "list", "orbitmq admin message list flights --from 2026-01-31T06:00 --max 10")
@click.argument("topic")
@click.option("--from", "from_ms", type=Moment(), default=0, help="Stored at this time or later.")
@click.option(
    "--max",
    "max_count",
    type=click.IntRange(1, 64),
    default=32,
    show_default=True,
    help="Maximum of messages.",
)
async def by_time(admin: Admin, topic: str, from_ms: int, max_count: int) -> Rows:
    """Messages of TOPIC from a time on, of all queues, oldest first."""
    found = await messages_from(admin, topic, from_ms, max_count)
    return Rows(
        (
            Column("broker", "Broker"),
            Column("queueId", "Queue"),
            Column("queueOffset", "Offset"),
            Column("uniqueId", "Unique id"),
            Column("tags", "Tag"),
            Column("keys", "Keys"),
            Column("stored", "Stored", is_time=True),
            Column("bodySize", "Bytes"),
        ),
        [
            (
                queue.broker_name,
                queue.queue_id,
                one.queue_offset,
                one.unique_id,
                one.tags,
                one.keys,
                one.store_timestamp,
                len(one.body),
            )
            for queue, one in found
        ],
    )


@command("message", "offset", "orbitmq admin message offset flights broker-a 0 1500")
@click.argument("topic")
@click.argument("broker")
@click.argument("queue_id", type=click.IntRange(0))
@click.argument("offset", type=click.IntRange(0))
async def by_offset(admin: Admin, topic: str, broker: str, queue_id: int, offset: int) -> Facts:
    """The message at OFFSET of a queue of TOPIC on BROKER, a name."""
    return facts(await message_at(admin, MessageQueue(topic, broker, queue_id), offset))


def facts(message: StoredMessage) -> Facts:
    """All of a message; a body that is not UTF-8 in hexadecimal."""
    properties = message.property_map()
    try:
        body = message.body.decode("utf-8")
    except UnicodeDecodeError:
        body = "0x" + message.body.hex()
    return Facts(
        {
            "topic": message.topic,
            "messageId": message.offset_id,
            "uniqueId": message.unique_id,
            "queueId": message.queue_id,
            "queueOffset": message.queue_offset,
            "physicalOffset": message.physical_offset,
            "tags": message.tags,
            "keys": message.keys,
            "born": message.born_timestamp,
            "bornHost": host_text(message.born_host),
            "stored": message.store_timestamp,
            "storeHost": host_text(message.store_host),
            "reconsumeTimes": message.reconsume_times,
            "storeSize": message.size,
            "properties": properties,
            "body": body,
        },
        frozenset({"born", "stored"}),
    )
