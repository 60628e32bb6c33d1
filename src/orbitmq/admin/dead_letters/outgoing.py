"""The message that a dead letter is sent again as: to its first topic, or to its own group alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from orbitmq.admin.dead_letters.dead_letter import DeadLetter
from orbitmq.admin.dead_letters.rules import marks, own_properties
from orbitmq.broker.filter.sql92 import BadExpression, compile_filter
from orbitmq.client import IllegalMessage, Message
from orbitmq.protocol.bodies.heartbeat import SubscriptionData
from orbitmq.protocol.names import KEYS, SHARDING_KEY, TAGS, WRITE_PROPERTY
from orbitmq.protocol.records.ids import unique_id_of
from orbitmq.protocol.records.message import COMPRESSED, COMPRESSION_MASK
from orbitmq.protocol.records.properties import BadProperty, encode_properties


@dataclass(frozen=True, slots=True)
class Edit:
    """Changes of one dead letter; None leaves a part as it is."""

    body: bytes | None = None
    tags: str | None = None
    """Empty: no tag."""
    keys: str | None = None
    """Separated by blanks."""
    properties: Mapping[str, str] | None = None
    """All properties of the user's own."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """The parts of a send."""

    topic: str
    body: bytes
    properties: bytes
    sys_flag: int
    flag: int
    sharding_key: str | None


def outgoing(letter: DeadLetter, target: str, unique_id: str, edit: Edit) -> Outgoing:
    """The message. Raises IllegalMessage for an edit that no message can have."""
    stored = letter.message.property_map()
    own = own_properties(stored) if edit.properties is None else dict(edit.properties)
    keys = stored.get(KEYS, "") if edit.keys is None else edit.keys
    sharding_key = stored.get(SHARDING_KEY)
    message = Message(
        target,
        letter.message.body if edit.body is None else edit.body,
        tags=(stored.get(TAGS) if edit.tags is None else edit.tags) or None,
        keys=keys.split(),
        properties=own,
        sharding_key=sharding_key,
        flag=letter.message.flag,
    )
    properties = message.wire_properties(unique_id)
    properties |= marks(stored, letter.message.offset_id, target)
    if unique_id == unique_id_of(letter.identity):
        properties[WRITE_PROPERTY] = letter.identity
    kept = letter.message.sys_flag & (COMPRESSED | COMPRESSION_MASK) if edit.body is None else 0
    try:
        encoded = encode_properties(properties)
    except BadProperty as error:
        raise IllegalMessage(str(error)) from None
    return Outgoing(target, message.body, encoded, kept, letter.message.flag, sharding_key)


class SubscriptionFilter:
    """A subscription's filter, as the broker applies it."""

    def __init__(self, subscription: SubscriptionData) -> None:
        self.expression = subscription.sub_string
        self.kind = subscription.expression_type or "TAG"
        self.error = ""
        self._tags = {tag.strip() for tag in self.expression.split("||")} - {"", "*"}
        self._sql = None
        if self.kind == "SQL92":
            try:
                self._sql = compile_filter(self.expression)
            except BadExpression as error:
                self.error = str(error)

    def lets_pass(self, tag: str | None, properties: bytes) -> bool:
        """True if members get a message with this tag and these encoded properties."""
        if self.kind == "SQL92":
            return self._sql is not None and self._sql.matches(properties)
        return not self._tags or tag in self._tags
