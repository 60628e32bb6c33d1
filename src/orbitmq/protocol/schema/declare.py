"""Requests and replies are declared once, as classes with annotated fields; the rest is derived here.

    @request(14)
    class QueryConsumerOffset(Request[ConsumerOffset]):
        '''Where a group has got to on one queue.'''

        consumer_group: str
        topic: str
        queue_id: int
        set_zero_if_not_found: bool | None = None

A field's wire name is the camelCase of its attribute, unless `wire("a")` names it. Its type is `str`, `int`
(32 bits, as peers hold it), `Long` (64 bits) or `bool`, each with `| None` where it may be absent. A field
called `body` is the frame's body: bytes, or a class with JSON text. Constructors, encoders and decoders are
generated once, at the first use: plain slots, no loop over fields per message.
"""

from __future__ import annotations

import enum
import functools
import re
from collections.abc import Callable
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    Self,
    TypeVar,
    dataclass_transform,
    get_args,
    get_type_hints,
)

from orbitmq.protocol.errors import BodyTooLong, Malformed, MalformedBody, MalformedReply
from orbitmq.protocol.remoting.command import Command, Oversized
from orbitmq.protocol.remoting.frame import MAX_FRAME_BYTES
from orbitmq.protocol.schema.derive import (
    MISSING,
    Bytes,
    FieldRow,
    Wire,
    explain,
    field_row,
    make_decoder,
    make_init,
    make_reply_encoder,
    make_request_encoder,
)
from orbitmq.protocol.schema.fastjson import count_elements
from orbitmq.protocol.schema.json_body import JsonBody, Long

__all__ = [
    "REQUESTS",
    "Blob",
    "Bytes",
    "FieldRow",
    "JsonReply",
    "Long",
    "Reply",
    "Request",
    "RequestQueue",
    "Void",
    "request",
    "wire",
]


MAX_BODY_BYTES = 1 << 20
"""Longest body of a request that declares no other: the heartbeat of a client with 5,000 subscriptions."""
MAX_LIST_BYTES = 4 << 20
"""Longest body of a request that brings a list of topics or groups: some 15,000 of them."""
MAX_MESSAGE_BYTES = MAX_FRAME_BYTES
"""Longest body of a request that brings messages or a broker's whole table: as long as a frame may be."""
BYTES_PER_ELEMENT = 8
"""A JSON body has at most one element (a value in a list, a member of an object) for so many bytes of the
longest one of its kind: those of real peers have one for 15 or more."""


class RequestQueue(enum.Enum):
    """The queue of Apache's broker that a request stands in until it is handled; each has an age limit."""

    SEND = "send"
    PULL = "pull"
    LITE_PULL = "lite pull"
    HEARTBEAT = "heartbeat"
    TRANSACTION = "transaction"
    ACK = "ack"
    ADMIN = "admin"
    UNLIMITED = "unlimited"
    """Queries, offsets, clients and replies: queues without a limit."""


def wire(name: str | None = None, *, default: Any = MISSING, kw_only: bool = False) -> Any:
    """A field with a wire name of its own, or a default that says more beside it."""
    return Wire(name, default, kw_only)


@dataclass_transform(field_specifiers=(wire,))
class Declared(type):
    """Makes classes of annotated fields: slots, a positional constructor, and derived codecs.

    A program uses few of the classes that it imports, so each function is generated when it is first called:
    until then a class has the ones below that do it.
    """

    _fields: list[FieldRow] | None

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **_: Any) -> Declared:
        """Turns the annotations that are fields into slots."""
        annotations: dict[str, Any] = namespace.get("__annotations__", {})
        names = [field for field, hint in annotations.items() if not str(hint).startswith("ClassVar")]
        inherited = {field for base in bases for of in base.__mro__ for field in vars(of).get("_own", ())}
        namespace["_own"] = {field: namespace.pop(field, MISSING) for field in names}
        namespace["__slots__"] = tuple(field for field in names if field not in inherited)
        return super().__new__(mcs, name, bases, namespace)

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **_: Any) -> None:
        super().__init__(name, bases, namespace)
        cls._fields = None
        cls.__init__ = _first_init  # type: ignore[misc]
        if "to_command" not in namespace:
            cls.to_command = _first_to_command
            cls.from_command = classmethod(_first_from_command)

    @property
    def FIELDS(cls) -> list[FieldRow]:  # noqa: N802 (it is written like the other constants of a class)
        """The fields, those of base classes first. Raises TypeError for a type that cannot be sent."""
        if cls._fields is None:
            rows = {row.name: row for base in cls.__bases__ for row in getattr(base, "FIELDS", ())}
            own = vars(cls)["_own"]
            hints = get_type_hints(cls, include_extras=True) if own else {}
            is_meta = vars(cls).get("_meta", False)
            for field, default in own.items():
                rows[field] = field_row(field, hints[field], default, is_meta)
            cls._fields = list(rows.values())
        return cls._fields

    def _encoder(cls) -> Callable[..., Command]:
        raise NotImplementedError

    def _decoder(cls) -> Callable[..., Any]:
        raise NotImplementedError


