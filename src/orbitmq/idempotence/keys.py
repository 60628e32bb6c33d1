"""Keys by which two deliveries count as one message: their forms, limits and scope. Pure rules."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias
from uuid import UUID

from orbitmq.client import ReceivedMessage
from orbitmq.idempotence.errors import InvalidKey
from orbitmq.protocol.names import FIRST_ID

MAX_KEY_CHARACTERS = 255
UNIQ_KEY = "UNIQ_KEY"
"""The property with the id that a producer gives each message; a retry keeps it."""
OUTBOX_ID = "outboxId"
"""The id of a row of `orbitmq.outbox`: a relay that died may have sent it more than once."""
DELAY_ID = "delay.id"
DELAY_OCCURRENCE = "delay.occurrence"
"""Properties of a delayed message that comes more than once: its own id, and the number of this time."""
_IDS = (DELAY_ID, OUTBOX_ID, FIRST_ID, UNIQ_KEY)

KeyFunction: TypeAlias = Callable[[ReceivedMessage[Any]], object]
Key: TypeAlias = str | KeyFunction | None
"""The name of a property, a function of the message, or None for the message's id."""
Fingerprint: TypeAlias = Callable[[ReceivedMessage[Any]], bytes] | None
"""The part of a message that has to be the same each time; None: none."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The place in which keys are unique: one handler of a topic in a consumer group."""

    group: str
    topic: str
    handler: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One message as stores know it."""

    scope: Scope
    key: str
    message_id: str
    fingerprint: str
    """SHA-256 of the body, in hex; empty if bodies are not compared."""

    @property
    def id(self) -> str:
        """SHA-256 of scope and key in hex: primary key of tables, and an idempotency key for others' APIs."""
        digest = hashlib.sha256()
        for part in (self.scope.group, self.scope.topic, self.scope.handler, self.key):
            encoded = part.encode()
            digest.update(len(encoded).to_bytes(4, "big") + encoded)
        return digest.hexdigest()


def whole_body(message: ReceivedMessage[Any]) -> bytes:
    """The body of a message as it was sent."""
    return bytes(message.body)


def entry_of(message: ReceivedMessage[Any], scope: Scope, key: Key, fingerprint: Fingerprint) -> Entry:
    """The entry of a message. Raises InvalidKey."""
    digest = ""
    text = checked_key(_raw_key(message, key))
    if fingerprint is not None:
        try:
            digest = hashlib.sha256(fingerprint(message)).hexdigest()
        except Exception as error:
            raise InvalidKey(
                f"fingerprint= failed for message {message.message_id}: {type(error).__name__}: {error}"
            ) from error
    return Entry(scope, text, message.message_id.replace("\0", "")[:MAX_KEY_CHARACTERS], digest)


def _raw_key(message: ReceivedMessage[Any], key: Key) -> object:
    if key is None:
        return message_key(message.properties)
    if isinstance(key, str):
        value = message.properties.get(key)
        if value is None:
            raise InvalidKey(
                f"message {message.message_id} has no property {key!r}, which key= names: have its producer "
                "set it, or pass a function of the message"
            )
        return value
    try:
        return key(message)
    except Exception as error:
        raise InvalidKey(
            f"key= failed for message {message.message_id}: {type(error).__name__}: {error}"
        ) from error


def message_key(properties: Mapping[str, str]) -> str:
    """The key of a message without one of its own: its id, for delayed messages with their occurrence.

    Never KEYS: one order id stands in several messages. Raises InvalidKey if the message has no id.
    """
    own = next((found for name in _IDS if (found := properties.get(name))), None)
    if not own:
        raise InvalidKey(f"the message has no property {UNIQ_KEY}: pass key= to `once`")
    occurrence = properties.get(DELAY_OCCURRENCE)
    return own if occurrence is None else f"{own}#{occurrence}"


def checked_key(key: object) -> str:
    """The key as stores take it. Raises InvalidKey."""
    if isinstance(key, UUID) or (isinstance(key, int) and not isinstance(key, bool)):
        key = str(key)
    if not isinstance(key, str):
        raise InvalidKey(f"a key has to be a text, a whole number or a UUID, not {type(key).__name__}")
    if not key.strip():
        raise InvalidKey("the key is empty: each message needs one that no other intent has")
    if len(key) > MAX_KEY_CHARACTERS:
        raise InvalidKey(
            f"a key of {len(key)} characters is over the limit of {MAX_KEY_CHARACTERS}: use a digest of it"
        )
    if "\0" in key or any("\ud800" <= one <= "\udfff" for one in key):
        raise InvalidKey("the key holds characters that databases cannot store (NUL or a half of a pair)")
    return key
