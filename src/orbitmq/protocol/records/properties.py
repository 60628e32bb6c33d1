"""The property string of a message: `name 0x01 value 0x02`, repeated."""

from __future__ import annotations

from collections.abc import Mapping

from orbitmq.protocol.errors import Malformed
from orbitmq.protocol.records.properties_cy import (
    decode_properties,
    find_property,
    index_hashes,
    index_keys,
    tags_code,
)

__all__ = [
    "SEPARATOR_IN_PROPERTY",
    "BadProperty",
    "change_properties",
    "check_property",
    "decode_properties",
    "encode_properties",
    "find_property",
    "index_hashes",
    "index_keys",
    "tags_code",
    "whole_number",
]

SEPARATOR_IN_PROPERTY = "a property holds a separator (0x02) or a zero byte"
SEPARATOR_IN_NAME = "the name of a property holds a separator (0x01)"


class BadProperty(Malformed):
    """A name or value that cannot stand in a property string."""


def check_property(name: str, value: str) -> None:
    """Raises BadProperty for a name or value that cannot stand in a property string."""
    if "\x02" in name or "\x02" in value or "\x00" in name or "\x00" in value:
        raise BadProperty(SEPARATOR_IN_PROPERTY)
    # Values may hold 0x01 (reading stops at the first one); names may not.
    if "\x01" in name:
        raise BadProperty(SEPARATOR_IN_NAME)


def whole_number(text: str | bytes | None) -> int | None:
    """The number of up to 18 digits that a value is; None for any other, for anybody may have written it."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) <= 18 else None


def change_properties(properties: bytes, changes: Mapping[str, str | None]) -> bytes:
    """A property string with other values, or without the properties that become None.

    It has the order of `encode_properties` over `decode_properties`, but the bytes of all others stay as they
    are: those that are no UTF-8 do not grow. Raises BadProperty.
    """
    entries: dict[bytes, bytes] = {}
    for entry in properties.split(b"\x02"):
        name, _, value = entry.partition(b"\x01")
        if name and value:
            entries[name] = value
    for changed, new in changes.items():
        if new is None:
            entries.pop(changed.encode(), None)
        else:
            check_property(changed, new)
            entries[changed.encode()] = new.encode("utf-8", "replace")
    return b"".join([b"%b\x01%b\x02" % entry for entry in entries.items()])


def encode_properties(properties: Mapping[str, str | None]) -> bytes:
    """The property string, UTF-8, in the mapping's order; properties that are None are left out.

    Raises BadProperty where a name or value holds a separator or a zero byte: it would be read back as
    something else, and a record with a zero byte in its properties counts as damaged.
    """
    entries = [f"{name}\x01{value}\x02" for name, value in properties.items() if value is not None]
    text = "".join(entries)
    # As in check_property, for all of them at once.
    if text.count("\x02") != len(entries) or "\x00" in text:
        raise BadProperty(SEPARATOR_IN_PROPERTY)
    if text.count("\x01") != len(entries) and any("\x01" in name for name in properties):
        raise BadProperty(SEPARATOR_IN_NAME)
    return text.encode("utf-8", "replace")
