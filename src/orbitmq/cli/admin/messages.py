"""`orbitmq admin message ...`: look messages up by id, unique id, key, or place."""

from __future__ import annotations

from typing import Any

import click

from orbitmq.admin.admin import Admin
from orbitmq.admin.bodies import FLAG, BodyBudget
from orbitmq.admin.messages import (
    END_OF_TIME_MS,
    NoMessage,
    message_at,
    message_by_id,
    messages_by_key,
    messages_from,
)
from orbitmq.admin.output import Facts, Rows, columns
from orbitmq.cli.admin.command import command
from orbitmq.flags import Moment, max_body_flag
from orbitmq.plurals import counted
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.records.compression import DEFAULT_MAX_INFLATED_BYTES
from orbitmq.protocol.records.ids import host_text
from orbitmq.protocol.records.message import StoredMessage

COUNTED_BYTES = 256 << 20
"""Inflated bytes that a list looks at to tell sizes; they are not kept."""


@command("message", "id", "orbitmq admin message id 7F00000100002A9F0000000000000000")
@click.argument("message_id")
@click.option("-t", "--topic", metavar="NAME", help="Its topic, which some proxies need.")
@max_body_flag()
async def by_id(admin: Admin, message_id: str, topic: str | None, max_inflated_body_bytes: int) -> Facts:
    """The message with this offset id, which names its place in the store."""
    return facts(await message_by_id(admin, message_id, topic), max_inflated_body_bytes)


@command("message", "unique-id", "orbitmq admin message unique-id flights 7F000001C4D818B4AAC20B5A7E3C0000")
@click.argument("topic")
@click.argument("unique_id")
@max_body_flag()
async def by_unique_id(admin: Admin, topic: str, unique_id: str, max_inflated_body_bytes: int) -> Facts:
    """The message of TOPIC with this unique id, which the producer's client gave it."""
    found = await messages_by_key(admin, topic, unique_id, unique=True)
    if not found:
        raise NoMessage(f"no message of topic {topic} with unique id {unique_id}")
    return facts(found[-1], max_inflated_body_bytes)


@command("message", "key", "orbitmq admin message key flights 2013-1-1-UA-1545-EWR --json")
@click.argument("topic")
@click.argument("key")
@click.option(
    "--max", "max_count", type=click.IntRange(1, 64), default=32, help="Maximum of messages from each broker."
)
@click.option("--begin", type=Moment(), default=0, show_default=False, help="Stored at this time or later.")
@click.option(
    "--end", type=Moment(), default=END_OF_TIME_MS, show_default=False, help="Stored at this time or before."
)
@max_body_flag()
async def by_key(
    admin: Admin,
    topic: str,
    key: str,
    max_count: int,
    begin: int,
    end: int,
    max_inflated_body_bytes: int,
) -> Rows:
    """Messages of TOPIC that carry KEY, oldest first."""
    found = await messages_by_key(admin, topic, key, max_count=max_count, begin_ms=begin, end_ms=end)
    if not found:
        raise NoMessage(f"no message of topic {topic} with key {key}")
    return _listed(
        "messageId uniqueId queueId queueOffset tags stored bodySize",
        [(None, one) for one in found],
        max_inflated_body_bytes,
    )


@command("message", "list", "orbitmq admin message list flights --from 2026-01-31T06:00 --max 10")
@click.argument("topic")
@click.option(
    "--from", "from_ms", type=Moment(), default=0, show_default=False, help="Stored at this time or later."
)
@click.option("--max", "max_count", type=click.IntRange(1, 64), default=32, help="Maximum of messages.")
@max_body_flag()
async def by_time(
    admin: Admin, topic: str, from_ms: int, max_count: int, max_inflated_body_bytes: int
) -> Rows:
    """Messages of TOPIC from a time on, of all queues, oldest first."""
    found = await messages_from(admin, topic, from_ms, max_count)
    return _listed(
        "broker queueId queueOffset uniqueId tags keys stored bodySize",
        [(queue.broker_name, one) for queue, one in found],
        max_inflated_body_bytes,
    )


@command("message", "offset", "orbitmq admin message offset flights broker-a 0 1500")
@click.argument("topic")
@click.argument("broker")
@click.argument("queue_id", type=click.IntRange(0))
@click.argument("offset", type=click.IntRange(0))
@max_body_flag()
async def by_offset(
    admin: Admin, topic: str, broker: str, queue_id: int, offset: int, max_inflated_body_bytes: int
) -> Facts:
    """The message at OFFSET of a queue of TOPIC on BROKER, a name."""
    found = await message_at(admin, MessageQueue(topic, broker, queue_id), offset)
    return facts(found, max_inflated_body_bytes)


def _listed(names: str, found: list[tuple[str | None, StoredMessage]], max_body_bytes: int) -> Rows:
    """A row for each message, with its broker. Sizes of bodies that cannot be told are null."""
    heads = columns(
        names, times="stored", queueId="Queue", queueOffset="Offset", tags="Tag", bodySize="Bytes"
    )
    budget = BodyBudget(max_body_bytes, COUNTED_BYTES)
    values = [{**_values(one), "broker": broker, "bodySize": budget.size_of(one)} for broker, one in found]
    unknown = sum(one["bodySize"] is None for one in values)
    note = (
        f"{counted(unknown, 'size')} not known: the body is damaged, larger than {FLAG}, or beyond the "
        f"{COUNTED_BYTES >> 20} MiB that one list inflates."
    )
    return Rows.picked(heads, values, note if unknown else "")


def _values(message: StoredMessage) -> dict[str, Any]:
    return {
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
        "properties": message.property_map(),
    }


def facts(message: StoredMessage, max_body_bytes: int = DEFAULT_MAX_INFLATED_BYTES) -> Facts:
    """All of a message; a body that is not UTF-8 in hexadecimal.

    A body that cannot be inflated is null; `bodyError` says why.
    """
    shown = BodyBudget(max_body_bytes, max_body_bytes + 1).shown(message)
    body: str | None = None
    if shown.problem is None:
        try:
            body = shown.data.decode("utf-8")
        except UnicodeDecodeError:
            body = "0x" + shown.data.hex()
    return Facts(
        {
            **_values(message),
            "body": body,
            **({} if shown.problem is None else {"bodyError": shown.problem.text}),
        },
        frozenset({"born", "stored"}),
    )
