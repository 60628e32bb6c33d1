"""Text form of message trace: texts joined by 0x01, each record ended by 0x02, as Java's client does.

A message is traced when it was sent (Pub), and before and after it is handled (SubBefore, SubAfter).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

FIELD, END = "\x01", "\x02"
NOTHING = "null"
"""Text for a value that is not there."""


class MessageKind(IntEnum):
    """Kind of a sent message."""

    NORMAL = 0
    HALF = 1
    COMMITTED = 2
    DELAYED = 3


class Handled(IntEnum):
    """Result of handling a message."""

    SUCCESS = 0
    TIME_OUT = 1
    EXCEPTION = 2
    RETURNED_NULL = 3
    FAILED = 4


@dataclass(slots=True, frozen=True)
class TraceRecord:
    """One record, and what the message that carries it is found by."""

    topic: str
    """The topic of the message that it is about."""
    keys: tuple[str, ...]
    """That message's id and keys."""
    text: str


def _record(topic: str, message_id: str, keys: str, *fields: object) -> TraceRecord:
    texts = (NOTHING if value is None or value == "" else _text(value) for value in fields)
    return TraceRecord(topic, (*message_id.split(), *keys.split()), FIELD.join(texts) + END)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def published(
    *,
    at_ms: int,
    region: str,
    group: str,
    topic: str,
    message_id: str,
    tags: str | None,
    keys: str,
    store_host: str,
    body_length: int,
    cost_ms: int,
    kind: MessageKind,
    offset_message_id: str,
    success: bool,
) -> TraceRecord:
    """A message was sent; `store_host` is the broker's address."""
    return _record(
        topic, message_id, keys, "Pub", at_ms, region, group, topic, message_id, tags, keys, store_host,
        body_length, cost_ms, int(kind), offset_message_id, success,
    )  # fmt: skip


def before_handling(
    *,
    at_ms: int,
    region: str,
    group: str,
    topic: str,
    request_id: str,
    message_id: str,
    retry_times: int,
    keys: str,
) -> TraceRecord:
    """A message is about to be handled; `request_id` ties it to what follows."""
    return _record(
        topic, message_id, keys, "SubBefore", at_ms, region, group, request_id, message_id, retry_times, keys
    )


def after_handling(
    *,
    at_ms: int,
    group: str,
    topic: str,
    request_id: str,
    message_id: str,
    cost_ms: int,
    keys: str,
    handled: Handled,
) -> TraceRecord:
    """A message was handled."""
    return _record(
        topic, message_id, keys, "SubAfter", request_id, message_id, cost_ms, handled is Handled.SUCCESS,
        keys, int(handled), at_ms, group,
    )  # fmt: skip
