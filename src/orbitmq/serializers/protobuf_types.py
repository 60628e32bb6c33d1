"""Bodies as Protocol Buffers (extra `protobuf`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, Protocol, Self, TypeVar

from orbitmq.client.core.checking import shown
from orbitmq.client.core.errors import InvalidArgument
from orbitmq.extras import lacking

try:
    from google.protobuf.message import Message as _Message
except ModuleNotFoundError:
    raise InvalidArgument(lacking("ProtobufSerializer", "protobuf", "protobuf")) from None


class ProtobufMessage(Protocol):
    """A class that `protoc` generated, as far as it is needed here."""

    def SerializeToString(self) -> bytes:  # noqa: N802 - the names are protobuf's
        """The message as bytes."""

    def IsInitialized(self) -> bool:  # noqa: N802
        """True if every required field is set."""

    @classmethod
    def FromString(cls, s: bytes, /) -> Self:  # noqa: N802
        """The message that bytes hold."""


M = TypeVar("M", bound=ProtobufMessage)


class ProtobufSerializer(Generic[M]):
    """Protocol Buffers of one generated class: `ProtobufSerializer(Order)`.

    Bodies are the bytes of the message alone, as other programs' `SerializeToString` makes them: no id of a
    schema is in front of them. A body that cannot be read is protobuf's DecodeError, as the cause of
    DeserializationFailed.
    """

    content_type = "application/protobuf"

    def __init__(self, kind: type[M]) -> None:
        checked: Any = kind
        if not (isinstance(checked, type) and issubclass(checked, _Message)):
            raise InvalidArgument(
                f"ProtobufSerializer: kind has to be a class that protoc generated, not {shown(kind)}"
            )
        self._kind = kind

    def serialize(self, value: M, properties: dict[str, str]) -> bytes:
        """The message as bytes.

        Raises TypeError for another class's message, EncodeError where a required field (proto2) is not set.
        A body may not be empty: ValueError for a message in which no field differs from its default.
        """
        if not isinstance(value, self._kind):
            raise TypeError(f"{shown(value)} is no {self._kind.__name__}")
        body = value.SerializeToString()
        if not body:
            raise ValueError(f"all fields of the {self._kind.__name__} have their defaults: it has no bytes")
        return body

    def deserialize(self, body: bytes, properties: Mapping[str, str]) -> M:
        """The message. Raises DecodeError, ValueError where a required field (proto2) is missing."""
        value = self._kind.FromString(body)
        if not value.IsInitialized():
            raise ValueError(f"a required field of {self._kind.__name__} is missing")
        return value
