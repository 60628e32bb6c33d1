"""Bodies in Avro, with the id of the schema that wrote them (extra `avro`)."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from orbitmq.client.core.errors import InvalidArgument
from orbitmq.extras import lacking

try:
    import fastavro
except ModuleNotFoundError:
    raise InvalidArgument(lacking("AvroSerializer", "fastavro", "avro")) from None

Schema: TypeAlias = "dict[str, Any]"
_HEAD = struct.Struct(">bI")
_MAGIC = 0


class AvroSerializer:
    """Avro records behind a zero byte and the id of their schema in four bytes, as schema registries have it.

        AvroSerializer({7: SCHEMA}, schema_id=7)

    `schemas` are schemas by id, or a function that asks a registry for one: it is asked once for each id.
    Records are written with `schema_id`, and are read as records of that schema whichever schema wrote them.
    """

    content_type = "application/avro"

    def __init__(self, schemas: Mapping[int, Schema] | Callable[[int], Schema], *, schema_id: int) -> None:
        self._find = schemas if callable(schemas) else schemas.__getitem__
        self._schema_id = schema_id
        self._parsed: dict[int, Any] = {}
        try:
            self._own = self._schema(schema_id)
        except KeyError:
            raise InvalidArgument(f"AvroSerializer: schemas has no schema {schema_id}") from None

    def _schema(self, schema_id: int) -> Any:
        if schema_id not in self._parsed:
            self._parsed[schema_id] = fastavro.parse_schema(self._find(schema_id))
        return self._parsed[schema_id]

    def serialize(self, value: Any, properties: dict[str, str]) -> bytes:
        """The record behind the id of its schema. Raises ValueError for what does not fit the schema."""
        out = io.BytesIO()
        out.write(_HEAD.pack(_MAGIC, self._schema_id))
        fastavro.schemaless_writer(out, self._own, value)
        return out.getvalue()

    def deserialize(self, body: bytes, properties: Mapping[str, str]) -> Any:
        """The record. Raises ValueError for a body without an id, LookupError for an unknown id."""
        if len(body) < _HEAD.size or body[0] != _MAGIC:
            raise ValueError("the body does not begin with a zero byte and the id of a schema")
        _, schema_id = _HEAD.unpack_from(body)
        reading = io.BytesIO(body)
        reading.seek(_HEAD.size)
        record = fastavro.schemaless_reader(reading, self._schema(schema_id), self._own)
        if rest := len(body) - reading.tell():
            raise ValueError(f"{rest} bytes follow the record")
        return record
