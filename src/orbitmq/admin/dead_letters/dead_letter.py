"""One dead letter: of which group, from which topic, why, and how often it was sent again."""

from __future__ import annotations

import json
from dataclasses import dataclass

from orbitmq.admin.bodies import BodyBudget
from orbitmq.admin.dead_letters.rules import identity_of, letter_key, origin_of, replays_of
from orbitmq.client.consumer.dead_letters import EXCEPTION, EXCEPTION_TEXT
from orbitmq.protocol.records.message import StoredMessage

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
        return self.cause.topic

    @property
    def identity(self) -> str:
        """The identity under which every redrive sends it."""
        place, message = self.place, self.message
        key = (message.topic, place.broker, place.queue_id, place.queue_offset, message.store_timestamp)
        return identity_of(letter_key(*key))


def dead_letter_of(broker: str, message: StoredMessage) -> DeadLetter:
    """A dead letter from the record in the dead-letter topic."""
    properties = message.property_map()
    exception = properties.get(EXCEPTION) or None
    shape = None if exception else _shape_of(message)
    return DeadLetter(
        Place(broker, message.queue_id, message.queue_offset),
        Cause(origin_of(properties), exception, shape),
        properties.get(EXCEPTION_TEXT, ""),
        replays_of(properties),
        message,
    )


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


def _shape_of(message: StoredMessage) -> str:
    """The shape of a stored body, of which no more is inflated than that takes."""
    shown = BodyBudget().shown(message, SHAPED_BYTES)
    if shown.problem is not None:
        return "binary"
    return "large" if shown.is_cut else shape_of(shown.data)
