"""A message as a row, and back.

Plain values: the id and the time are given. What a broker would refuse is refused here already, in the
transaction of the program that wrote it, and not hours later in the relay.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any

from orbitmq.client.core.errors import IllegalMessage, MessageTooLarge
from orbitmq.client.core.message import Message, check_message
from orbitmq.client.core.outgoing_cy import encoded_properties
from orbitmq.outbox.tables import MAX_NAME_CHARACTERS, State, lock_of
from orbitmq.protocol.names import KEY_SEPARATOR

ROW_ID = "outboxId"
"""Property with the id of the row, the same however often the message is sent: the key for consumers that
drop duplicates. It is one of the message's keys, too, so that tools find the message by it."""

_UNIQUE_ID = "0" * 32
"""As long as the ids of clients."""


def new_id(now_ms: int, chance: int) -> str:
    """A new id (UUID version 7): ids of the same time are beside each other in an index.

    `chance` is a random number of at least 74 bits.
    """
    bits = (now_ms & ((1 << 48) - 1)) << 80 | 0x7 << 76 | (chance & 0xFFF) << 64
    return str(uuid.UUID(int=bits | 0b10 << 62 | (chance >> 12) & ((1 << 62) - 1)))


def checked_id(given: object) -> str:
    """An id that a program gave, in its usual form. Raises IllegalMessage for what is no UUID."""
    if isinstance(given, uuid.UUID):
        return str(given)
    try:
        return str(uuid.UUID(str(given)))
    except ValueError:
        raise IllegalMessage(
            f"id has to be a UUID, not {given!r:.60}: uuid5(NAMESPACE, text) makes one of your own key"
        ) from None


def row_of(
    message: Message,
    message_id: str,
    now_ms: int,
    *,
    max_size_bytes: int,
    carried: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The columns of a message that is written now; `carried` are properties of its trace.

    A delay counts from now. Raises IllegalMessage, IllegalName.
    """
    check_message(message)
    message.check()
    if len(message.body) > max_size_bytes:
        raise MessageTooLarge(len(message.body), max_size_bytes)
    if ROW_ID in message.properties:
        raise IllegalMessage(f"property {ROW_ID} is the outbox's own: give `id` to choose the message's id")
    if message.lite_topic is not None:
        raise IllegalMessage("the outbox has no column for a lite_topic: send the message by a producer")
    if message.sharding_key == "":
        raise IllegalMessage("sharding_key is empty: give the key whose order counts, or None")
    for name, value in (
        ("topic", message.topic),
        ("sharding_key", message.sharding_key),
        ("tags", message.tags),
    ):
        if value is not None and len(value) > MAX_NAME_CHARACTERS:
            raise IllegalMessage(
                f"{name} has {len(value)} characters, and the outbox's column {MAX_NAME_CHARACTERS}: "
                "give a shorter one, such as a hash of it"
            )
    properties = {**(carried or {}), **message.properties}
    encoded_properties(_with_id(message, properties, message_id), _UNIQUE_ID)
    deliver_at_ms = message.deliver_at_ms
    if message.delay_ms is not None:
        deliver_at_ms = now_ms + int(message.delay_ms)
    return {
        "id": message_id,
        "aggregatetype": message.topic,
        "aggregateid": message.sharding_key,
        "type": message.tags or None,
        "payload": message.body,
        "message_keys": KEY_SEPARATOR.join(message.keys) or None,
        "properties": json.dumps(properties, ensure_ascii=False) if properties else None,
        "delay_level": message.delay_level,
        "deliver_at_ms": None if deliver_at_ms is None else int(deliver_at_ms),
        "flag": message.flag,
        "wait_store_ok": message.wait_store_ok,
        "key_lock": lock_of(message.topic, message.sharding_key, message_id),
        "state": State.PENDING.value,
        "created_ms": now_ms,
    }


def message_of(row: Mapping[str, Any]) -> Message:
    """The message of a row. Raises IllegalMessage, IllegalName for a row that was written by other means."""
    properties = row["properties"]
    try:
        own = {} if properties is None else json.loads(properties)
        if not isinstance(own, dict):
            raise ValueError
    except ValueError:
        raise IllegalMessage(
            f"properties of row {row['id']} are no JSON object: {properties!r:.60}"
        ) from None
    keys = row["message_keys"]
    message = Message(
        row["aggregatetype"],
        row["payload"],
        tags=row["type"],
        keys=tuple(keys.split(KEY_SEPARATOR)) if keys else (),
        properties=own,
        delay_level=row["delay_level"],
        deliver_at_ms=row["deliver_at_ms"],
        sharding_key=row["aggregateid"],
        flag=row["flag"],
        wait_store_ok=bool(row["wait_store_ok"]),
    )
    return _with_id(message, own, str(row["id"]))


def _with_id(message: Message, properties: Mapping[str, str], message_id: str) -> Message:
    return Message(
        message.topic,
        message.body,
        tags=message.tags,
        keys=(*message.keys, message_id),
        properties={**properties, ROW_ID: message_id},
        delay_level=message.delay_level,
        deliver_at_ms=message.deliver_at_ms,
        delay_ms=message.delay_ms,
        sharding_key=message.sharding_key,
        flag=message.flag,
        wait_store_ok=message.wait_store_ok,
    )
