"""Bodies as msgspec's structs (extra `msgspec`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, Literal, TypeVar

from orbitmq.client.core.errors import InvalidArgument
from orbitmq.extras import lacking

try:
    import msgspec
except ModuleNotFoundError:
    raise InvalidArgument(lacking("MsgspecSerializer", "msgspec", "msgspec")) from None

T = TypeVar("T")


class MsgspecSerializer(Generic[T]):
    """JSON or MessagePack of a msgspec struct, a dataclass or any other type that msgspec knows.

    A body that does not fit the type is msgspec's ValidationError, as the cause of DeserializationFailed.
    """

    def __init__(self, kind: type[T], format: Literal["json", "msgpack"] = "json") -> None:
        if format not in ("json", "msgpack"):
            raise InvalidArgument(f"MsgspecSerializer: format has to be json or msgpack, not {format!r}")
        self.content_type = f"application/{format}"
        self._encode: Callable[[T], bytes]
        self._decode: Callable[[bytes], T]
        if format == "json":
            self._encode, self._decode = msgspec.json.Encoder().encode, msgspec.json.Decoder(kind).decode
        else:
            self._encode, self._decode = (
                msgspec.msgpack.Encoder().encode,
                msgspec.msgpack.Decoder(kind).decode,
            )

    def serialize(self, value: T, properties: dict[str, str]) -> bytes:
        """The value in the format."""
        return self._encode(value)

    def deserialize(self, body: bytes, properties: Mapping[str, str]) -> T:
        """The value, validated."""
        return self._decode(body)
