# cython: annotation_typing=False
"""A message to send, and the properties that travel with it.

Hot: every send makes a message and looks at it more than once. Compiled, `Message` is an extension type whose
fields `outgoing_cy.pxd` declares, so that a look at a field costs next to nothing; interpreted, it is the
class as it stands here.
"""
# (Annotations are no C types: it is `check` that tells of an argument of a wrong type, and names the field.)

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from orbitmq.client.core.checking import check_number, check_texts, shown
from orbitmq.client.core.errors import IllegalMessage, InvalidArgument
from orbitmq.client.core.names import check_topic_to_send
from orbitmq.client.core.serializer import CONTENT_TYPE, Serializer
from orbitmq.protocol.lite_topics import MAX_LMQ_BYTES, is_lite_topic_name, is_lmq_name, lite_queue
from orbitmq.protocol.names import (
    DELAY,
    KEY_SEPARATOR,
    KEYS,
    LITE_TOPIC,
    RESERVED_PROPERTIES,
    SHARDING_KEY,
    TAGS,
    TIMER_DELAY_MS,
    TIMER_DELIVER_MS,
    UNIQ_KEY,
    WAIT,
)
from orbitmq.protocol.records.message import MAX_PROPERTIES_BYTES
from orbitmq.protocol.records.properties import (
    SEPARATOR_IN_PROPERTY,
    BadProperty,
    check_property,
    encode_properties,
)

V = TypeVar("V")

MAX_DELAY_LEVEL = 18
"""The last delay level that brokers have, as they come."""
MAX_CHECKED_TOPICS = 10_000

_checked_topics: set[str] = set()
"""Topics whose names are legal: the rule is looked at once for each."""


def _arguments(
    topic: str,
    body: bytes | bytearray | memoryview | str,
    *,
    tags: str | None = None,
    keys: str | Iterable[str] = (),
    properties: Mapping[str, str] | None = None,
    delay_level: int = 0,
    deliver_at_ms: int | None = None,
    delay_ms: int | None = None,
    sharding_key: str | None = None,
    lite_topic: str | None = None,
    flag: int = 0,
    wait_store_ok: bool = True,
) -> None:
    """The arguments of `Message`, for `help`: an extension type does not tell those of its constructor."""


