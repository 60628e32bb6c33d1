"""Messages: looked up by id, unique id, key, place or time."""

from __future__ import annotations

import base64
from typing import Annotated

import msgspec

from orbitmq.admin.commands.messages import (
    NoMessage,
    message_at,
    message_by_id,
    messages_by_key,
    messages_from,
)
from orbitmq.console.api.endpoint import Call, endpoint
from orbitmq.console.api.problems import ApiError
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


class FoundMessages(msgspec.Struct, rename="camel"):
    """Oldest first."""

    messages: list[FoundMessage]


@endpoint("GET", "/api/clusters/{cluster}/messages", Role.VIEWER, rows=("messages",))
async def find_messages(call: Call[MessageQuery, None]) -> FoundMessages:
    """Look messages up by id, unique id, key, place or time."""
    admin, query = call.cluster.admin, call.query
    if query.id:
        return _found([(None, await message_by_id(admin, query.id, query.topic))])
    if not query.topic:
        raise ApiError(422, "INVALID", "a topic is needed", "Name the topic of the message.", field="topic")
    if query.unique_id:
        found = await messages_by_key(admin, query.topic, query.unique_id, unique=True)
    elif query.key:
        found = await messages_by_key(admin, query.topic, query.key, max_count=query.max)
    elif query.broker and query.queue_id is not None and query.offset is not None:
        queue = MessageQueue(query.topic, query.broker, query.queue_id)
        return _found([(query.broker, await message_at(admin, queue, query.offset))])
    elif query.from_ms is not None:
        listed = await messages_from(admin, query.topic, query.from_ms, query.max)
        return _found([(queue.broker_name, one) for queue, one in listed])
    else:
        raise ApiError(422, "INVALID", "nothing to look for", "Give an id, a key, a place or a time.")
    if not found:
        raise NoMessage(f"topic {query.topic} has no message with {query.unique_id or query.key}")
    return _found([(None, one) for one in found])


def _found(messages: list[tuple[str | None, StoredMessage]]) -> FoundMessages:
    most = SHOWN_BYTES if len(messages) > 1 else None
    return FoundMessages([found_message(broker, one, most) for broker, one in messages])


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
