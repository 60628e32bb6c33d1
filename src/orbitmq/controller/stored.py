"""Values of the consensus store: dataclasses as JSON, with their names in camel case, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from orbitmq.protocol.schema.json_body import camel_case


def to_json(value: Any) -> Any:
    """A value as JSON has it."""
    if is_dataclass(value):
        return {camel_case(one.name): to_json(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_json(one) for key, one in sorted(value.items())}
    if isinstance(value, (frozenset, tuple)):
        return [to_json(one) for one in (sorted(value) if isinstance(value, frozenset) else value)]
    return value


def from_json(kind: Any, found: Any) -> Any:
    """The value of a type that JSON gives; a field that is missing has its default.

    Raises ValueError, TypeError or AttributeError for what is none.
    """
    origin, inner = get_origin(kind), get_args(kind)
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        given = {name: found[key] for name in hints if (key := camel_case(name)) in found}
        return kind(**{name: from_json(hints[name], one) for name, one in given.items()})  # type: ignore[operator]
    if origin is UnionType:
        return None if found is None else from_json(inner[0], found)
    if origin is Mapping:
        return {from_json(inner[0], key): from_json(inner[1], one) for key, one in found.items()}
    if origin in (frozenset, tuple):
        return origin(from_json(inner[0], one) for one in found)
    return kind(found)
