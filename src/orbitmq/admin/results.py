"""Results as commands and the console show them: their values, derived from fields and properties."""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass
from typing import Any, get_type_hints

from orbitmq.admin.admin import BrokerAt
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.schema.json_body import camel_case

INTERNAL = {"internal": True}
"""Metadata of a field that neither commands nor the console show."""
_PLACES: dict[Any, dict[str, str]] = {
    BrokerAt: {name: name for name in ("cluster", "name", "broker_id", "address")},
    MessageQueue: {"topic": "topic", "broker": "broker_name", "queue_id": "queue_id"},
}
"""Types whose values stand beside those of a result that has one of them, in place of it."""


@dataclass(frozen=True, slots=True)
class ResultValue:
    """One value of a result."""

    name: str
    """Its Python name."""
    path: str
    """The attribute of the result, with dots between attributes of attributes."""
    kind: Any
    """Its annotation."""


@functools.cache
def values_of(result: type[Any]) -> dict[str, ResultValue]:
    """The values of a dataclass by their names in JSON: fields, then public properties."""
    hints = get_type_hints(result, include_extras=True)
    found = []
    for field in dataclasses.fields(result):
        kind = hints[field.name]
        if field.metadata.get("internal") or field.name.startswith("_"):
            continue
        if kind in _PLACES:
            inner = get_type_hints(kind)
            found += [
                ResultValue(name, f"{field.name}.{attribute}", inner[attribute])
                for name, attribute in _PLACES[kind].items()
            ]
        else:
            found.append(ResultValue(field.name, field.name, kind))
    for base in reversed(result.__mro__):
        for name, value in vars(base).items():
            if isinstance(value, property) and not name.startswith("_"):
                kind = get_type_hints(value.fget, include_extras=True)["return"]
                found.append(ResultValue(name, name, kind))
    return {camel_case(one.name): one for one in found}
