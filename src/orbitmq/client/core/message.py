"""Messages as an application sees them: what it sends, what it receives, and what came of a send."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from orbitmq.client.core.checking import shown
from orbitmq.client.core.errors import DeserializationFailed, InvalidArgument, UnreadableBody
from orbitmq.client.core.namespaces import unwrap
from orbitmq.client.core.outgoing_cy import Message, as_bytes, check_message
from orbitmq.client.core.serializer import CONTENT_TYPE, Serializer
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.names import KEYS, LITE_TOPIC, SHARDING_KEY, TAGS, UNIQ_KEY
from orbitmq.protocol.records.ids import host_text
from orbitmq.protocol.records.message import COMPRESSED, COMPRESSION_MASK, StoredMessage
from orbitmq.protocol.records.message_cy import SplitRecord, joined_record
from orbitmq.protocol.records.properties import decode_properties, find_property

if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    T = TypeVarWithDefault("T", default=Any)
else:
    T = TypeVar("T")
V = TypeVar("V")

__all__ = [
    "Message",
    "NamedEnum",
    "ReceivedMessage",
    "ReceivedProperties",
    "SendResult",
    "SendStatus",
    "UnreadableMessage",
    "as_bytes",
    "check_message",
]

_KEYS, _LITE_TOPIC, _SHARDING_KEY, _TAGS, _UNIQ_KEY = (
    name.encode() for name in (KEYS, LITE_TOPIC, SHARDING_KEY, TAGS, UNIQ_KEY)
)


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
    body_error: UnreadableBody | None = None
    """The reason that `body` cannot be read, which reading it raises: of an UnreadableMessage."""

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
    def stored_body(self) -> tuple[bytes, int]:
        """The body for a copy of the message, and the bits of sysFlag that say how it is compressed."""
        return self.body, 0

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
    def lite_topic(self) -> str | None:
        """The lite topic it was sent to, None where it is of none."""
        return self._text(_LITE_TOPIC)

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
        """Time of the send by the sender's clock, ms since 1970."""
        return self.record.born_timestamp

    @property
    def store_timestamp_ms(self) -> int:
        """Time at which it was stored by the broker's clock, ms since 1970."""
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
        return f"ReceivedMessage({self.topic!r}, {where}, id={self.message_id}, <{self.size_bytes} bytes>)"


class UnreadableMessage(ReceivedMessage[T]):
    """A message whose body cannot be inflated, or not within `max_inflated_body_bytes`.

    All but its body can be read. No handler gets it: it is retried, and given up, as if a handler had raised
    `body_error`. In `async for` and in a pull it is one of the messages; reading `body` or `value` raises.
    """

    __slots__ = ("body_error",)

    def __init__(self, record: StoredMessage, queue: MessageQueue, topic: str, namespace: str = "") -> None:
        super().__init__(record, queue, topic, namespace)
        self.body_error: UnreadableBody = UnreadableBody("the body cannot be read")

    @property
    def body(self) -> bytes:
        """Raises `body_error`."""
        raise self.body_error

    @body.setter
    def body(self, body: bytes) -> None:
        """The stored bytes are in the record."""

    def decode(self, serializer: Serializer[V]) -> V:
        """Raises `body_error`."""
        raise self.body_error

    @property
    def stored_body(self) -> tuple[bytes, int]:
        """The body as it is stored, and the bits of sysFlag that say how it is compressed."""
        record = self.record
        return bytes(record.body), record.sys_flag & (COMPRESSED | COMPRESSION_MASK)

    @property
    def size_bytes(self) -> int:
        """Length of the body as it is stored."""
        return len(self.record.body)
