"""Messages: looked up by id, unique id, key, place or time."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from orbitmq.admin.bodies import BodyBudget, ShownBody
from orbitmq.admin.dead_letters.rules import own_properties
from orbitmq.admin.messages import NoMessage, message_at, message_by_id, messages_by_key, messages_from
from orbitmq.admin.reading.life import LifeEvent, life_of
from orbitmq.admin.reading.selection import Seen
from orbitmq.console.api.endpoint import Call, endpoint
from orbitmq.console.api.problems import Invalid
from orbitmq.console.decoding import (
    MAX_BODY_BYTES,
    TOO_LONG_TO_DECODE,
    BadSchema,
    DecoderMissing,
    UndecodableBody,
)
from orbitmq.console.masking import NOT_JSON, hidden_body
from orbitmq.console.security.roles import Role
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.records.ids import host_text
from orbitmq.protocol.records.message import StoredMessage

SHOWN_BYTES = 4 << 10
"""So much of a body is in an answer with several messages; looked up by its place a message is whole."""


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
    body_size: int | None
    """Null where only the beginning of a compressed body was inflated."""
    body: str
    """Base64; the beginning, where `isCut`."""
    is_cut: bool
    body_problem: str | None = None
    """The reason that the body is not shown as asked for: damaged, too large for the console or for one
    answer, or not for the user's eyes."""
    decoded_as: str | None = None
    """`avro` or `protobuf`, where the topic has a schema."""
    decoded: str | None = None
    """The body as JSON by that schema; null where it is not of the schema,"""
    decode_error: str | None = None
    """and why."""
    own: dict[str, str] = {}
    """The properties of the user's own."""
    is_masked: bool = False
    """True if body or properties are not those that are stored."""


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
        raise Invalid("a topic is needed", "Name the topic of the message.", field="topic")
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
        raise Invalid("nothing to look for", "Give an id, a key, a place or a time.")
    if not found:
        raise NoMessage(f"topic {query.topic} has no message with {query.unique_id or query.key}")
    return await _found(call, [(None, one) for one in found])


class LifeQuery(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """The message."""

    topic: str
    unique_id: str


class MessageLife(msgspec.Struct, rename="camel"):
    """The life of one message, the earliest first."""

    message: FoundMessage
    events: list[LifeEvent]
    missing: list[str]
    """Reasons that something could not be found out."""


@endpoint("GET", "/api/clusters/{cluster}/message-life", Role.VIEWER, rows=("events",))
async def get_life(call: Call[LifeQuery, None]) -> MessageLife:
    """Tell the life of one message: sent, stored, delivered, retried, given up, sent again."""
    life = await life_of(call.cluster.reader, call.query.topic, call.query.unique_id)
    return MessageLife(
        (await found_messages(call, [(None, life.message)], None))[0],
        life.events,
        life.missing,
    )


async def _found(call: Call[Any, Any], messages: list[tuple[str | None, StoredMessage]]) -> FoundMessages:
    return FoundMessages(await found_messages(call, messages, SHOWN_BYTES if len(messages) > 1 else None))


async def found_messages(
    call: Call[Any, Any], messages: Sequence[tuple[str | None, StoredMessage]], most: int | None
) -> list[FoundMessage]:
    """Stored messages, with their brokers, as they are shown: with `most` bytes of each body at most.

    Bodies are inflated in a thread, as far as they are shown or their topic has a schema to decode them by.
    """
    schemas = call.console.schemas.of(call.cluster.name)
    budget = BodyBudget(call.console.settings.max_inflated_body_bytes)
    masks, reads = call.console.masks, call.reads_bodies

    def show(broker: str | None, stored: StoredMessage) -> tuple[FoundMessage, ShownBody]:
        """The message, and the body to decode."""
        if not reads:
            body = hidden_body(stored)
            return _found_message(broker, stored, body), body
        by_schema = stored.topic in schemas
        wanted = most
        if most is not None and (by_schema or masks):
            wanted = max(most, MAX_BODY_BYTES)
        body = budget.shown(stored, wanted)
        shown = masks.shown(body, by_schema=by_schema).beginning(most)
        return _found_message(broker, stored, shown), body

    def show_all() -> list[tuple[FoundMessage, ShownBody]]:
        return [show(broker, one) for broker, one in messages]

    async with call.console.inflating:
        found = await asyncio.to_thread(show_all)
    return [await _decoded(call, message, body, most) for message, body in found]


def seen_by(call: Call[Any, Any]) -> Seen | None:
    """Messages as the caller may see them, for filters; None if nothing is hidden."""
    if not call.reads_bodies:
        return call.console.masks.seen_without_body
    return call.console.masks.seen if call.console.masks else None


async def _decoded(
    call: Call[Any, Any], found: FoundMessage, body: ShownBody, most: int | None
) -> FoundMessage:
    """The message as the caller may see it, with its body decoded, where its topic has a schema: with `most`
    characters at most.
    """
    cluster, schemas, masks = call.cluster.name, call.console.schemas, call.console.masks
    if masks:
        found.properties = masks.properties(found.properties)
        found.is_masked = True
    found.own = own_properties(found.properties)
    if not call.reads_bodies:
        found.is_masked = True
        return found
    schema = schemas.of(cluster).get(found.topic)
    if schema is not None:
        found.decoded_as = schema.kind
        if body.is_cut:
            found.decode_error = body.problem.text if body.problem else TOO_LONG_TO_DECODE
            return found
        try:
            found.decoded = await schemas.decode(cluster, found.topic, body.data)
        except (UndecodableBody, BadSchema, DecoderMissing) as error:
            found.decode_error = str(error)
        if masks and found.decoded is not None:
            found.decoded = masks.masked_text(found.decoded)
            found.decode_error = None if found.decoded is not None else NOT_JSON.text
        if most is not None and found.decoded is not None and len(found.decoded) > most:
            found.decoded = found.decoded[:most] + "\n…"
    return found


def _found_message(broker: str | None, one: StoredMessage, body: ShownBody) -> FoundMessage:
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
        body.size,
        base64.b64encode(body.data).decode(),
        body.is_cut,
        None if body.problem is None else body.problem.text,
    )
