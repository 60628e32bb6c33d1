"""Values of fields that the console hides: in bodies of JSON, and in properties.

A body in which a field cannot be found for certain is not shown at all.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from orbitmq.admin.bodies import BodyBudget, BodyProblem, ShownBody
from orbitmq.protocol.records.message import COMPRESSED, StoredMessage
from orbitmq.protocol.records.properties import change_properties

MASK = "***"
MAX_MASKED_BYTES = 1 << 20
"""A larger body is not shown where fields are masked."""
MAX_DEPTH = 64
"""A body of JSON that is deeper is not shown where fields are masked."""
NOT_FOR_YOU = BodyProblem(
    "hidden", "you may not read bodies: an admin gives this right (orbitmq console set-user NAME --bodies)"
)
TOO_LARGE = BodyProblem(
    "hidden", f"fields are masked, and bodies above {MAX_MASKED_BYTES} bytes are not shown"
)
NOT_JSON = BodyProblem("hidden", "fields are masked, and this body is not JSON: they cannot be found in it")
BY_SCHEMA = BodyProblem("hidden", "fields are masked: the body is shown by the schema of its topic only")

_MASKED = msgspec.Raw(msgspec.json.encode(MASK))


class _Unmaskable(Exception):
    """A value in which fields cannot be found for certain."""


class Masks:
    """Names of fields, in capitals or small letters. Without any it masks nothing."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = frozenset(name.strip().casefold() for name in names) - {""}

    def __bool__(self) -> bool:
        return bool(self._names)

    def shown(self, body: ShownBody, *, by_schema: bool = False) -> ShownBody:
        if not self._names or not body.data:
            return body
        if by_schema:
            return _hidden(body, BY_SCHEMA)
        if body.is_cut or len(body.data) > MAX_MASKED_BYTES:
            return _hidden(body, body.problem or TOO_LARGE)
        masked = self.masked(body.data)
        return _hidden(body, NOT_JSON) if masked is None else ShownBody(masked, body.size, False)

    def masked(self, data: bytes) -> bytes | None:
        """JSON with the values of these fields masked, at any depth. Text in which no name stands stays as it
        is. None for everything else.
        """
        try:
            return bytes(self._value(msgspec.Raw(data), 0))
        except msgspec.DecodeError:
            return None if self._may_hold(data) else data
        except (_Unmaskable, RecursionError, UnicodeError):
            return None

    def masked_text(self, text: str) -> str | None:
        """As `masked`, of JSON that was decoded by a schema, and indented again."""
        masked = self.masked(text.encode())
        if masked is None:
            return None
        try:
            return json.dumps(json.loads(masked), indent=2, ensure_ascii=False)
        except (ValueError, RecursionError):
            return masked.decode("utf-8", "replace")

    def properties(self, properties: Mapping[str, str]) -> dict[str, str]:
        """Properties with the values of these names masked."""
        return {name: MASK if self._is_meant(name) else value for name, value in properties.items()}

    def seen(self, stored: StoredMessage, budget: BodyBudget) -> StoredMessage:
        """The message as users see it. Raises BudgetSpent, CompressionError."""
        plain = stored.with_body(b"".join(budget.pieces(stored)))
        body = self.shown(ShownBody(bytes(plain.body), len(plain.body), len(plain.body) > MAX_MASKED_BYTES))
        return replace(plain, body=body.data, properties=self._seen_properties(plain))

    def seen_without_body(self, stored: StoredMessage, budget: BodyBudget) -> StoredMessage:
        """The message as users see it who may not read bodies."""
        return replace(stored.with_body(b""), properties=self._seen_properties(stored))

    def _seen_properties(self, stored: StoredMessage) -> bytes:
        hidden = {name: MASK for name in stored.property_map() if self._is_meant(name)}
        return change_properties(stored.properties, hidden) if hidden else stored.properties

    def _is_meant(self, name: str) -> bool:
        return name.casefold() in self._names

    def _may_hold(self, data: bytes) -> bool:
        """True if a name may stand in data that is not JSON."""
        try:
            text = data.decode().casefold()
        except UnicodeDecodeError:
            return True
        return "\0" in text or "\\u" in text or any(name in text for name in self._names)

    def _value(self, raw: msgspec.Raw, depth: int) -> msgspec.Raw:
        """Numbers stay as they are written: values that are not masked are copied, not read."""
        if depth > MAX_DEPTH:
            raise _Unmaskable
        first = bytes(memoryview(raw)[:64]).lstrip()[:1] or bytes(raw).lstrip()[:1]
        if first == b"{":
            fields = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
            masked: Any = {
                name: _MASKED if self._is_meant(name) else self._value(value, depth + 1)
                for name, value in fields.items()
            }
        elif first == b"[":
            masked = [self._value(one, depth + 1) for one in msgspec.json.decode(raw, type=list[msgspec.Raw])]
        elif first == b'"':
            return self._text(raw, depth)
        else:
            msgspec.json.decode(raw)
            return raw
        return msgspec.Raw(msgspec.json.encode(masked))

    def _text(self, raw: msgspec.Raw, depth: int) -> msgspec.Raw:
        """Texts may hold JSON themselves."""
        text = msgspec.json.decode(raw, type=str)
        data = text.encode()
        if not text.lstrip().startswith(("{", "[")) or not self._may_hold(data):
            return raw
        try:
            return msgspec.Raw(msgspec.json.encode(bytes(self._value(msgspec.Raw(data), depth + 1)).decode()))
        except msgspec.DecodeError:
            return _MASKED


def hidden_body(stored: StoredMessage) -> ShownBody:
    """The body as users see it who may not read bodies."""
    size = None if stored.sys_flag & COMPRESSED else len(stored.body)
    return ShownBody(b"", size, True, NOT_FOR_YOU)


def _hidden(body: ShownBody, problem: BodyProblem) -> ShownBody:
    return ShownBody(b"", body.size, True, problem)
