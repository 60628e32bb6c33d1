"""JSON bodies are declared as slotted dataclasses; reading and writing follow from their annotations.

    @dataclass(slots=True)
    class KVTable(JsonBody):
        table: dict[str, str] = field(default_factory=dict)

A field's JSON name is the camelCase of its attribute, unless its metadata is `named("clientID")`. Fields
are written in alphabetical order, absent ones (None; for a plain `str` also the empty text) are left out.
Read, an unknown field is skipped, an absent one takes the class's default, `null` is 0, false, None or empty;
numbers and booleans may be quoted, enum text may come in any case or as an ordinal, and unknown enum text is
None. A value that does not fit its annotation raises MalformedJson.

Types: `str`, `int` (32 bits), `Long` (64 bits), `bool`, `float`, `bytes` (base64), enums, other bodies,
`list`, `set`, `dict` (with text, number or body keys), each with `| None`.
"""

from __future__ import annotations

import binascii
import dataclasses
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from json.encoder import encode_basestring
from types import UnionType
from typing import Annotated, Any, ClassVar, Self, TypeAlias, Union, get_args, get_origin, get_type_hints

from orbitmq.protocol.errors import MalformedJson
from orbitmq.protocol.schema import fastjson
from orbitmq.protocol.schema.fastjson import ObjectKey

Long: TypeAlias = Annotated[int, "long"]
"""A 64-bit number; plain `int` has 32 bits on the wire."""
LONG_MAX = 2**63 - 1
"""The largest `Long`."""


def named(name: str) -> dict[str, str]:
    """Metadata of a field whose JSON name is not the camelCase of its attribute."""
    return {"json": name}


class JsonBody:
    """A value with a JSON text. Subclasses are slotted dataclasses whose fields all have defaults."""

    __slots__ = ()

    DERIVED: ClassVar[Mapping[str, Callable[[Any], Any]]] = {}
    """Fields that are written and ignored when read: name -> how they follow from the others."""
    BARE: ClassVar[str | None] = None
    """The one field whose value is the whole text, where that is a list and no object."""

    def to_json(self) -> bytes:
        """The text as Apache's peers write it, UTF-8."""
        return codec_of(type(self)).write(self).encode("utf-8", "replace")

    def to_json_text(self) -> str:
        """The same before encoding."""
        return codec_of(type(self)).write(self)

    def to_pretty_json(self) -> str:
        """The text as config files hold it."""
        return fastjson.write_pretty(self.to_value())

    def to_standard_json(self) -> bytes:
        """Standard JSON: every key quoted and sorted, ASCII only."""
        return fastjson.write_standard(self.to_value()).encode("ascii")

    def to_value(self) -> Any:
        """Plain dicts and lists with the JSON names, absent fields left out."""
        return codec_of(type(self)).plain(self)

    @classmethod
    def from_json(cls, data: str | bytes | bytearray | memoryview) -> Self:
        """Reads a text. Raises MalformedJson."""
        return cls.from_value(fastjson.parse(data))

    @classmethod
    def from_value(cls, value: Any) -> Self:
        """Reads what `fastjson.parse` gave. Raises MalformedJson."""
        read: Self = codec_of(cls).read(value)
        return read


@dataclass(slots=True)
class Codec:
    """Functions that write, read and simplify values of one annotation."""

    write: Callable[[Any], str]
    read: Callable[[Any], Any]
    plain: Callable[[Any], Any]


_codecs: dict[type[JsonBody], Codec] = {}


def require_member(text: str, name: str) -> None:
    """Raises MalformedJson for the text of a table's file without the member that holds the table: it is that
    of another table, and to take it would be to begin empty, and nobody would notice.
    """
    if f'"{name}"' not in text:
        raise MalformedJson(f"it has no {name}")


def codec_of(cls: type[JsonBody]) -> Codec:
    """The codec of a body class, generated when it is first needed."""
    codec = _codecs.get(cls)
    if codec is None:
        codec = _codecs[cls] = _make_codec(cls)
    return codec


