"""Bodies in Avro and Protobuf as JSON, by a schema that somebody gave for a topic (extra `schemas`).

Bodies are anybody's, so no schema is taken by which a small body could become a large value or a deep one:
Avro's reader has no limit of its own for either; Protobuf's has one for depth.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import msgspec

from orbitmq.console.avro_values import check_values, skip_of
from orbitmq.extras import lacking
from orbitmq.protocol.errors import OrbitError

Kind = Literal["avro", "protobuf"]
Decode = Callable[[bytes], str]
"""A body as indented JSON. Raises UndecodableBody."""
MAX_BODY_BYTES = 1 << 20
TOO_LONG_TO_DECODE = f"bodies above {MAX_BODY_BYTES} bytes are not decoded"
MAX_JSON_CHARACTERS = 512 << 10
MAX_AVRO_FIELDS = 10_000
"""Values that one value of an Avro schema has, items of arrays and maps counted once. A record that is used
again counts again."""
MAX_AVRO_DEPTH = 32
MAX_AVRO_VALUES = 200_000
"""Values of one body, fields without bytes as well."""
_REGISTRY_HEAD = 5
"""Bytes before a body of a schema registry's serializers: a zero, and the id of the schema."""
_SMALLEST = {"null": 0, "boolean": 1, "int": 1, "long": 1, "float": 4, "double": 8, "bytes": 1, "string": 1}


