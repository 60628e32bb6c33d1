"""The rules of a redrive, which the console and the Spark job share: the target of a dead letter, the
properties of the message that is sent, and the identity by which brokers know that it was.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from orbitmq.client.consumer.dead_letters import (
    EXCEPTION,
    EXCEPTION_ATTEMPT,
    EXCEPTION_CONSUMER,
    EXCEPTION_TEXT,
)
from orbitmq.protocol.names import (
    DLQ_ORIGIN_MESSAGE_ID,
    DLQ_ORIGIN_TOPIC,
    DLQ_PREFIX,
    FIRST_ID,
    ORIGIN_MESSAGE_ID,
    RESERVED_PROPERTIES,
    RETRY_PREFIX,
    RETRY_TOPIC,
    TRANSIENT_PREFIX,
    UNIQ_KEY,
    WRITE_PROPERTY,
)

To = Literal["origin", "retry"]
"""`origin`: the first topic, for every group that subscribes; `retry`: the group that failed alone."""
REPLAYS = "orbitmq.replays"
"""The property that counts how often a message was sent again: the guard against loops."""
REPLAYS_PATTERN = "[0-9]{1,9}"
"""Values of that property that count."""
MAX_REPLAYS = 3
"""Times that a message is sent again before its dead letters stay; a redrive may ask for another number."""
REDRIVEN = "orbitmq.redriven"
"""The property that names the dead letter a message was: its offset message id."""
WRITE_ID = "redrive"
"""The write to which all redrives belong, in identities."""
_REASONS = frozenset({EXCEPTION, EXCEPTION_TEXT, EXCEPTION_CONSUMER, EXCEPTION_ATTEMPT})
_MARKS = frozenset({REPLAYS, REDRIVEN, FIRST_ID, WRITE_PROPERTY})


def origin_of(properties: Mapping[str, str]) -> str | None:
    """The topic of the first send: consumers that send back say it, and so do brokers and proxies."""
    found = properties.get(RETRY_TOPIC) or properties.get(DLQ_ORIGIN_TOPIC)
    return found if found and not found.startswith((RETRY_PREFIX, DLQ_PREFIX)) else None


def replays_of(properties: Mapping[str, str]) -> int:
    """Number of times it was sent again; text that is no number counts as none."""
    text = properties.get(REPLAYS, "")
    return int(text) if re.fullmatch(REPLAYS_PATTERN, text) else 0


def target_of(topic: str | None, group: str, to: To) -> str | None:
    """The topic that a dead letter of a group goes to; None where its first topic is not known."""
    if topic is None:
        return None
    return RETRY_PREFIX + group if to == "retry" else topic


def own_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """The user's own properties, without those of brokers, clients, and earlier redrives."""
    reasons = _REASONS if EXCEPTION_ATTEMPT in properties else frozenset()
    return {
        name: value
        for name, value in properties.items()
        if name
        and value
        and name not in RESERVED_PROPERTIES
        and name not in reasons
        and name not in _MARKS
        and not name.startswith(TRANSIENT_PREFIX)
    }


def marks(properties: Mapping[str, str], offset_id: str, target: str) -> dict[str, str]:
    """The properties that a redrive adds, from those of the dead letter and its offset message id.

    The message gets a new unique id, so idempotent handlers know it by the first one (`FIRST_ID`).
    """
    added = {REDRIVEN: offset_id, REPLAYS: str(replays_of(properties) + 1)}
    if first := properties.get(FIRST_ID) or properties.get(UNIQ_KEY):
        added[FIRST_ID] = first
    if target.startswith(RETRY_PREFIX):
        added[RETRY_TOPIC] = origin_of(properties) or ""
        added[ORIGIN_MESSAGE_ID] = (
            properties.get(ORIGIN_MESSAGE_ID) or properties.get(DLQ_ORIGIN_MESSAGE_ID) or offset_id
        )
    return added


def letter_key(topic: str, broker: str, queue_id: int, queue_offset: int, stored_ms: int) -> str:
    """The name of a dead letter for good: its place, and its store time (ms).

    A topic that was deleted and made again has other dead letters at the same places.
    """
    return f"{topic}|{broker}|{queue_id}|{queue_offset}|{stored_ms}"


def identity_of(key: str) -> str:
    """The identity under which any redrive sends a dead letter; a hash of it is the unique id."""
    return f"{WRITE_ID}/{key}"