def _unchanged(value: Any) -> Any:
    return value


def _wrong(value: Any, wanted: str) -> MalformedJson:
    return MalformedJson(f"{str(value)[:40]!r} is not {wanted}")


def _read_str(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise _wrong(value, "a text")


def _int_reader(bits: int) -> Callable[[Any], int]:
    limit = 1 << (bits - 1)

    def read_int(value: Any) -> int:
        if type(value) is int and -limit <= value < limit:  # nearly all
            return value
        if value is None:
            return 0
        try:
            number = int(value) if isinstance(value, int | float | str) else None
        except (ValueError, OverflowError):
            number = None
        if number is None or not -limit <= number < limit:
            raise _wrong(value, f"a {bits}-bit number")
        return number

    return read_int


def _read_bool(value: Any) -> bool:
    if value is None or isinstance(value, bool):
        return bool(value)
    if isinstance(value, str) and value.lower() in ("true", "false", "1", "0", ""):
        return value.lower() in ("true", "1")
    if isinstance(value, int):
        return value != 0
    raise _wrong(value, "true or false")


def _read_float(value: Any) -> float:
    if value is None:
        return 0.0
    try:
        if isinstance(value, int | float | str):
            return float(value)
    except (ValueError, OverflowError):
        pass
    raise _wrong(value, "a number")


def _read_bytes(value: Any) -> bytes:
    try:
        return b64decode(_read_str(value) or "", validate=True)
    except (binascii.Error, ValueError):
        raise _wrong(value, "base64") from None


def _write_bytes(value: bytes) -> str:
    return f'"{b64encode(value).decode()}"'


def _write_bool(value: bool) -> str:
    return "true" if value else "false"


_SCALARS: dict[Any, Codec] = {
    str: Codec(encode_basestring, _read_str, _unchanged),
    int: Codec(str, _int_reader(32), _unchanged),
    Long: Codec(str, _int_reader(64), _unchanged),
    bool: Codec(_write_bool, _read_bool, _unchanged),
    float: Codec(fastjson.double_text, _read_float, _unchanged),
    bytes: Codec(_write_bytes, _read_bytes, lambda value: b64encode(value).decode()),
    Any: Codec(fastjson.write, _unchanged, _unchanged),
}


def _enum_codec(cls: type[Enum]) -> Codec:
    members = list(cls)
    names = {member.name.lower(): member for member in members}

    def read(value: Any) -> Enum | None:
        if isinstance(value, str):
            found = names.get(value.lower())
            if found is not None or not (value.isdecimal() and len(value) < 4):
                return found
            value = int(value)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool):
            raise _wrong(value, f"a name of {cls.__name__}")
        return members[value] if 0 <= value < len(members) else None

    return Codec(lambda member: f'"{member.name}"', read, lambda member: member.name)


def _elements_codec(container: type, element: Codec) -> Codec:
    def write(value: Any) -> str:
        texts = ["null" if item is None else element.write(item) for item in value]
        return f"[{','.join(texts)}]"

    def read(value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, list):
            raise _wrong(value, "a list")
        return container([None if item is None else element.read(item) for item in value])

    def plain(value: Any) -> list[Any]:
        return [None if item is None else element.plain(item) for item in value]

    if container is set:
        # The order means nothing; sorted, the same set always has the same text.
        def write_sorted(value: Any) -> str:
            return write(sorted(value, key=lambda item: (item is None, item)))

        return Codec(write_sorted, read, plain)
    return Codec(write, read, plain)


def _map_codec(key: Codec, value_codec: Codec) -> Codec:
    write_key, write_value = key.write, value_codec.write

    def write(value: Any) -> str:
        texts = [f"{write_key(name)}:{write_value(item)}" for name, item in value.items() if item is not None]
        return f"{{{','.join(texts)}}}"

    def read(value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, dict):
            raise _wrong(value, "an object")
        read_key, read_value = key.read, value_codec.read
        return {read_key(name): read_value(item) for name, item in value.items() if item is not None}

    def plain(value: Any) -> dict[Any, Any]:
        return {key.plain(name): value_codec.plain(item) for name, item in value.items() if item is not None}

    return Codec(write, read, plain)