class Schema(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """The schema of a topic's bodies."""

    kind: Kind
    text: str
    """Avro: the schema's JSON. Protobuf: a FileDescriptorSet in base64 (`protoc --descriptor_set_out`)."""
    message_type: str = ""
    """Protobuf: the full name of the message."""


class BadSchema(OrbitError):
    """A text that is no schema, or one that the console does not take; the message says where and why."""


class DecoderMissing(OrbitError):
    """The extra `schemas` is not installed."""


class UndecodableBody(OrbitError):
    """A body that is not of the schema."""


def decoder_of(schema: Schema) -> Decode:
    """The decoder of a schema. Raises BadSchema, DecoderMissing."""
    return _avro(schema.text) if schema.kind == "avro" else _protobuf(schema.text, schema.message_type)


def _avro(text: str) -> Decode:
    try:
        import fastavro
    except ModuleNotFoundError:
        raise DecoderMissing(lacking("Avro", "fastavro", "schemas")) from None
    try:
        declared = json.loads(text)
    except json.JSONDecodeError as error:
        raise BadSchema(f"line {error.lineno}, column {error.colno}: {error.msg}") from None
    except RecursionError:
        raise BadSchema("the schema is nested too deeply") from None
    try:
        _check_size(_size_of(declared, {}, ()))
        parsed = fastavro.parse_schema(declared)
        skip = skip_of(declared)
    except BadSchema:
        raise
    except Exception as error:  # fastavro raises many kinds for what is no schema
        raise BadSchema(f"no Avro schema: {error}") from None

    def read(body: bytes) -> Any:
        check_values(skip, body, MAX_AVRO_VALUES)
        stream = io.BytesIO(body)
        value = fastavro.schemaless_reader(stream, parsed, None)
        if stream.tell() != len(body):
            raise ValueError(f"{len(body) - stream.tell()} bytes are left over")
        return value

    def decode(body: bytes) -> str:
        bodies = [body]
        if body[:1] == b"\0" and len(body) >= _REGISTRY_HEAD:
            bodies.insert(0, body[_REGISTRY_HEAD:])
        reason = ""
        for one in bodies:
            try:
                return _json(read(one))
            except Exception as error:  # hostile bytes make fastavro raise anything
                reason = f"{type(error).__name__}: {error}"
        raise UndecodableBody(f"not of the Avro schema: {reason}")

    return decode


class _Size(NamedTuple):
    """Extent of one value of a schema, with one item for each array and map."""

    least_bytes: int
    values: int
    depth: int


def _check_size(size: _Size) -> _Size:
    """Raises BadSchema for a value that is too large or too deep to be taken from anybody's bytes."""
    if size.values > MAX_AVRO_FIELDS:
        raise BadSchema(f"a value has more than {MAX_AVRO_FIELDS} fields, those of its records counted")
    if size.depth > MAX_AVRO_DEPTH:
        raise BadSchema(f"the schema is more than {MAX_AVRO_DEPTH} levels deep")
    return size


def _size_of(schema: Any, names: dict[str, _Size], path: tuple[str, ...], depth: int = 1) -> _Size:
    """The extent of a value of a schema. Raises BadSchema for one that is not taken."""
    if depth > MAX_AVRO_DEPTH:
        raise BadSchema(f"the schema is more than {MAX_AVRO_DEPTH} levels deep")
    if isinstance(schema, str):
        if schema in path:
            raise BadSchema(f"record {schema} contains itself: a hostile body could be of any depth")
        if schema in _SMALLEST:
            return _Size(_SMALLEST[schema], 1, 1)
        if schema in names:
            return names[schema]
        raise BadSchema(f"no type is named {schema}")
    if isinstance(schema, list):
        branches = [_size_of(one, names, path, depth + 1) for one in schema]
        least = min((one.least_bytes for one in branches), default=0)
        return _Size(1 + least, *_largest(branches))
    if not isinstance(schema, Mapping) or "type" not in schema:
        raise BadSchema(f"no type: {str(schema)[:80]}")
    kind = schema["type"]
    name = str(schema.get("name", ""))
    full = name if "." in name or not schema.get("namespace") else f"{schema['namespace']}.{name}"
    if kind in ("record", "error"):
        inner = (*path, name, full)
        size = _Size(0, 1, 1)
        for field in schema.get("fields", ()):
            one = _size_of(field.get("type"), names, inner, depth + 1)
            size = _check_size(
                _Size(
                    size.least_bytes + one.least_bytes,
                    size.values + one.values,
                    max(size.depth, one.depth + 1),
                )
            )
        names[name] = names[full] = size
        return size
    if kind in ("enum", "fixed"):
        names[name] = names[full] = _Size(int(schema.get("size", 1)) if kind == "fixed" else 1, 1, 1)
        return names[name]
    if kind in ("array", "map"):
        item = _size_of(schema.get("items" if kind == "array" else "values"), names, path, depth + 1)
        if item.least_bytes == 0 and kind == "array":
            raise BadSchema("an array of items without bytes: a small body could hold billions of them")
        return _check_size(_Size(1, 1 + item.values, 1 + item.depth))
    return _size_of(kind, names, path, depth + 1)


def _largest(branches: list[_Size]) -> tuple[int, int]:
    return max((one.values for one in branches), default=1), max((one.depth for one in branches), default=1)


def _protobuf(text: str, message_type: str) -> Decode:
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
    except ModuleNotFoundError:
        raise DecoderMissing(lacking("Protobuf", "protobuf", "schemas")) from None
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(base64.b64decode(text, validate=True))
    except binascii.Error as error:
        raise BadSchema(f"not base64: {error}") from None
    except Exception as error:  # google.protobuf.message.DecodeError, of either implementation
        raise BadSchema(f"no FileDescriptorSet: {error}") from None
    pool = descriptor_pool.DescriptorPool()
    try:
        for file in files.file:
            pool.Add(file)
        kind = message_factory.GetMessageClass(pool.FindMessageTypeByName(message_type))
    except KeyError:
        known = ", ".join(
            f"{file.package}.{one.name}".removeprefix(".") for file in files.file for one in file.message_type
        )
        raise BadSchema(f"no message is named {message_type!r}; there are: {known[:500] or 'none'}") from None
    except TypeError as error:
        raise BadSchema(f"the descriptors do not fit together: {error}") from None

    def decode(body: bytes) -> str:
        try:
            message = kind.FromString(_without_head(body))
            text = json_format.MessageToJson(message, preserving_proto_field_name=True, descriptor_pool=pool)
        except Exception as error:  # as above, and whatever JSON cannot hold
            raise UndecodableBody(f"not of the Protobuf schema: {error}") from None
        return _cut(text)

    return decode


def _without_head(body: bytes) -> bytes:
    """The message behind a registry's head, which ends with the place of its type: mostly one zero."""
    if body[:1] != b"\0" or len(body) <= _REGISTRY_HEAD:
        return body
    count, at = body[_REGISTRY_HEAD] >> 1, _REGISTRY_HEAD + 1
    return body[at + count :]


def _json(value: Any) -> str:
    return _cut(json.dumps(value, indent=2, ensure_ascii=False, default=_shown))


def _shown(value: Any) -> str:
    return "0x" + value.hex() if isinstance(value, bytes) else str(value)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_JSON_CHARACTERS else text[:MAX_JSON_CHARACTERS] + "\n…"
