"""One dead letter: of which group, from which topic, why, and how often it was sent again."""

from __future__ import annotations

import json
from dataclasses import dataclass

from orbitmq.admin.commands.messages import plain
from orbitmq.client.consumer.dead_letters import EXCEPTION, EXCEPTION_TEXT
from orbitmq.protocol.errors import OrbitError
from orbitmq.protocol.names import DLQ_ORIGIN_TOPIC, DLQ_PREFIX, RETRY_PREFIX, RETRY_TOPIC
from orbitmq.protocol.records.message import StoredMessage

REPLAYS = "orbitmq.replays"
"""The property that counts how often a message was sent again: the guard against loops."""
SHAPED_BYTES = 64 << 10
"""Longer bodies are not parsed: their shape is their size."""
SHAPED_KEYS = 20


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """The place of a dead letter in the dead-letter topic of its group."""

    broker: str
    queue_id: int
    queue_offset: int


@dataclass(frozen=True, slots=True)
class Cause:
    """Dead letters that are alike: one topic, and one exception or, where no client gave one, one shape of
    bodies.
    """

    topic: str | None
    exception: str | None
    shape: str | None


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One dead letter. `topic` is where it was sent first: None where nothing says so."""

    place: Place
    cause: Cause
    reason: str
    """The text of the exception; empty without one."""
    replays: int
    message: StoredMessage
    """As it is stored: the body may be compressed."""

    @property
    def topic(self) -> str | None:
        """Its first topic."""
        return self.cause.topic


def dead_letter_of(broker: str, message: StoredMessage) -> DeadLetter:
    """A dead letter from the record in the dead-letter topic."""
    properties = message.property_map()
    exception = properties.get(EXCEPTION) or None
    shape = None if exception else shape_of(_body(message))
    return DeadLetter(
        Place(broker, message.queue_id, message.queue_offset),
        Cause(origin_of(properties), exception, shape),
        properties.get(EXCEPTION_TEXT, ""),
        replays_of(properties),
        message,
    )


def origin_of(properties: dict[str, str]) -> str | None:
    """The topic of the first send: consumers that send back say it, and so do brokers and proxies."""
    found = properties.get(RETRY_TOPIC) or properties.get(DLQ_ORIGIN_TOPIC)
    return found if found and not found.startswith((RETRY_PREFIX, DLQ_PREFIX)) else None


def replays_of(properties: dict[str, str]) -> int:
    """Number of times it was sent again; text that is no number counts as none."""
    text = properties.get(REPLAYS, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def shape_of(body: bytes) -> str:
    """A body's kind: sorted keys of a JSON object, or `JSON array`, `text`, `binary`, `empty`, `large`."""
    if not body:
        return "empty"
    if len(body) > SHAPED_BYTES:
        return "large"
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return "binary"
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return "text"
    if isinstance(value, dict):
        keys = sorted(value)
        more = ", …" if len(keys) > SHAPED_KEYS else ""
        return "{" + ", ".join(key[:40] for key in keys[:SHAPED_KEYS]) + more + "}"
    return "JSON array" if isinstance(value, list) else "text"


def _body(message: StoredMessage) -> bytes:
    try:
        return plain(message).body
    except OrbitError:
        return b"\xff"