def _object_key_codec(cls: type[JsonBody]) -> Codec:
    codec = codec_of(cls)

    def read(value: Any) -> Any:
        if isinstance(value, ObjectKey):
            return codec.read(value.fields)
        if isinstance(value, str):  # standard JSON has no other way to write it
            return codec.read(fastjson.parse(value))
        raise _wrong(value, f"a {cls.__name__} as key")

    return Codec(codec.write, read, lambda value: ObjectKey(codec.plain(value)))


def _codec_for(hint: Any) -> tuple[Codec, bool]:
    """The codec of an annotation, and whether it may be None."""
    optional = False
    if get_origin(hint) in (Union, UnionType):
        parts = [part for part in get_args(hint) if part is not type(None)]
        optional = len(parts) < len(get_args(hint))
        if len(parts) != 1:
            raise TypeError(f"{hint} is no JSON field")
        hint = parts[0]
    origin = get_origin(hint)
    if origin is list or origin is set:
        return _elements_codec(origin, _codec_for(get_args(hint)[0])[0]), optional
    if origin is dict:
        key_hint, value_hint = get_args(hint)
        is_body = isinstance(key_hint, type) and issubclass(key_hint, JsonBody)
        key = _object_key_codec(key_hint) if is_body else _SCALARS[key_hint]
        return _map_codec(key, _codec_for(value_hint)[0]), optional
    if hint in _SCALARS:
        return _SCALARS[hint], optional
    if isinstance(hint, type) and issubclass(hint, JsonBody):
        return codec_of(hint), optional
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _enum_codec(hint), optional
    raise TypeError(f"{hint} is no JSON field")


def camel_case(name: str) -> str:
    """`queue_id` -> `queueId`."""
    first, *rest = name.split("_")
    return first + "".join(part.title() for part in rest)


@dataclass(slots=True)
class _Field:
    attribute: str
    json_name: str
    codec: Codec
    optional: bool
    hint: Any
    default: Callable[[], Any]


def _fields_of(cls: type[JsonBody]) -> list[_Field]:
    hints = get_type_hints(cls, include_extras=True)
    found = []
    for declared in dataclasses.fields(cls):  # type: ignore[arg-type]
        hint = hints[declared.name]
        codec, optional = _codec_for(hint)
        if declared.default_factory is not dataclasses.MISSING:
            default: Callable[[], Any] = declared.default_factory
        elif declared.default is not dataclasses.MISSING:
            default = _constant(declared.default)
        else:
            raise TypeError(f"{cls.__name__}.{declared.name} has no default")
        json_name = declared.metadata.get("json") or camel_case(declared.name)
        found.append(_Field(declared.name, json_name, codec, optional, hint, default))
    return found


def _constant(value: Any) -> Callable[[], Any]:
    return lambda: value


def _make_codec(cls: type[JsonBody]) -> Codec:
    fields = _fields_of(cls)
    if cls.BARE is not None:
        return _bare_codec(cls, next(field for field in fields if field.attribute == cls.BARE))
    return Codec(_make_writer(cls, fields), _make_reader(cls, fields), _make_plain(cls, fields))


def _bare_codec(cls: type[JsonBody], field: _Field) -> Codec:
    inner, name = field.codec, field.attribute

    def read(value: Any) -> Any:
        return cls(**{name: field.default() if value is None else inner.read(value)})

    return Codec(
        lambda body: inner.write(getattr(body, name)), read, lambda body: inner.plain(getattr(body, name))
    )


