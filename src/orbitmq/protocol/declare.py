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
generated once, when the class is made: plain slots, no loop over fields per message.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from types import UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Generic,
    Self,
    TypeAlias,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.command import FLAG_ONEWAY, FLAG_RESPONSE, Command
from orbitmq.protocol.errors import Malformed, MalformedField, MalformedReply, MissingField, Refused
from orbitmq.protocol.json_body import JsonBody, Long, camel_case

__all__ = [
    "REQUESTS",
    "Blob",
    "Bytes",
    "FieldRow",
    "Long",
    "Reply",
    "Request",
    "Void",
    "request",
    "wire",
]

Bytes: TypeAlias = bytes | memoryview
"""A body that the protocol room does not look into."""

_MISSING: Any = object()
_BODY_KINDS = ("bytes", "json", "either")
_INT_TYPES = {"int": ("a 32-bit number", 31), "long": ("a 64-bit number", 63)}


@dataclass(slots=True, frozen=True)
class _Wire:
    name: str | None
    default: Any
    kw_only: bool


@dataclass(slots=True, frozen=True)
class FieldRow:
    """One declared field as the codecs and the documentation see it."""

    name: str
    wire_name: str
    kind: str
    """`str`, `int`, `long`, `bool`; `bytes`, `json` or `either` for a body; `meta`: no part of the header.

    A body of either kind is written from bytes or from a class with JSON text, and always read as bytes.
    """
    optional: bool
    """Whether None stands for its absence."""
    default: Any
    """What an absent field is read as; `REQUIRED` when it may not be absent."""
    body_class: type[JsonBody] | None = None
    kw_only: bool = False

    @property
    def is_required(self) -> bool:
        """Whether a request without it is refused."""
        return self.default is _MISSING


def wire(name: str | None = None, *, default: Any = _MISSING, kw_only: bool = False) -> Any:
    """A field with a wire name of its own, or a default that says more beside it."""
    return _Wire(name, default, kw_only)


def _field_row(name: str, hint: Any, default: Any, meta: bool) -> FieldRow:
    wire_name = camel_case(name)
    kw_only = False
    if isinstance(default, _Wire):
        wire_name = default.name or wire_name
        kw_only = default.kw_only
        default = default.default
    optional = False
    kinds = []
    for part in get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,):
        if part is type(None):
            optional = True
        else:
            kinds.append(part)
    if meta:
        return FieldRow(name, wire_name, "meta", optional, default, kw_only=kw_only)
    kind = kinds[0]
    if name == "body":
        if {bytes, memoryview} <= set(kinds):
            kind_name = "bytes" if len(kinds) == 2 else "either"
            return FieldRow(name, "body", kind_name, optional, default)
        if isinstance(kind, type) and issubclass(kind, JsonBody):
            return FieldRow(name, "body", "json", optional, default, kind)
    elif len(kinds) == 1:
        if get_origin(kind) is Annotated and "long" in get_args(kind):
            return FieldRow(name, wire_name, "long", optional, default)
        if kind in (str, int, bool):
            return FieldRow(name, wire_name, kind.__name__, optional, default)
    raise TypeError(f"field {name}: {hint} cannot be a header field or body")