class Message:
    """A message to send. It may be sent again, or changed and sent again; nothing keeps it.

    `keys` are what it can be looked up by, each without blanks; `tags` (one tag, whatever the name says) is
    what consumers filter by; `properties` are the user's own, text to text. `delay_level` 1 to 18 delays the
    delivery (1s 5s 10s 30s 1m 2m ... 10m 20m 30m 1h 2h as brokers come), 0 does not; `deliver_at_ms` (ms
    since 1970) or `delay_ms` name any time, up to three days ahead as brokers come. Messages with one
    `sharding_key` go to one queue and so keep their order. `lite_topic` names one of the topic's lite topics,
    which the topic has to have (its attribute `message.type` is LITE): letters, digits, `-` and `_`.
    `wait_store_ok` false: the broker need not wait for disk or slave even if it is set to.
    """

    __signature__ = inspect.signature(_arguments)
    __slots__ = (
        "_properties",
        "body",
        "delay_level",
        "delay_ms",
        "deliver_at_ms",
        "flag",
        "keys",
        "lite_topic",
        "sharding_key",
        "tags",
        "topic",
        "wait_store_ok",
    )

    def __init__(
        self,
        topic: str,
        body: bytes | bytearray | memoryview | str,
        *,
        tags: str | None = None,
        keys: str | Iterable[str] = (),
        properties: Mapping[str, str] | None = None,
        delay_level: int = 0,
        deliver_at_ms: int | None = None,
        delay_ms: int | None = None,
        sharding_key: str | None = None,
        lite_topic: str | None = None,
        flag: int = 0,
        wait_store_ok: bool = True,
    ) -> None:
        self.topic = topic
        self.body = body if isinstance(body, bytes) else as_bytes(body)
        self.tags = tags
        self.keys: tuple[str, ...] = keys if type(keys) is tuple else _listed(keys)
        self._properties: Mapping[str, str] | None = properties or None
        self.delay_level = delay_level
        self.deliver_at_ms = deliver_at_ms
        self.delay_ms = delay_ms
        self.sharding_key = sharding_key
        self.lite_topic = lite_topic
        self.flag = flag
        self.wait_store_ok = wait_store_ok
        self.check()

    @classmethod
    def of(cls, topic: str, value: V, serializer: Serializer[V], **fields: Any) -> Message:
        """A message whose body is `value` as `serializer` writes it, with its format as `contentType`.

        `fields` are those of a message: `keys`, `tags`, `properties` and so on. Raises what the serializer
        raises for a value that it cannot write; IllegalMessage.
        """
        properties = dict(fields.pop("properties", None) or {})
        properties[CONTENT_TYPE] = serializer.content_type
        return cls(topic, serializer.serialize(value, properties), properties=properties, **fields)

    def check(self) -> None:
        """Raises IllegalMessage or IllegalName for a field that no message can have. A send checks again."""
        if not self._is_plain():
            self._check_each()

    def _is_plain(self) -> bool:
        """True for what nearly all messages are: nothing is wrong with it, and it uses no rare field."""
        tags, sharding_key = self.tags, self.sharding_key
        if not (
            type(self.topic) is str
            and self.topic in _checked_topics
            and self.body
            and (tags is None or (type(tags) is str and tags.isprintable()))
            and (sharding_key is None or (type(sharding_key) is str and sharding_key.isprintable()))
            and type(self.delay_level) is int
            and 0 <= self.delay_level <= MAX_DELAY_LEVEL
            and type(self.flag) is int
            and -(2**31) <= self.flag < 2**31
            and (self.wait_store_ok is True or self.wait_store_ok is False)
            and self.delay_ms is None
            and self.deliver_at_ms is None
            and self.lite_topic is None
        ):
            return False
        for key in self.keys:
            if type(key) is not str or not key.isprintable() or KEY_SEPARATOR in key:
                return False
        return not self._properties or _are_plain(self._properties)

    def _check_each(self) -> None:
        if not isinstance(self.topic, str):
            raise IllegalMessage(f"Message: topic has to be a text, not {shown(self.topic)}")
        check_topic_to_send(self.topic)
        if len(_checked_topics) < MAX_CHECKED_TOPICS:
            _checked_topics.add(self.topic)
        if not self.body:
            raise IllegalMessage("a message has to have a body of at least one byte")
        if self.tags is not None and not isinstance(self.tags, str):
            raise IllegalMessage(f"Message: tags has to be one text or None, not {shown(self.tags)}")
        for key in self.keys:
            if not isinstance(key, str):
                raise IllegalMessage(f"Message: keys have to be texts, not {shown(key)}")
        if self.sharding_key is not None and not isinstance(self.sharding_key, str):
            raise IllegalMessage(f"Message: sharding_key has to be a text, not {shown(self.sharding_key)}")
        self._check_lite_topic()
        self._check_separators()
        level = self.delay_level
        if type(level) is not int or not 0 <= level <= MAX_DELAY_LEVEL:
            raise IllegalMessage(
                f"Message: delay_level has to be from 0 to {MAX_DELAY_LEVEL}, not {shown(level)}; "
                "delay_ms and deliver_at_ms name any time"
            )
        if type(self.flag) is not int or not -(2**31) <= self.flag < 2**31:
            raise IllegalMessage(f"Message: flag has to be a number of 32 bits, not {shown(self.flag)}")
        if not isinstance(self.wait_store_ok, bool):
            raise IllegalMessage(
                f"Message: wait_store_ok has to be True or False, not {shown(self.wait_store_ok)}"
            )
        if self.properties or self.delay_ms is not None or self.deliver_at_ms is not None:
            self._check_rare()

    def _check_lite_topic(self) -> None:
        name = self.lite_topic
        if name is None:
            return
        if not isinstance(name, str) or not is_lite_topic_name(name):
            raise IllegalMessage(
                f"Message: lite_topic has to be a text of letters, digits, - and _, not {shown(name)}"
            )
        if not is_lmq_name(lite_queue(self.topic, name)):
            raise IllegalMessage(
                f"Message: topic and lite_topic are too long together: {MAX_LMQ_BYTES} bytes with their signs"
            )
        if self.sharding_key is not None:
            raise IllegalMessage(
                "Message: lite_topic or sharding_key: the messages of a lite topic are in order by themselves"
            )

    def _check_separators(self) -> None:
        try:
            for name, value in ((TAGS, self.tags), (SHARDING_KEY, self.sharding_key)):
                if value is not None:
                    check_property(name, value)
            for key in self.keys:
                check_property(KEYS, key)
        except BadProperty as error:
            raise IllegalMessage(f"Message: {error}") from None
        for key in self.keys:
            if KEY_SEPARATOR in key:
                # Brokers keep keys as one text, with blanks between them.
                raise IllegalMessage(
                    f"Message: a key has no blanks, for brokers take {shown(key)} for several keys: "
                    "give keys=[...] if it is several, or write the blank in another way, as %20"
                )

    def _check_rare(self) -> None:
        if bool(self.delay_level) + (self.deliver_at_ms is not None) + (self.delay_ms is not None) > 1:
            raise IllegalMessage("a message has one of delay_level, deliver_at_ms and delay_ms")
        try:
            check_texts("Message", "properties", self.properties)
            self._check_properties()
            for name in ("delay_ms", "deliver_at_ms"):
                if getattr(self, name) is not None:
                    check_number("Message", name, getattr(self, name), 0, 2**63 - 1)
        except InvalidArgument as error:
            raise IllegalMessage(str(error)) from None

    def _check_properties(self) -> None:
        own = self.properties
        if not RESERVED_PROPERTIES.isdisjoint(own):
            taken = ", ".join(sorted(RESERVED_PROPERTIES.intersection(own)))
            raise IllegalMessage(f"properties {taken} are RocketMQ's own: choose another name")
        if "" in own or "" in own.values():
            raise IllegalMessage("a property has neither an empty name nor an empty value")
        try:
            for name, value in own.items():
                check_property(name, value)
        except BadProperty as error:
            raise IllegalMessage(f"Message: {error}") from None

    @property
    def properties(self) -> Mapping[str, str]:
        """The user's own, text to text."""
        if self._properties is None:
            self._properties = {}
        return self._properties

    @properties.setter
    def properties(self, properties: Mapping[str, str]) -> None:
        self._properties = properties

    @property
    def is_delayed(self) -> bool:
        """True if it is to come later than it is sent."""
        return bool(self.delay_level) or self.deliver_at_ms is not None or self.delay_ms is not None

    @property
    def goes_alone(self) -> bool:
        """True if it cannot share a request with others: brokers do not look for its kind in a batch."""
        return (
            self.lite_topic is not None
            or bool(self.delay_level)
            or self.deliver_at_ms is not None
            or self.delay_ms is not None
        )

    def of_lite_topic(self, lite_topic: str) -> Message:
        """The same message for a lite topic of its topic. Raises IllegalMessage."""
        return Message(
            self.topic,
            self.body,
            tags=self.tags,
            keys=self.keys,
            properties=self._properties,
            delay_level=self.delay_level,
            deliver_at_ms=self.deliver_at_ms,
            delay_ms=self.delay_ms,
            sharding_key=self.sharding_key,
            lite_topic=lite_topic,
            flag=self.flag,
            wait_store_ok=self.wait_store_ok,
        )

    def wire_properties(self, unique_id: str) -> dict[str, str]:
        """Every property that travels with it, once it is checked."""
        result: dict[str, str] = dict(self.properties)
        if self.keys:
            result[KEYS] = KEY_SEPARATOR.join(self.keys)
        if self.tags:
            result[TAGS] = self.tags
        if self.delay_level:
            result[DELAY] = str(self.delay_level)
        if self.deliver_at_ms is not None:
            result[TIMER_DELIVER_MS] = str(int(self.deliver_at_ms))
        if self.delay_ms is not None:
            result[TIMER_DELAY_MS] = str(int(self.delay_ms))
        if self.sharding_key:
            result[SHARDING_KEY] = self.sharding_key
        if self.lite_topic is not None:
            result[LITE_TOPIC] = self.lite_topic
        result[UNIQ_KEY] = unique_id
        result[WAIT] = "true" if self.wait_store_ok else "false"
        return result

    def __repr__(self) -> str:
        shown = "".join(
            f", {name}={value!r}" for name, value in (("tags", self.tags), ("keys", self.keys)) if value
        )
        return f"Message({self.topic!r}, <{len(self.body)} bytes>{shown})"