def _make_writer(cls: type[JsonBody], fields: list[_Field]) -> Callable[[Any], str]:
    """One expression of concatenated `"name":text,` pieces; the last comma is cut."""
    names: dict[str, Any] = {"json_str": encode_basestring}
    pieces: list[tuple[str, str]] = []
    for number, field in enumerate(fields):
        names[f"w{number}"] = field.codec.write
        value = f"body.{field.attribute}"
        if field.hint in (int, Long):
            text = f"str({value})"
        elif field.hint is bool:
            text = f"('true' if {value} else 'false')"
        else:
            text = f"w{number}({value})"
        label = f'"{field.json_name}":'
        piece = f"{label!r} + {text} + ','"
        if (
            field.optional
            or field.hint is str
            or (isinstance(field.hint, type) and issubclass(field.hint, Enum))
        ):
            test = value if field.hint is str else f"{value} is not None"
            piece = f"({piece} if {test} else '')"
        pieces.append((field.json_name, piece))
    for number, (json_name, derive) in enumerate(cls.DERIVED.items()):
        names[f"d{number}"] = derive
        label = f'"{json_name}":'
        pieces.append((json_name, f"{label!r} + {f'json(d{number}(body))'} + ','"))
        names["json"] = fastjson.write
    expression = " + ".join(piece for _, piece in sorted(pieces)) or "''"
    source = f"def write(body):\n    text = {expression}\n    return '{{' + text[:-1] + '}}'"
    exec(compile(source, f"<writer of {cls.__name__}>", "exec"), names)
    written: Callable[[Any], str] = names["write"]
    return written


_READ_UNLESS = {
    str: "type({}) is not str",
    bool: "type({}) is not bool",
    int: "True",
    Long: "True",
    float: "True",
}


def _null_rule(field: _Field, value: str) -> str:
    """`null` stands for an empty list, map or body, unless the field may be None; scalars know their zero."""
    return "" if field.optional or field.hint in _SCALARS else f" or {value} is None"


def _read_text(value: Any) -> str:
    return _read_str(value) or ""


def _make_reader(cls: type[JsonBody], fields: list[_Field]) -> Callable[[Any], Any]:
    names: dict[str, Any] = {"absent": object(), "new": cls, "fail": _wrong, "MalformedJson": MalformedJson}
    lines = [
        "def read(value):",
        "    if not isinstance(value, dict):",
        f"        raise fail(value, {f'an object with the fields of {cls.__name__}'!r})",
        "    get = value.get",
        "    name = ''",
        "    try:",
    ]
    for number, field in enumerate(fields):
        names[f"r{number}"] = _read_text if field.hint is str else field.codec.read
        names[f"f{number}"] = field.default
        value = f"v{number}"
        lines.append(f"        {value} = get({field.json_name!r}, absent)")
        lines.append(f"        if {value} is absent{_null_rule(field, value)}:")
        lines.append(f"            {value} = f{number}()")
        lines.append(f"        elif {_READ_UNLESS.get(field.hint, '{} is not None').format(value)}:")
        lines.append(f"            name = {field.json_name!r}")
        lines.append(f"            {value} = r{number}({value})")
    lines.append("    except MalformedJson as error:")
    lines.append("        raise MalformedJson(f'{name}: {error}') from None")
    lines.append(f"    return new({', '.join(f'v{number}' for number in range(len(fields)))})")
    exec(compile("\n".join(lines), f"<reader of {cls.__name__}>", "exec"), names)
    read: Callable[[Any], Any] = names["read"]
    return read


def _make_plain(cls: type[JsonBody], fields: list[_Field]) -> Callable[[Any], dict[str, Any]]:
    rows = sorted(
        [(field.json_name, field.attribute, field.codec.plain, field.hint is str) for field in fields]
    )
    derived = dict(cls.DERIVED)

    def plain(body: Any) -> dict[str, Any]:
        found = {}
        for json_name, attribute, convert, empty_is_absent in rows:
            value = getattr(body, attribute)
            if value is not None and not (empty_is_absent and not value):
                found[json_name] = convert(value)
        if derived:
            found.update((name, derive(body)) for name, derive in derived.items())
            found = dict(sorted(found.items()))
        return found

    return plain