class _Source:
    """Python source of one function with the values it refers to."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {}

    def add(self, indent: int, line: str) -> None:
        self.lines.append("    " * indent + line)

    def build(self, name: str) -> Callable[..., Any]:
        exec(compile("\n".join(self.lines), f"<declared {name}>", "exec"), self.names)
        built: Callable[..., Any] = self.names[name]
        return built


def _make_init(fields: list[FieldRow]) -> Callable[..., None]:
    source = _Source()
    positional: list[str] = ["self"]
    keywords: list[str] = []
    for row in fields:
        text = row.name
        if not row.is_required:
            source.names[f"default_{row.name}"] = row.default
            text += f"=default_{row.name}"
        (keywords if row.kw_only else positional).append(text)
    if keywords:
        positional += ["*", *keywords]
    source.add(0, f"def __init__({', '.join(positional)}):")
    for row in fields:
        source.add(1, f"self.{row.name} = {row.name}")
    if not fields:
        source.add(1, "pass")
    return source.build("__init__")


def _text_of(row: FieldRow, value: str) -> str:
    if row.kind == "str":
        return value
    if row.kind == "bool":
        return f"('true' if {value} else 'false')"
    return f"str({value})"


def _add_ext(source: _Source, fields: list[FieldRow]) -> None:
    """Lines that build `ext`, the header fields as text, None where there can be none."""
    header = [row for row in fields if row.kind not in (*_BODY_KINDS, "meta")]
    always = [row for row in header if not row.optional]
    pairs = ", ".join(f"{row.wire_name!r}: {_text_of(row, 'self.' + row.name)}" for row in always)
    source.add(1, f"ext = {{{pairs}}}" if header else "ext = None")
    for row in header:
        if row.optional:
            source.add(1, f"value = self.{row.name}")
            source.add(1, "if value is not None:")
            source.add(2, f"ext[{row.wire_name!r}] = {_text_of(row, 'value')}")


def _add_body(source: _Source, fields: list[FieldRow]) -> None:
    source.add(1, "body = None")
    for row in fields:
        if row.kind == "bytes":
            source.add(1, "body = self.body")
        elif row.kind in ("json", "either"):
            test = "body is not None" if row.kind == "json" else "isinstance(body, JsonBody)"
            source.names["JsonBody"] = JsonBody
            source.add(1, "body = self.body")
            source.add(1, f"if {test}:")
            source.add(2, "body = body.to_json()")


def _make_request_encoder(fields: list[FieldRow], code: int) -> Callable[..., Command]:
    source = _Source()
    source.names.update(Command=Command)
    source.add(0, "def to_command(self, opaque=0, oneway=False):")
    _add_ext(source, fields)
    _add_body(source, fields)
    source.add(1, f"return Command({code}, opaque, {FLAG_ONEWAY} if oneway else 0, ext, body)")
    return source.build("to_command")


def _make_reply_encoder(fields: list[FieldRow]) -> Callable[..., Command]:
    source = _Source()
    source.names.update(Command=Command)
    source.add(0, "def to_command(self, opaque=0):")
    _add_ext(source, fields)
    _add_body(source, fields)
    source.add(1, "if self.extra is not None:")
    source.add(2, "ext = {**ext, **self.extra} if ext else self.extra")
    source.add(1, f"return Command(self.code, opaque, {FLAG_RESPONSE}, ext, body, self.remark)")
    return source.build("to_command")


def _make_decoder(fields: list[FieldRow], explain: Callable[..., Exception]) -> Callable[..., Any]:
    """`from_command`: fast lines for what is well formed, `explain` for all else."""
    source = _Source()
    source.names.update(EMPTY={}, explain=explain, new=object.__new__, Malformed=Malformed, Refused=Refused)
    source.add(0, "def from_command(cls, command):")
    source.add(1, "ext = command.ext")
    source.add(1, "if ext is None:")
    source.add(2, "ext = EMPTY")
    source.add(1, "self = new(cls)")
    source.add(1, "try:")
    checks: list[str] = []
    for row in fields:
        target = f"self.{row.name}"
        if row.kind == "meta":
            value = {"code": "command.code", "remark": "command.remark", "extra": "command.ext"}[row.name]
            source.add(2, f"{target} = {value}")
        elif row.kind in _BODY_KINDS:
            _add_body_decoding(source, row)
        else:
            _add_field_decoding(source, row, checks)
    if checks:
        source.add(2, f"if not ({' and '.join(checks)}):")
        source.add(3, "raise ValueError('out of range')")
    source.add(2, "return self")
    source.add(1, "except (KeyError, ValueError) as error:")
    source.add(2, "if isinstance(error, Malformed):")
    source.add(3, "raise")
    source.add(2, "raise explain(cls, ext, command.body) from None")
    return source.build("from_command")


def _add_field_decoding(source: _Source, row: FieldRow, checks: list[str]) -> None:
    target = f"self.{row.name}"
    if row.is_required:
        text = f"ext[{row.wire_name!r}]"
    else:
        source.names[f"default_{row.name}"] = row.default
        source.add(2, f"text = ext.get({row.wire_name!r})")
        text = "text"
    if row.kind == "str":
        value = text
    elif row.kind == "bool":
        value = f"{text} == 'true' or {text}.lower() == 'true'"
    else:
        value = f"{target} = value = int({text})" if not row.is_required else f"int({text})"
    if row.is_required:
        if row.kind in _INT_TYPES:
            local = f"n{len(checks)}"
            checks.append(_range_check(row, local))
            target += f" = {local}"
        source.add(2, f"{target} = {value}")
        return
    source.add(2, "if text is None:")
    source.add(3, f"{target} = default_{row.name}")
    source.add(2, "else:")
    if row.kind in _INT_TYPES:
        source.add(3, value)
        source.add(3, f"if not {_range_check(row, 'value')}:")
        source.add(4, "raise ValueError('out of range')")
    else:
        source.add(3, f"{target} = {value}")


def _range_check(row: FieldRow, value: str) -> str:
    limit = 1 << _INT_TYPES[row.kind][1]
    return f"{-limit} <= {value} < {limit}"


def _add_body_decoding(source: _Source, row: FieldRow) -> None:
    source.add(2, "body = command.body")
    source.add(2, "if body is None:")
    if row.is_required:
        source.add(3, "raise KeyError('body')")
    else:
        source.names["default_body"] = row.default
        source.add(3, "body = default_body")
    if row.kind == "json":
        assert row.body_class is not None
        source.names["from_json"] = row.body_class.from_json
        source.add(2, "else:")
        source.add(3, "body = from_json(body)")
    source.add(2, "self.body = body")


def _explain(fields: list[FieldRow], ext: dict[str, str], body: Bytes | None) -> Refused:
    """What is wrong with a request that its decoder gave up on."""
    for row in fields:
        if row.kind in _BODY_KINDS:
            if row.is_required and body is None:
                return MissingField("body")
            continue
        if row.kind == "meta":
            continue
        text = ext.get(row.wire_name)
        if text is None:
            if row.is_required:
                return MissingField(row.wire_name)
        elif row.kind in _INT_TYPES:
            type_name, bits = _INT_TYPES[row.kind]
            try:
                if -(1 << bits) <= int(text) < 1 << bits:
                    continue
            except ValueError:
                pass
            return MalformedField(row.wire_name, text, type_name)
    return Refused(ResponseCode.SYSTEM_ERROR, "the request header cannot be read")


@dataclass_transform(field_specifiers=(wire,))
class Declared(type):
    """Makes classes of annotated fields: slots, a positional constructor, and derived codecs."""

    FIELDS: list[FieldRow]

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **_: Any) -> Declared:
        """Turns the annotations that are fields into slots."""
        annotations: dict[str, Any] = namespace.get("__annotations__", {})
        names = [field for field, hint in annotations.items() if not str(hint).startswith("ClassVar")]
        inherited = {row.name for base in bases for row in getattr(base, "FIELDS", ())}
        namespace["_defaults"] = {field: namespace.pop(field) for field in names if field in namespace}
        namespace["_own_fields"] = names
        namespace["__slots__"] = tuple(field for field in names if field not in inherited)
        return super().__new__(mcs, name, bases, namespace)

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **_: Any) -> None:
        super().__init__(name, bases, namespace)
        rows = {row.name: row for base in bases for row in getattr(base, "FIELDS", ())}
        hints = get_type_hints(cls, include_extras=True) if namespace["_own_fields"] else {}
        for field in namespace["_own_fields"]:
            default = namespace["_defaults"].get(field, _MISSING)
            rows[field] = _field_row(field, hints[field], default, namespace.get("_meta", False))
        cls.FIELDS = list(rows.values())
        cls.__init__ = _make_init(cls.FIELDS)  # type: ignore[misc]
        if "to_command" not in namespace:
            cls._derive()

    def _derive(cls) -> None:
        """Generates the codecs; overridden per family below."""


class _Record(metaclass=Declared):
    """What requests and replies have in common: equality and a printable form."""

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
    def _derive(cls) -> None:
        fields = cls.FIELDS

        def explain(of: type, ext: dict[str, str], body: Bytes | None) -> MalformedReply:
            return MalformedReply(f"{of.__name__}: {_explain(fields, ext, body).remark}")

        cls.to_command = _make_reply_encoder(fields)
        cls.from_command = classmethod(_make_decoder(fields, explain))


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
    """Success with bytes that the protocol room does not look into; empty is None."""

    body: Bytes | None = None


ReplyT_co = TypeVar("ReplyT_co", bound=Reply, covariant=True)


@dataclass_transform(field_specifiers=(wire,))
class _RequestFamily(Declared):
    CODE: int

    def _derive(cls) -> None:
        fields = cls.FIELDS

        def explain(_: type, ext: dict[str, str], body: Bytes | None) -> Refused:
            return _explain(fields, ext, body)

        cls.to_command = _make_request_encoder(fields, cls.CODE)
        cls.from_command = classmethod(_make_decoder(fields, explain))


class Request(_Record, Generic[ReplyT_co], metaclass=_RequestFamily):
    """A request; the class in brackets is what it is answered with."""

    CODE: ClassVar[int] = -1
    """The request code on the wire."""
    NAME: ClassVar[str] = ""
    """The code's name, as every RocketMQ knows it: `QUERY_CONSUMER_OFFSET`."""
    SERVED_BY: ClassVar[frozenset[str]] = frozenset()
    """Who answers it: `broker`, `namesrv`, `controller`, `client`, `container`."""
    REPLY: ClassVar[type[Reply]] = Void
    accepts: ClassVar[tuple[int, ...]] = ()
    """Codes beside SUCCESS that are answers, not errors."""

    def to_command(self, opaque: int = 0, oneway: bool = False) -> Command:
        """The frame's command."""
        raise NotImplementedError

    @classmethod
    def from_command(cls, command: Command) -> Self:
        """Reads a request. Raises MissingField or MalformedField (both Refused), MalformedJson."""
        raise NotImplementedError


