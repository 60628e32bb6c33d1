"""Bodies as objects: what a serializer is, and the property that names the format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeVar

T = TypeVar("T")

CONTENT_TYPE = "contentType"
"""The property of a message that names the format of its body, as a media type."""


class Serializer(Protocol[T]):
    """Turns values into bodies and bodies into values. It may be used by several threads at a time."""

    @property
    def content_type(self) -> str:
        """The media type of bodies, for the property `contentType`."""

    def serialize(self, value: T, properties: dict[str, str]) -> bytes:
        """The body for a value. Properties added to `properties` travel with the message."""

    def deserialize(self, body: bytes, properties: Mapping[str, str]) -> T:
        """The value of a body; `properties` are those of its message. Raises for a body that is none."""
