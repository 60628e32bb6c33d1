"""DDMQ's form of orders: the JSON of its inner topics, and the ids that hold their times.

An id is `second-type-expire-times-timed-interval-innerTopic-uuid`. The uuid is the name of a message; the id
moves on with each of its times.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from orbitmq.delay_service.errors import NotSchedulable
from orbitmq.delay_service.rules.orders import Cancel, Order, Schedule
from orbitmq.delay_service.rules.times import shown
from orbitmq.delay_service.store.records import Content, Repeat
from orbitmq.protocol.names import KEYS, RESERVED_PROPERTIES, TAGS

ADD, CANCEL = 1, 2
TOMBSTONE, DELAY, LOOP, POWERS = 0, 2, 3, 4
ORDER = "delay.ddmq"
"""Control property with the id of a message to be added: its times are those of the id."""
MARK = "from_chronos"
"""Property of a delivered message, with itself as its value."""
MAX_INT = 2**31 - 1
MAX_SECOND = 253_402_300_799


@dataclass(frozen=True, slots=True)
class DdmqId:
    """An id in its parts. Times are in seconds."""

    second: int
    type: int
    expire: int
    times: int
    timed: int
    interval: int
    inner_topic: str
    """A remainder of Java's, which may be negative: the split then leaves it empty."""
    uuid: str

    def __str__(self) -> str:
        return (
            f"{self.second}-{self.type}-{self.expire}-{self.times}-{self.timed}-{self.interval}-"
            f"{self.inner_topic}-{self.uuid}"
        )


def parse_id(text: str) -> DdmqId:
    """The parts of an id. Raises NotSchedulable."""
    parts = text.split("-", 7)
    if len(parts) != 8 or not parts[7]:
        raise NotSchedulable(f"uniqDelayMsgId: {shown(text)} is no id of DDMQ")
    if not all(part.isascii() and part.isdigit() and len(part) <= 19 for part in parts[:6]):
        raise NotSchedulable(f"uniqDelayMsgId: {shown(text)} has parts that are no numbers")
    second, kind, expire, times, timed, interval = map(int, parts[:6])
    if max(times, timed, interval) > MAX_INT or second > MAX_SECOND:
        raise NotSchedulable(f"uniqDelayMsgId: {shown(text)} has numbers out of range")
    return DdmqId(second, kind, expire, times, timed, interval, parts[6], parts[7])


def at_time(text: str, due: int, occurrence: int) -> str:
    """The id of an occurrence of the same message."""
    return str(replace(parse_id(text), second=due // 1000, timed=occurrence - 1))


def schedule_of(id: DdmqId, target: str) -> Schedule:
    """The order of an id. Raises NotSchedulable for a type that is never delivered."""
    due = id.second * 1000
    if id.type == DELAY:
        # Its expiry is carried, and was never looked at.
        return Schedule(id.uuid, target, due)
    if id.type not in (LOOP, POWERS):
        raise NotSchedulable(f"uniqDelayMsgId: type {id.type} is none of 2, 3 and 4")
    if id.interval < 1:
        raise NotSchedulable("uniqDelayMsgId: the interval of a loop is at least 1")
    repeat = Repeat(
        every_ms=id.interval * 1000 if id.type == LOOP else 0,
        times=max(1, id.times),
        until=min(id.expire, MAX_SECOND) * 1000,
        catch_up="all",
        base_s=id.interval if id.type == POWERS else 0,
    )
    return Schedule(id.uuid, target, due, id.timed + 1, repeat=repeat)


def read_body(body: bytes) -> tuple[Order, Content, str]:
    """Order, message and id of a body of an inner topic. Raises NotSchedulable."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        raise NotSchedulable("the body is not DDMQ's JSON") from None
    if not isinstance(found, dict):
        raise NotSchedulable("the body is not DDMQ's JSON: it is no object")
    text = found.get("uniqDelayMsgId")
    if not isinstance(text, str):
        raise NotSchedulable("uniqDelayMsgId: it is missing")
    text = _encodable(text)
    id = parse_id(text)
    action = found.get("action")
    if action == CANCEL:
        return Cancel(id.uuid), Content(b"c", {}), ""
    if action != ADD:
        raise NotSchedulable(f"action: {shown(str(action))} is neither 1 nor 2")
    topic = found.get("topic")
    if not isinstance(topic, str) or not topic:
        raise NotSchedulable("topic: a target is needed")
    # Its ids name the occurrence that comes next.
    return (
        schedule_of(id, _encodable(topic)),
        content_of(found.get("body"), found.get("tags"), found.get("properties")),
        text,
    )


def read_order(control: Mapping[str, str]) -> tuple[Schedule, str]:
    """The order and the id in control properties with ORDER. Raises NotSchedulable."""
    id = parse_id(control[ORDER])
    if control.get("delay.action", "schedule") != "schedule" or control.get("delay.id", id.uuid) != id.uuid:
        raise NotSchedulable(f"{ORDER}: it is of messages to be added, and holds their name")
    target = control.get("delay.topic", "")
    if not target.strip():
        raise NotSchedulable("delay.topic: a target is needed")
    return replace(schedule_of(id, target), owner=control.get("delay.owner", "")), control[ORDER]


def content_of(body: Any, tags: Any, properties: Any) -> Content:
    """The message of DDMQ's JSON."""
    if not isinstance(body, str) or not body:
        raise NotSchedulable("body: it is missing")
    own: dict[str, str] = {}
    if isinstance(properties, dict):
        for name, value in properties.items():
            if name not in RESERVED_PROPERTIES and isinstance(value, str) and name and value:
                own[_encodable(name)] = _encodable(value)
    if isinstance(tags, str) and tags:
        own[TAGS] = _encodable(tags)
    return Content(body.encode("utf-8", "surrogatepass"), own)


def _encodable(text: str) -> str:
    """A text without halves of surrogate pairs, which JSON can have and UTF-8 cannot: `?`, as Java has it."""
    return text.encode("utf-8", "replace").decode()


def delivered(content: Content, text: str) -> Content:
    """The message as DDMQ's consumers know it."""
    return Content(content.body, {**(content.properties or {}), KEYS: text, MARK: MARK}, content.flag)
