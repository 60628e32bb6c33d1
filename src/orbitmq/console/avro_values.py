"""Counts the values of an Avro body before it is decoded: a reader that makes them has no limit of its own.

An item of an array may have one byte and thousands of fields without any, so the size of a body says nothing
about the size of its value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_FIXED_BYTES = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_MAX_NUMBER_BYTES = 10


class Cursor:
    """A place in a body, and the values that may still come."""

    __slots__ = ("at", "body", "left")

    def __init__(self, body: bytes, budget: int) -> None:
        self.body, self.at, self.left = body, 0, budget

    def spend(self, values: int) -> None:
        """Counts values. Raises ValueError where there are too many."""
        self.left -= values
        if self.left < 0:
            raise ValueError("the body has too many values")

    def advance(self, count: int) -> None:
        """Passes over bytes. Raises ValueError where there are fewer."""
        if not 0 <= count <= len(self.body) - self.at:
            raise ValueError("the body ends too early")
        self.at += count

    def number(self) -> int:
        """A `long`. Raises ValueError."""
        value = shift = 0
        for _ in range(_MAX_NUMBER_BYTES):
            if self.at >= len(self.body):
                raise ValueError("the body ends too early")
            byte = self.body[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
            shift += 7
        raise ValueError("a number has too many bytes")


Skip = Callable[[Cursor], None]
"""Passes over one value. Raises ValueError for bytes that are none, and for too many values."""


def check_values(skip: Skip, body: bytes, budget: int) -> None:
    """Raises ValueError for a body of more values than `budget`, or of none of this schema."""
    skip(Cursor(body, budget))


def skip_of(schema: Any) -> Skip:
    """The function that passes over values of a schema. The schema does not contain itself."""
    return _skip_of(schema, {}, "")


def _skip_of(schema: Any, names: dict[str, Skip], namespace: str) -> Skip:
    if isinstance(schema, list):
        return _union([_skip_of(one, names, namespace) for one in schema])
    if isinstance(schema, str):
        return names.get(schema) or names.get(f"{namespace}.{schema}") or _primitive(schema)
    kind = schema["type"]
    name = str(schema.get("name", ""))
    if not isinstance(kind, str):
        return _skip_of(kind, names, namespace)
    if kind in ("record", "error", "enum", "fixed"):
        namespace = name.rpartition(".")[0] or str(schema.get("namespace", namespace))
        if kind == "fixed":
            skip = _bytes(int(schema["size"]))
        elif kind == "enum":
            skip = _primitive("int")
        else:
            skip = _record([_skip_of(one["type"], names, namespace) for one in schema["fields"]])
        names[name] = names[f"{namespace}.{name.rpartition('.')[2]}"] = skip
        return skip
    if kind == "array":
        return _blocks(_skip_of(schema["items"], names, namespace))
    if kind == "map":
        return _blocks(_record([_primitive("string"), _skip_of(schema["values"], names, namespace)]))
    return _skip_of(kind, names, namespace)


def _primitive(kind: str) -> Skip:
    if kind in _FIXED_BYTES:
        return _bytes(_FIXED_BYTES[kind])
    if kind in ("int", "long"):
        return _number
    if kind in ("bytes", "string"):
        return _text
    raise ValueError(f"no type is named {kind}")


def _bytes(count: int) -> Skip:
    def skip(cursor: Cursor) -> None:
        cursor.spend(1)
        cursor.advance(count)

    return skip


def _number(cursor: Cursor) -> None:
    cursor.spend(1)
    cursor.number()


def _text(cursor: Cursor) -> None:
    cursor.spend(1)
    cursor.advance(cursor.number())


def _union(branches: list[Skip]) -> Skip:
    def skip(cursor: Cursor) -> None:
        branch = cursor.number()
        if not 0 <= branch < len(branches):
            raise ValueError(f"the union has no branch {branch}")
        branches[branch](cursor)

    return skip


def _record(fields: list[Skip]) -> Skip:
    def skip(cursor: Cursor) -> None:
        cursor.spend(1)
        for field in fields:
            field(cursor)

    return skip


def _blocks(item: Skip) -> Skip:
    def skip(cursor: Cursor) -> None:
        cursor.spend(1)
        while count := cursor.number():
            if count < 0:
                count = -count
                cursor.number()  # the block's bytes: counted, and not passed over
            cursor.spend(count)
            cursor.left += count  # each item counts itself
            for _ in range(count):
                item(cursor)

    return skip