def _first_init(self: Any, *args: Any, **kwargs: Any) -> None:
    cls = type(self)
    cls.__init__ = make_init(cls.FIELDS)
    self.__init__(*args, **kwargs)


def _first_to_command(self: Any, *args: Any, **kwargs: Any) -> Any:
    type(self).to_command = type(self)._encoder()
    return self.to_command(*args, **kwargs)


def _first_from_command(cls: Any, command: Command) -> Any:
    cls.from_command = classmethod(cls._decoder())
    return cls.from_command(command)


class _Record(metaclass=Declared):
    """Base of requests and replies: equality and a printable form."""

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, row.name) == getattr(other, row.name) for row in type(self).FIELDS)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        parts = []
        for row in type(self).FIELDS:
            value = getattr(self, row.name)
            if value is None or (row.kind == "meta" and not value):
                continue
            text = f"<{len(value)} bytes>" if isinstance(value, bytes | memoryview) else repr(value)
            parts.append(f"{row.name}={text}")
        return f"{type(self).__name__}({', '.join(parts)})"


@dataclass_transform(field_specifiers=(wire,))
class _ReplyFamily(Declared):
    def _encoder(cls) -> Callable[..., Command]:
        return make_reply_encoder(cls.FIELDS)

    def _decoder(cls) -> Callable[..., Any]:
        fields = cls.FIELDS

        def failed(of: type, command: Command, error: Exception) -> Exception:
            if isinstance(error, Malformed):
                return error
            return MalformedReply(f"{of.__name__}: {explain(fields, command).remark}")

        return make_decoder(fields, failed)


class Reply(_Record, metaclass=_ReplyFamily):
    """An answer that is no error. Subclasses add header fields and a body.

    `code` is SUCCESS, or one of the codes that the request's `accepts` names. `extra` are header fields
    beside the declared ones; decoded, it holds all header fields of the answer.
    """

    _meta: ClassVar[bool] = True

    code: int = wire(default=0, kw_only=True)
    remark: str | None = wire(default=None, kw_only=True)
    extra: dict[str, str] | None = wire(default=None, kw_only=True)

    def to_command(self, opaque: int = 0) -> Command:
        """The answer to the request with this `opaque`."""
        raise NotImplementedError

    @classmethod
    def from_command(cls, command: Command) -> Self:
        """Reads an answer. Raises MalformedReply, or MalformedJson for its body."""
        raise NotImplementedError


class Void(Reply):
    """Success, and nothing more to say."""


class Blob(Reply):
    """Success with bytes that the protocol package does not look into; empty is None."""

    body: Bytes | None = None


BodyT = TypeVar("BodyT", bound="JsonBody | None")


class JsonReply(Reply, Generic[BodyT]):
    """Success with a body in JSON, which a request declares: `Request[JsonReply[TopicList]]`.

    With `JsonReply[TopicList | None]` it may be absent. Whoever answers makes a `JsonReply(body)`.
    """

    body: BodyT

    if not TYPE_CHECKING:

        @classmethod
        @functools.cache
        def __class_getitem__(cls, body: Any) -> type[Reply]:
            """The class of replies with such a body."""
            own = {"__annotations__": {"body": body}, "__module__": cls.__module__}
            if type(None) in get_args(body):
                own["body"] = None
            return type(cls)(f"JsonReply[{getattr(body, '__name__', body)}]", (JsonReply,), own)


ReplyT_co = TypeVar("ReplyT_co", bound=Reply, covariant=True)