REQUESTS: dict[int, type[Request[Any]]] = {}
"""Every declared request by its code. Importing `orbitmq.protocol.requests` fills it."""

RequestT = TypeVar("RequestT", bound=type[Request[Any]])


def request(code: int, *, name: str | None = None, to: str = "broker") -> Callable[[RequestT], RequestT]:
    """Declares the class as the request `code`.

    `name` is its upper-case name where that does not follow from the class name; `to` lists who serves it.
    """

    def register(cls: RequestT) -> RequestT:
        if code in REQUESTS:
            raise TypeError(f"request code {code} is {REQUESTS[code].__name__} already")
        cls.CODE = code
        cls.NAME = name or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", cls.__name__).upper()
        cls.SERVED_BY = frozenset(to.split())
        cls.REPLY = _reply_of(cls)
        cls._derive()
        REQUESTS[code] = cls
        return cls

    return register


def _reply_of(cls: type) -> type[Reply]:
    for base in cls.__mro__:
        for alias in base.__dict__.get("__orig_bases__", ()):
            arguments = get_args(alias)
            if arguments and isinstance(arguments[0], type) and issubclass(arguments[0], Reply):
                return arguments[0]
    raise TypeError(f"{cls.__name__} does not say what it is answered with: Request[Void] if nothing")