def check_message(message: object) -> None:
    """Raises IllegalMessage for what is no message."""
    if not isinstance(message, Message):
        raise IllegalMessage(f"what is sent has to be a Message(topic, body), not {shown(message)}")


def as_bytes(body: bytes | bytearray | memoryview | str) -> bytes:
    """A body as it travels. Raises IllegalMessage for what is none: `bytes(5)` would be five zero bytes."""
    if isinstance(body, str):
        return body.encode()
    try:
        return bytes(memoryview(body))
    except TypeError:
        raise IllegalMessage(f"a body has to be bytes or a text, not {shown(body)}") from None


def _listed(keys: str | Iterable[str]) -> tuple[str, ...]:
    if isinstance(keys, str):
        return (keys,)
    try:
        return tuple(keys)
    except TypeError:
        raise IllegalMessage(f"Message: keys has to be a text or several, not {shown(keys)}") from None


def _are_plain(properties: Mapping[str, str]) -> bool:
    """True for properties that can travel as they are, as nearly all can."""
    if type(properties) is not dict or not RESERVED_PROPERTIES.isdisjoint(properties):
        return False
    for name, value in properties.items():
        if not (
            type(name) is str
            and type(value) is str
            and name
            and value
            and name.isprintable()
            and value.isprintable()
        ):
            return False
    return True


