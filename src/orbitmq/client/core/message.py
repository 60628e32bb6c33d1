"""Messages as an application sees them: what it sends, what it receives, and what came of a send."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from orbitmq.client.core.checking import check_number, check_texts, shown
from orbitmq.client.core.errors import DeserializationFailed, IllegalMessage, InvalidArgument
from orbitmq.client.core.names import check_topic_to_send
from orbitmq.client.core.namespaces import unwrap
from orbitmq.client.core.serializer import CONTENT_TYPE, Serializer
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.names import (
    DELAY,
    KEY_SEPARATOR,
    KEYS,
    RESERVED_PROPERTIES,
    SHARDING_KEY,
    TAGS,
    TIMER_DELAY_MS,
    TIMER_DELIVER_MS,
    UNIQ_KEY,
    WAIT,
)
from orbitmq.protocol.records.ids import host_text
from orbitmq.protocol.records.message import StoredMessage
from orbitmq.protocol.records.message_cy import SplitRecord, joined_record
from orbitmq.protocol.records.properties import BadProperty, check_property, decode_properties, find_property

if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    T = TypeVarWithDefault("T", default=Any)
else:
    T = TypeVar("T")
V = TypeVar("V")

MAX_DELAY_LEVEL = 18
"""The last delay level that brokers have, as they come."""
MAX_CHECKED_TOPICS = 10_000

_KEYS, _SHARDING_KEY, _TAGS, _UNIQ_KEY = (name.encode() for name in (KEYS, SHARDING_KEY, TAGS, UNIQ_KEY))

_checked_topics: set[str] = set()
"""Topics whose names are legal: the rule is looked at once for each."""


class Message:
    """A message to send. It may be sent again, or changed and sent again; nothing keeps it.

    `keys` are what it can be looked up by; `tags` (one tag, whatever the name says) is what consumers
    filter by; `properties` are the user's own, text to text. `delay_level` 1 to 18 delays the delivery
    (1s 5s 10s 30s 1m 2m ... 10m 20m 30m 1h 2h as brokers come), 0 does not; `deliver_at_ms` (ms since
    1970) or `delay_ms` name any time, up to three days ahead as brokers come. Messages with one
    `sharding_key` go to one queue and so keep their order. `wait_store_ok` false: the broker need not
    wait for disk or slave even if it is set to.
    """

    __slots__ = (
        "body",
        "delay_level",
        "delay_ms",
        "deliver_at_ms",
        "flag",
        "keys",
        "properties",
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
        flag: int = 0,
        wait_store_ok: bool = True,
    ) -> None:
        self.topic = topic
        self.body = body if isinstance(body, bytes) else as_bytes(body)
        self.tags = tags
        self.keys: tuple[str, ...] = keys if type(keys) is tuple else _listed(keys)
        self.properties: Mapping[str, str] = properties or {}
        self.delay_level = delay_level
        self.deliver_at_ms = deliver_at_ms
        self.delay_ms = delay_ms
        self.sharding_key = sharding_key
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
        tags, sharding_key, level, flag = self.tags, self.sharding_key, self.delay_level, self.flag
        # One look at what nearly all messages are; the rest finds out what is wrong, if anything is.
        if (
            type(self.topic) is str
            and self.topic in _checked_topics
            and self.body
            and (tags is None or (type(tags) is str and tags.isprintable()))
            and (sharding_key is None or (type(sharding_key) is str and sharding_key.isprintable()))
            and type(level) is int
            and 0 <= level <= MAX_DELAY_LEVEL
            and type(flag) is int
            and -(2**31) <= flag < 2**31
            and (self.wait_store_ok is True or self.wait_store_ok is False)
            and not self.properties
            and self.delay_ms is None
            and self.deliver_at_ms is None
        ):
            for key in self.keys:
                if type(key) is not str or not key.isprintable():
                    break
            else:
                return
        self._check_each()

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

    def _check_separators(self) -> None:
        try:
            for name, value in ((TAGS, self.tags), (SHARDING_KEY, self.sharding_key)):
                if value is not None:
                    check_property(name, value)
            for key in self.keys:
                check_property(KEYS, key)
        except BadProperty as error:
            raise IllegalMessage(f"Message: {error}") from None

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
    def is_delayed(self) -> bool:
        """True if it is to come later than it is sent."""
        return bool(self.delay_level) or self.deliver_at_ms is not None or self.delay_ms is not None

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


class NamedEnum(IntEnum):
    """Numbers of the protocol that print as their names."""

    def __str__(self) -> str:
        return self.name

    def __format__(self, spec: str) -> str:
        return format(self.name, spec)


class SendStatus(NamedEnum):
    """Safety of a stored message when the broker answered."""

    SEND_OK = 0
    """As safe as the broker is set to make it."""
    FLUSH_DISK_TIMEOUT = 10
    """Stored, but not yet on the disk in time."""
    SLAVE_NOT_AVAILABLE = 11
    """Stored, but no slave was there to copy it."""
    FLUSH_SLAVE_TIMEOUT = 12
    """Stored, but not yet copied in time."""


@dataclass(slots=True)
class SendResult:
    """The place of a stored message."""

    status: SendStatus
    message_id: str
    """The unique id that this client gave it; consumers see the same."""
    offset_message_id: str
    """The id that says where it is stored; empty where the broker gave none."""
    queue: MessageQueue
    queue_offset: int
    transaction_id: str | None = None
    region_id: str = "DefaultRegion"
    recall_handle: str | None = None
    """Handle by which `Producer.recall` takes back a message with `deliver_at_ms` or `delay_ms`."""


class ReceivedProperties(dict[str, str]):
    """The properties of a received message: a dict that refuses changes, for none would travel."""

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError(
            "properties of a received message cannot be changed, for a retry delivers it as it was sent: "
            "work on dict(message.properties), and send a message of your own where it has to travel"
        )

    __setitem__ = __delitem__ = __ior__ = _refuse
    pop = popitem = clear = update = setdefault = _refuse

    def __reduce__(self) -> tuple[type[dict[str, str]], tuple[dict[str, str]]]:
        """A copy is a plain dict, which may be changed."""
        return dict, (dict(self),)


class ReceivedMessage(Generic[T]):
    """A message as it came from a queue. Equal messages are the same object: it is one delivery.

    `ReceivedMessage[Order]` is one of a subscription with a serializer whose `value` is an Order.
    """

    __slots__ = (
        "_properties",
        "_record",
        "_value",
        "body",
        "consume_start_ms",
        "on_ack",
        "queue",
        "queue_offset",
        "reconsume_times",
        "serializer",
        "topic",
        "wire_topic",
    )

    def __init__(self, record: StoredMessage, queue: MessageQueue, topic: str, namespace: str = "") -> None:
        self._record: StoredMessage | SplitRecord = record
        self._properties: ReceivedProperties | None = None
        self.wire_topic = topic
        """The topic it was sent to as brokers know it, with the namespace."""
        self.topic = unwrap(namespace, topic) if namespace else topic
        """The topic it was sent to, also where it comes from a retry topic."""
        self.body = record.body
        """As it was sent: not compressed."""
        self.queue = queue
        """The queue it came from: for a retried message one of the group's retry topic."""
        self.queue_offset = record.queue_offset
        """Its place in the queue."""
        self.reconsume_times = record.reconsume_times
        """Number of earlier deliveries."""
        self.consume_start_ms = 0
        """When a handler got it (ms since 1970); 0 before."""
        self.serializer: Serializer[T] | None = None
        """Serializer that `value` is read with: that of the subscription."""
        self.on_ack: Callable[[ReceivedMessage], Awaitable[None]] | None = None
        """Function behind `ack`; None where others say that the message is done."""

    @classmethod
    def of_split(
        cls, records: Iterable[SplitRecord], queue: MessageQueue, topic: str, namespace: str = ""
    ) -> list[ReceivedMessage[T]]:
        """The messages of records that are not compressed; rarely used fields are read on demand."""
        shown_topic = unwrap(namespace, topic) if namespace else topic
        new = cls.__new__
        messages = []
        for record in records:
            # The same as __init__, without the cost of a call for each.
            message = new(cls)
            message.queue_offset, _, message.reconsume_times, message.body, _, _ = message._record = record
            message._properties = None
            message.wire_topic = topic
            message.topic = shown_topic
            message.queue = queue
            message.consume_start_ms = 0
            message.serializer = None
            message.on_ack = None
            messages.append(message)
        return messages

    async def ack(self) -> None:
        """Says that the message is done: of a topic with `manual_ack=True`, or from `async for`.

        May be called by any task of the consumer's event loop, and more than once. Of a message that is no
        more ours nothing is done: it comes again. Raises InvalidArgument for other messages.
        """
        if self.on_ack is None:
            raise InvalidArgument(
                "ack: the message is done when its handler ends: see subscribe(manual_ack=)"
            )
        await self.on_ack(self)

    @property
    def value(self) -> T:
        """The body as the serializer of the subscription reads it; read once.

        Raises DeserializationFailed for a body that is not one, InvalidArgument without a serializer.
        """
        try:
            return self._value
        except AttributeError:
            if self.serializer is None:
                raise InvalidArgument(
                    "value: the subscription has no serializer: see subscribe(serializer=)"
                ) from None
        self._value: T = self.decode(self.serializer)
        return self._value

    def decode(self, serializer: Serializer[V]) -> V:
        """The body as `serializer` reads it. Raises DeserializationFailed."""
        try:
            return serializer.deserialize(self.body, self.properties)
        except Exception as error:
            kind = self.properties.get(CONTENT_TYPE, "no content type")
            raise DeserializationFailed(
                f"{self.message_id}: a body of {self.size_bytes} bytes ({kind}) cannot be read by "
                f"{type(serializer).__name__}: {type(error).__name__}: {shown(str(error))}"
            ) from error

    @property
    def content_type(self) -> str | None:
        """The media type of the body, as its sender said (`contentType`)."""
        return self.properties.get(CONTENT_TYPE)

    @property
    def record(self) -> StoredMessage:
        """The record of the broker's log, with everything there is."""
        record = self._record
        if isinstance(record, tuple):
            record = self._record = joined_record(record)
        return record

    @property
    def properties(self) -> Mapping[str, str]:
        """All properties: the user's, and those of clients and brokers (in capitals).

        They cannot be changed: a retry delivers the message as it was sent.
        """
        if self._properties is None:
            self._properties = ReceivedProperties(decode_properties(self._encoded_properties()))
        return self._properties

    @property
    def tags(self) -> str | None:
        """The tag, None without one."""
        return self._text(_TAGS)

    @property
    def keys(self) -> list[str]:
        """The keys by which it can be looked up."""
        return (self._text(_KEYS) or "").split()

    @property
    def sharding_key(self) -> str | None:
        """Key that put it into its queue, where the sender gave one."""
        return self._text(_SHARDING_KEY)

    @property
    def message_id(self) -> str:
        """The id that the sender's client gave it, the same after any retry; else where it is stored."""
        return self._text(_UNIQ_KEY) or self.record.offset_id

    def _encoded_properties(self) -> bytes:
        record = self._record
        return record[4] if isinstance(record, tuple) else record.properties

    def _text(self, name: bytes) -> str | None:
        """The value of one property."""
        value = find_property(self._encoded_properties(), name)
        return None if value is None else value.decode("utf-8", "replace")

    @property
    def offset_message_id(self) -> str:
        """The id that says where it is stored: another one after each retry."""
        return self.record.offset_id

    @property
    def physical_offset(self) -> int:
        """Its place in the broker's log."""
        return self.record.physical_offset

    @property
    def flag(self) -> int:
        """The sender's own number."""
        return self.record.flag

    @property
    def born_timestamp_ms(self) -> int:
        """When it was sent, by the sender's clock, ms since 1970."""
        return self.record.born_timestamp

    @property
    def store_timestamp_ms(self) -> int:
        """When it was stored, by the broker's clock, ms since 1970."""
        return self.record.store_timestamp

    @property
    def born_host(self) -> str:
        """The sender's `ip:port`."""
        return host_text(self.record.born_host)

    @property
    def store_host(self) -> str:
        """The broker's `ip:port`."""
        return host_text(self.record.store_host)

    @property
    def size_bytes(self) -> int:
        """Length of the body."""
        return len(self.body)

    def __repr__(self) -> str:
        queue = self.queue
        where = f"{queue.topic}:{queue.broker_name}:{queue.queue_id}:{self.queue_offset}"
        return f"ReceivedMessage({self.topic!r}, {where}, id={self.message_id}, <{len(self.body)} bytes>)"
