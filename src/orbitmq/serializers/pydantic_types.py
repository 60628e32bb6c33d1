"""Bodies as pydantic's models (extra `pydantic`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

from orbitmq.client.core.errors import InvalidArgument
from orbitmq.extras import lacking

try:
    from pydantic import TypeAdapter
except ModuleNotFoundError:
    raise InvalidArgument(lacking("PydanticSerializer", "pydantic", "pydantic")) from None

T = TypeVar("T")


class PydanticSerializer(Generic[T]):
    """JSON of a pydantic model, or of any type that pydantic validates (`list[Order]`, dataclasses).

    A body that does not fit the type is pydantic's ValidationError, as the cause of DeserializationFailed.
    """

    content_type = "application/json"

    def __init__(self, kind: type[T]) -> None:
        self._adapter: TypeAdapter[T] = TypeAdapter(kind)

    def serialize(self, value: T, properties: dict[str, str]) -> bytes:
        """The value as JSON, by the aliases of its fields."""
        return self._adapter.dump_json(value, by_alias=True)

    def deserialize(self, body: bytes, properties: Mapping[str, str]) -> T:
        """The value, validated."""
        return self._adapter.validate_json(body)