def encoded_properties(message: Message, unique_id: str, more: Mapping[str, str] | None = None) -> bytes:
    """Everything that travels beside the body; `more` comes from the client itself. Raises IllegalMessage."""
    if not (
        more
        or message.delay_level
        or message.delay_ms is not None
        or message.deliver_at_ms is not None
        or message.lite_topic is not None
    ):
        return _encoded_plain(message, unique_id)
    try:
        all_properties = message.wire_properties(unique_id)
        if more:
            all_properties.update(more)
        properties = encode_properties(all_properties)
    except BadProperty as error:
        raise IllegalMessage(str(error)) from None
    return _within_limit(properties)


def _encoded_plain(message: Message, unique_id: str) -> bytes:
    """The same for a message without rare fields, which nearly all are; its properties have been checked."""
    wait = "true" if message.wait_store_ok else "false"
    own = message._properties
    if not (own or message.keys or message.tags or message.sharding_key):
        return f"UNIQ_KEY\x01{unique_id}\x02WAIT\x01{wait}\x02".encode()
    text, count = "", 0
    if own:
        text, count = "".join([f"{name}\x01{value}\x02" for name, value in own.items()]), len(own)
    if message.keys:
        text, count = f"{text}{KEYS}\x01{KEY_SEPARATOR.join(message.keys)}\x02", count + 1
    if message.tags:
        text, count = f"{text}{TAGS}\x01{message.tags}\x02", count + 1
    if message.sharding_key:
        text, count = f"{text}{SHARDING_KEY}\x01{message.sharding_key}\x02", count + 1
    if text.count("\x02") != count or "\x00" in text:
        raise IllegalMessage(SEPARATOR_IN_PROPERTY)
    return _within_limit(f"{text}UNIQ_KEY\x01{unique_id}\x02WAIT\x01{wait}\x02".encode("utf-8", "replace"))


def _within_limit(properties: bytes) -> bytes:
    if len(properties) > MAX_PROPERTIES_BYTES:
        raise IllegalMessage(
            f"{len(properties)} bytes of keys, tags and properties: {MAX_PROPERTIES_BYTES} can be stored"
        )
    return properties
