"""Light message queues (LMQ): further queues of a record that is stored once; and lite topics, made of them.

The property INNER_MULTI_DISPATCH lists the names of a record's light queues, INNER_MULTI_QUEUE_OFFSET its
queue offset in each. A light queue is number 0 of its name, and needs no topic. That of a lite topic is
named after the topic which its messages are sent to, its parent: `%LMQ%$parent$lite`.
"""

from __future__ import annotations

from orbitmq.protocol.bodies.group import SubscriptionGroupConfig
from orbitmq.protocol.names import (
    DLQ_PREFIX,
    INNER_MULTI_DISPATCH,
    INNER_MULTI_QUEUE_OFFSET,
    LITE_PREFIX,
    LMQ_PREFIX,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    SYSTEM_TOPIC_PREFIX,
)
from orbitmq.protocol.records.properties_cy import find_property

BIND_TOPIC = "lite.bind.topic"
"""Attribute of a group: the parent whose lite topics its members consume."""
MAX_LMQ_BYTES = 255
"""The name becomes the name of a folder."""
MAX_LMQS = 64
"""Light queues that one message may be in."""
_NAMES_MARK = INNER_MULTI_DISPATCH.encode() + b"\x01"
_OFFSET_MARK = INNER_MULTI_QUEUE_OFFSET.encode() + b"\x01"
_NOT_DISPATCHED = (RETRY_PREFIX, DLQ_PREFIX, SYSTEM_TOPIC_PREFIX)
"""Topics whose records are copies: what they say of light queues is said of the record they were made of."""


def bound_topic(group: SubscriptionGroupConfig | None) -> str | None:
    """The parent that a lite group is bound to; None for any other group."""
    return None if group is None else group.attributes.get(BIND_TOPIC)


def lite_queue(parent: str, lite_topic: str) -> str:
    """The name of the light queue of a lite topic."""
    return f"{LITE_PREFIX}{parent}${lite_topic}"


def lite_parts(lmq: str) -> tuple[str, str] | None:
    """The parent and the lite topic of a light queue; None for one that belongs to no lite topic."""
    if not lmq.startswith(LITE_PREFIX):
        return None
    parent, _, lite_topic = lmq[len(LITE_PREFIX) :].partition("$")
    return (parent, lite_topic) if parent and lite_topic and "$" not in lite_topic else None


def is_lmq_name(name: str) -> bool:
    """True if a name may be that of a light queue."""
    return (
        name.startswith(LMQ_PREFIX)
        and len(LMQ_PREFIX) < len(name)
        and len(name.encode("utf-8", "replace")) <= MAX_LMQ_BYTES
        and not any(character in name for character in "/\x00\x01\x02,")
    )


def is_lite_topic_name(name: str) -> bool:
    """True if a lite topic may have this name: letters, digits, `-` and `_`."""
    return bool(name) and name.isascii() and all(c.isalnum() or c in "-_" for c in name)


def with_offsets(properties: bytes, offsets: list[int]) -> bytes:
    """The properties of a record with its queue offsets in its light queues."""
    separator = b"\x02" if properties and not properties.endswith(b"\x02") else b""
    return b"%b%b%b%b\x02" % (properties, separator, _OFFSET_MARK, ",".join(map(str, offsets)).encode())


def named_lmqs(properties: bytes) -> tuple[str, ...]:
    """The light queues that a waiting message is for."""
    text = find_property(properties, INNER_MULTI_DISPATCH.encode()) if _NAMES_MARK in properties else None
    names = tuple((text or b"").decode("utf-8", "replace").split(","))
    return names if len(set(names)) == len(names) <= MAX_LMQS and all(map(is_lmq_name, names)) else ()


def lmq_places(topic: str, properties: bytes) -> list[tuple[str, int]]:
    """The light queues of a stored record, and its queue offset in each; none for a copy of a record.

    What cannot be, such as lists of different lengths, means that the record is in no light queue.
    """
    if _OFFSET_MARK not in properties or topic.startswith(_NOT_DISPATCHED) or topic == SCHEDULE_TOPIC:
        return []
    names = (find_property(properties, INNER_MULTI_DISPATCH.encode()) or b"").decode("utf-8", "replace")
    offsets = (find_property(properties, INNER_MULTI_QUEUE_OFFSET.encode()) or b"").decode("utf-8", "replace")
    places = list(zip(names.split(","), offsets.split(","), strict=False))
    is_sound = len(places) <= MAX_LMQS and names.count(",") == offsets.count(",")
    if not is_sound or not all(
        is_lmq_name(name) and offset.isascii() and offset.isdigit() and len(offset) < 19
        for name, offset in places
    ):
        return []
    return [(name, int(offset)) for name, offset in places]