@dataclass_transform(field_specifiers=(wire,))
class _RequestFamily(Declared):
    CODE: int

    def _encoder(cls) -> Callable[..., Command]:
        return make_request_encoder(cls.FIELDS, cls.CODE)

    def _decoder(cls) -> Callable[..., Any]:
        fields = cls.FIELDS

        def failed(of: type, command: Command, error: Exception) -> Exception:
            return MalformedBody(str(error)) if isinstance(error, Malformed) else explain(fields, command)

        return make_decoder(fields, failed)


class Request(_Record, Generic[ReplyT_co], metaclass=_RequestFamily):
    """A request; the class in brackets is what it is answered with."""

    CODE: ClassVar[int] = -1
    """The request code on the wire."""
    NAME: ClassVar[str] = ""
    """The code's name, as every RocketMQ knows it: `QUERY_CONSUMER_OFFSET`."""
    SERVED_BY: ClassVar[frozenset[str]] = frozenset()
    """Peers that answer it: `broker`, `namesrv`, `controller`, `client`, `container`."""
    REPLY: ClassVar[type[Reply]] = Void
    accepts: ClassVar[tuple[int, ...]] = ()
    """Codes beside SUCCESS that are answers, not errors."""
    MAX_BODY: ClassVar[int] = MAX_BODY_BYTES
    """Limit of its body in bytes."""
    QUEUE: ClassVar[RequestQueue] = RequestQueue.ADMIN
    """Names the option that limits the age of such a request."""

    def to_command(self, opaque: int = 0, oneway: bool = False) -> Command:
        raise NotImplementedError

    @classmethod
    def from_command(cls, command: Command) -> Self:
        """Reads a request. Raises MissingField, MalformedField or MalformedBody, all of them Refused."""
        raise NotImplementedError

    @classmethod
    def from_peer(cls, command: Command) -> Self:
        """Reads a request of an unknown peer: its body is not larger than those of its kind are.

        Raises BodyTooLong, too.
        """
        size = command.body_bytes if isinstance(command, Oversized) else len(command.body or b"")
        if size > cls.MAX_BODY:
            raise BodyTooLong(f"{size} bytes", f"the {cls.MAX_BODY} that {cls.NAME} may have")
        most = cls.MAX_BODY // BYTES_PER_ELEMENT
        if command.body is not None and has_json(cls) and count_elements(command.body) > most:
            raise BodyTooLong("too many elements", f"the {most} that {cls.NAME} may have")
        return cls.from_command(command)


REQUESTS: dict[int, type[Request[Any]]] = {}
"""The requests declared so far, by code; `orbitmq.protocol.requests.every` declares all."""

RequestT = TypeVar("RequestT", bound=type[Request[Any]])


def request(
    code: int,
    *,
    name: str | None = None,
    to: str = "broker",
    max_body: int = MAX_BODY_BYTES,
    queue: RequestQueue = RequestQueue.ADMIN,
) -> Callable[[RequestT], RequestT]:
    """Declares the class as the request `code`.

    `name` is its upper-case name where that does not follow from the class name; `to` lists who serves it. A
    body of more than `max_body` bytes is refused, and not even kept. `queue` says how old it may be when the
    broker gets to it.
    """

    def register(cls: RequestT) -> RequestT:
        if code in REQUESTS:
            raise TypeError(f"request code {code} is {REQUESTS[code].__name__} already")
        cls.CODE = code
        cls.MAX_BODY = max_body
        cls.QUEUE = queue
        cls.NAME = name or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", cls.__name__).upper()
        cls.SERVED_BY = frozenset(to.split())
        cls.REPLY = _reply_of(cls)
        REQUESTS[code] = cls
        return cls

    return register


@functools.cache
def has_json(kind: type[Request[Any]]) -> bool:
    """True if the body is a JSON text that is read with the request."""
    return any(row.kind == "json" for row in kind.FIELDS)


def max_body_bytes(code: int) -> int:
    """Limit in bytes of the body of a request with this code."""
    declared = REQUESTS.get(code)
    return MAX_BODY_BYTES if declared is None else declared.MAX_BODY


def _reply_of(cls: type) -> type[Reply]:
    for base in cls.__mro__:
        for alias in base.__dict__.get("__orig_bases__", ()):
            arguments = get_args(alias)
            if arguments and isinstance(arguments[0], type) and issubclass(arguments[0], Reply):
                return arguments[0]
    raise TypeError(f"{cls.__name__} does not say what it is answered with: Request[Void] if nothing")
