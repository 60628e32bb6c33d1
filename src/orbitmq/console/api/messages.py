"""Messages: looked up by id, unique id, key, place or time."""

from __future__ import annotations

import base64
from typing import Annotated, Any

import msgspec

from orbitmq.admin.commands.messages import (
    NoMessage,
    message_at,
    message_by_id,
    messages_by_key,
    messages_from,
)
from orbitmq.admin.reading.life import life_of
from orbitmq.console.api.endpoint import Call, endpoint
from orbitmq.console.api.problems import ApiError
from orbitmq.console.decoding import BadSchema, DecoderMissing, UndecodableBody
from orbitmq.console.security.roles import Role
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.records.ids import host_text
from orbitmq.protocol.records.message import StoredMessage

SHOWN_BYTES = 64 << 10
"""So much of a body is in an answer with several messages; in one with a single message all of it is."""


class MessageQuery(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """One of `id`, `uniqueId`, `key`, a place (`broker`, `queueId`, `offset`), `fromMs`; all but `id` with
    `topic`.
    """

    topic: str | None = None
    id: str | None = None
    unique_id: str | None = None
    key: str | None = None
    broker: str | None = None
    queue_id: Annotated[int, msgspec.Meta(ge=0)] | None = None
    offset: Annotated[int, msgspec.Meta(ge=0)] | None = None
    from_ms: Annotated[int, msgspec.Meta(ge=0)] | None = None
    max: Annotated[int, msgspec.Meta(ge=1, le=64)] = 32


class FoundMessage(msgspec.Struct, rename="camel"):
    """One stored message."""

    topic: str
    id: str
    unique_id: str | None
    broker: str | None
    """Null where it was found by an id, which names an address only."""
    queue_id: int
    queue_offset: int
    physical_offset: int
    tags: str | None
    keys: list[str]
    born_ms: int
    born_host: str
    stored_ms: int
    store_host: str
    reconsume_times: int
    properties: dict[str, str]
    body_size: int
    body: str
    """Base64; the beginning, where `isCut`."""
    is_cut: bool
    decoded_as: str | None = None
    """`avro` or `protobuf`, where the topic has a schema."""
    decoded: str | None = None
    """The body as JSON by that schema; null where it is not of the schema,"""
    decode_error: str | None = None
    """and why."""


class FoundMessages(msgspec.Struct, rename="camel"):
    """Oldest first."""

    messages: list[FoundMessage]


@endpoint("GET", "/api/clusters/{cluster}/messages", Role.VIEWER, rows=("messages",))
async def find_messages(call: Call[MessageQuery, None]) -> FoundMessages:
    """Look messages up by id, unique id, key, place or time."""
    admin, query = call.cluster.reader, call.query
    if query.id:
        return await _found(call, [(None, await message_by_id(admin, query.id, query.topic))])
    if not query.topic:
        raise ApiError(422, "INVALID", "a topic is needed", "Name the topic of the message.", field="topic")
    if query.unique_id:
        found = await messages_by_key(admin, query.topic, query.unique_id, unique=True)
    elif query.key:
        found = await messages_by_key(admin, query.topic, query.key, max_count=query.max)
    elif query.broker and query.queue_id is not None and query.offset is not None:
        queue = MessageQueue(query.topic, query.broker, query.queue_id)
        return await _found(call, [(query.broker, await message_at(admin, queue, query.offset))])
    elif query.from_ms is not None:
        listed = await messages_from(admin, query.topic, query.from_ms, query.max)
        return await _found(call, [(queue.broker_name, one) for queue, one in listed])
    else:
        raise ApiError(422, "INVALID", "nothing to look for", "Give an id, a key, a place or a time.")
    if not found:
        raise NoMessage(f"topic {query.topic} has no message with {query.unique_id or query.key}")
    return await _found(call, [(None, one) for one in found])


class LifeQuery(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """The message."""

    topic: str
    unique_id: str


class LifeStep(msgspec.Struct, rename="camel"):
    """One thing that happened to the message. `atMs` is null of what holds now: `passed` and `waiting`."""

    at_ms: int | None
    step: str
    """`sent`, `waited`, `stored`, `delivered`, `handled`, `retry`, `dead`, `resent`,
    `passed` or `waiting`."""
    source: str
    """The evidence: `log`, `offsets` or `trace`."""
    sentence: str
    group: str
    topic: str
    message_id: str
    is_bad: bool


class MessageLife(msgspec.Struct, rename="camel"):
    """The life of one message, the earliest first."""

    message: FoundMessage
    events: list[LifeStep]
    missing: list[str]
    """Reasons that something could not be found out."""


@endpoint("GET", "/api/clusters/{cluster}/message-life", Role.VIEWER, rows=("events",))
async def get_life(call: Call[LifeQuery, None]) -> MessageLife:
    """Tell the life of one message: sent, stored, delivered, retried, given up, sent again."""
    life = await life_of(call.cluster.reader, call.query.topic, call.query.unique_id)
    return MessageLife(
        await decoded(call, found_message(None, life.message, None), bytes(life.message.body)),
        [
            LifeStep(
                one.at_ms,
                one.step,
                one.source,
                one.sentence,
                one.group,
                one.topic,
                one.message_id,
                one.is_bad,
            )
            for one in life.events
        ],
        life.missing,
    )


async def _found(call: Call[Any, Any], messages: list[tuple[str | None, StoredMessage]]) -> FoundMessages:
    most = SHOWN_BYTES if len(messages) > 1 else None
    return FoundMessages(
        [await decoded(call, found_message(broker, one, most), bytes(one.body)) for broker, one in messages]
    )


async def decoded(call: Call[Any, Any], found: FoundMessage, body: bytes) -> FoundMessage:
    """The message with its body decoded, where its topic has a schema."""
    cluster, schemas = call.cluster.name, call.console.schemas
    schema = schemas.of(cluster).get(found.topic)
    if schema is not None:
        found.decoded_as = schema.kind
        try:
            found.decoded = await schemas.decode(cluster, found.topic, body)
        except (UndecodableBody, BadSchema, DecoderMissing) as error:
            found.decode_error = str(error)
    return found


def found_message(broker: str | None, one: StoredMessage, most: int | None) -> FoundMessage:
    """A message as it is shown, with `most` bytes of its body at most; its body must not be compressed."""
    return FoundMessage(
        one.topic,
        one.offset_id,
        one.unique_id,
        broker,
        one.queue_id,
        one.queue_offset,
        one.physical_offset,
        one.tags,
        list(one.keys),
        one.born_timestamp,
        host_text(one.born_host),
        one.store_timestamp,
        host_text(one.store_host),
        one.reconsume_times,
        dict(one.property_map()),
        len(one.body),
        base64.b64encode(one.body[:most]).decode(),
        most is not None and len(one.body) > most,
    )
