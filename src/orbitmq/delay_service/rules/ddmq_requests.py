"""Requests of DDMQ's SDKs: the checks of its producer proxy, in their order and with their codes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from orbitmq.delay_service.errors import NotSchedulable
from orbitmq.delay_service.rules.ddmq import ADD, CANCEL, DELAY, LOOP, MAX_INT, POWERS, DdmqId, parse_id
from orbitmq.delay_service.rules.times import shown
from orbitmq.protocol.names import RESERVED_PROPERTIES

MAX_TAGS = 255
MAX_UUID = 255
MIN_SECOND = 1_000_000_000
MAX_DAYS = 62
MIN_INTERVAL, MIN_BASE = 3, 2
KEPT_SECONDS = 172_800
"""Expiry of a plain delayed message after its time. Ids carry it, without an effect."""
_ID = re.compile(
    r"\d{10}-\d-\d{10}-\d+-\d+-\d+-\d+-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.ASCII
)


class Code(IntEnum):
    """Codes of results. SDKs send again after every code but OK; 11 to 15 keep their node healthy."""

    OK = 0
    UNKNOWN = 10
    ILLEGAL = 11
    TIMEOUT = 12
    TOPIC_UNKNOWN = 13
    TOPIC_MISSING = 14
    TOO_FAST = 15
    NO_DELAY_TOPIC = 18
    DELAY_TOPIC = 19
    STOPPING = 20
    ID = 30
    TYPE = 31
    ACTION = 32
    TIMESTAMP = 33
    INNER_TOPIC = 34
    TIMES = 35
    EXPIRE = 36
    INTERVAL = 37
    BASE = 38


class RequestRefused(Exception):
    """A request is answered with a code other than OK."""

    def __init__(self, code: Code, reason: str) -> None:
        super().__init__(reason)
        self.code = code


@dataclass(slots=True)
class ThriftCounts:
    """Counts of a thrift port since its start."""

    results: Counter[tuple[str, int]] = field(default_factory=Counter)
    """By method and code."""
    connections: int = 0
    """Connections now."""
    refused: Counter[str] = field(default_factory=Counter)
    """Connections that were ended, by the reason."""


@dataclass(frozen=True, slots=True)
class DelayRequest:
    """A delayed message, or the cancel of one. Times are in seconds; what a sender left out is 0 or empty."""

    topic: str
    body: bytes
    action: int
    id: str = ""
    tags: str = ""
    timestamp: int = 0
    type: int = 0
    interval: int = 0
    expire: int = 0
    times: int = 0
    uuid: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)


def check_message(tags: str, properties: Mapping[str, str], body: bytes, max_body: int) -> None:
    """The first check: what no topic takes. Raises RequestRefused."""
    if len(tags) > MAX_TAGS:
        raise RequestRefused(Code.ILLEGAL, f"tags have {MAX_TAGS} characters at most")
    for name, value in properties.items():
        if name in RESERVED_PROPERTIES or name.startswith("delay."):
            raise RequestRefused(Code.ILLEGAL, f"the property {shown(name)} belongs to the broker")
        if not name.strip() or not value.strip():
            raise RequestRefused(Code.ILLEGAL, f"the property {shown(name)} has a blank name or value")
    if not body:
        raise RequestRefused(Code.ILLEGAL, "the body is empty")
    if len(body) > max_body:
        raise RequestRefused(Code.ILLEGAL, f"the body has {len(body)} bytes: {max_body} are the limit")


def cancelled_id(request: DelayRequest, inner_topics: int) -> DdmqId:
    """The id of a cancel. Raises RequestRefused."""
    if not _ID.fullmatch(request.id):
        raise RequestRefused(Code.ID, f"uniqDelayMsgId: {shown(request.id)} is no id of a send")
    try:
        id = parse_id(request.id)
    except NotSchedulable as error:
        raise RequestRefused(Code.ID, str(error)) from None
    if id.type not in (DELAY, LOOP, POWERS):
        raise RequestRefused(Code.TYPE, f"uniqDelayMsgId: type {id.type} is none of 2, 3 and 4")
    if int(id.inner_topic) >= inner_topics:
        raise RequestRefused(
            Code.INNER_TOPIC,
            f"uniqDelayMsgId: inner topic {shown(id.inner_topic)}, and the service has {inner_topics}",
        )
    return id


def new_id(request: DelayRequest, new_uuid: Callable[[], str], now_s: int) -> DdmqId:
    """The id of a message to be added; `new_uuid` is for a sender that gave none. Raises RequestRefused."""
    if not MIN_SECOND <= request.timestamp <= now_s + MAX_DAYS * 86_400:
        raise RequestRefused(
            Code.TIMESTAMP, f"timestamp: {request.timestamp} is no second up to {MAX_DAYS} days from now"
        )
    if request.type not in (DELAY, LOOP, POWERS):
        raise RequestRefused(Code.TYPE, f"dmsgtype: {request.type} is none of 2, 3 and 4")
    is_loop = request.type != DELAY
    if request.times <= 0 if is_loop else request.times != 0:
        wanted = "more than 0 for a loop" if is_loop else "0 for type 2"
        raise RequestRefused(Code.TIMES, f"times: {request.times}; it has to be {wanted}")
    if is_loop and request.expire <= request.timestamp:
        raise RequestRefused(Code.EXPIRE, f"expire: {request.expire} is not after timestamp")
    if request.type == LOOP and request.interval < MIN_INTERVAL:
        raise RequestRefused(Code.INTERVAL, f"interval: {request.interval} is less than {MIN_INTERVAL} s")
    if request.type == POWERS and request.interval < MIN_BASE:
        raise RequestRefused(Code.BASE, f"interval: {request.interval} is less than {MIN_BASE}")
    if max(request.times, request.interval) > MAX_INT:
        raise RequestRefused(Code.ILLEGAL, f"times and interval are {MAX_INT} at most")
    name = request.uuid.strip() or new_uuid()
    if len(name) > MAX_UUID or not name.isprintable():
        raise RequestRefused(Code.ILLEGAL, f"uuid: {shown(name)} is no name of {MAX_UUID} characters")
    expire = min(request.expire, 9_999_999_999) if is_loop else request.timestamp + KEPT_SECONDS
    # The interval of a plain message has no meaning, and may be anything.
    interval = request.interval if is_loop else 0
    return DdmqId(request.timestamp, request.type, expire, request.times, 0, interval, "0", name)


def check_action(action: int) -> None:
    """Raises RequestRefused for an action that is neither an add nor a cancel."""
    if action not in (ADD, CANCEL):
        raise RequestRefused(Code.ACTION, f"action: {action} is neither 1 nor 2")
