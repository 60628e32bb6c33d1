"""Attributes of topics and groups: the known keys, their values, and signed updates.

A request names attributes with a sign, `+key` with a value or `-key`; a stored config has them without.
Attributes that an update does not name stay. A wrong update is refused as a whole (SYSTEM_ERROR).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.schema.json_body import LONG_MAX


@dataclass(slots=True, frozen=True)
class Attribute:
    """One known key: either one of `values`, or a whole number from `low` to `high`."""

    changeable: bool
    values: tuple[str, ...] = ()
    low: int = 0
    high: int = -1
    works: tuple[str, ...] = ()
    """The values that have their effect here; another one of Apache's is refused. Empty: all have it."""
    missing: str = ""
    """The unsupported feature, for that refusal."""
    any_text: bool = False
    """True if every value is accepted."""
    fold_case: bool = False
    """True if capital and small letters count alike."""

    @property
    def what_is_accepted(self) -> str:
        """The set or range, for a refusal."""
        if self.values:
            return f"set: [{', '.join(self.values)}]"
        return f"range({self.low}, {self.high})"

    def accepts(self, value: str) -> bool:
        """True if `value` may be stored."""
        if self.any_text:
            return True
        if self.values:
            return value in self.values or (self.fold_case and value.lower() in self.values)
        try:
            return self.low <= int(value) <= self.high
        except ValueError:
            return False

    def lacks(self, value: str) -> bool:
        """True if `value` is one of Apache's that would be stored and change nothing here."""
        return bool(self.works) and value not in self.works


TOPIC_ATTRIBUTES: Mapping[str, Attribute] = {
    "queue.type": Attribute(
        False, ("SimpleCQ", "BatchCQ"), works=("SimpleCQ",), missing="batch consume queues"
    ),
    "cleanup.policy": Attribute(
        False, ("DELETE", "COMPACTION"), works=("DELETE",), missing="compaction topics"
    ),
    "message.type": Attribute(
        True,
        ("UNSPECIFIED", "MIXED", "TRANSACTION", "PRIORITY", "FIFO", "DELAY", "NORMAL", "LITE"),
    ),
    "reserve.time": Attribute(
        True, low=-1, high=LONG_MAX, works=("-1",), missing="retention by topic (tiered storage)"
    ),
    "lite.topic.expiration": Attribute(True, low=-1, high=43_200),
}

_BOOLEAN = Attribute(True, ("true", "false"), fold_case=True)
GROUP_ATTRIBUTES: Mapping[str, Attribute] = {
    "priority.factor": Attribute(True, low=0, high=100),
    "lite.bind.topic": Attribute(True, any_text=True),
    "lite.sub.model": Attribute(True, ("Shared", "Exclusive")),
    "lite.sub.reset.offset.exclusive": _BOOLEAN,
    "lite.sub.reset.offset.unsubscribe": _BOOLEAN,
    "lite.sub.client.quota": Attribute(True, low=-1, high=2**31 - 1),
    "lite.sub.client.max.event.cnt": Attribute(True, low=10, high=LONG_MAX),
    "lite.sub.wildcard": Attribute(True, any_text=True),
}


def parse_attributes(text: str | None) -> dict[str, str]:
    """The signed attributes of a header field, `+k=v,+k2=v2,-k3`; {} when absent."""
    attributes: dict[str, str] = {}
    for item in (text or "").split(","):
        if not item.strip():
            continue
        key, equals, value = item.partition("=")
        key, value = key.strip(), value.strip()
        if not key or (equals and not value) or (not equals and not key.startswith("-")):
            raise _wrong(f"kv string format wrong: {item}")
        if key in attributes:
            raise _wrong(f"key duplication: {key}")
        attributes[key] = value
    return attributes


def alter(
    known: Mapping[str, Attribute], current: Mapping[str, str] | None, signed: Mapping[str, str]
) -> dict[str, str]:
    """The attributes after a signed update of `current`; None stands for a config that is being created.

    Raises Refused (SYSTEM_ERROR) and changes nothing if any part of the update is wrong.
    """
    result = dict(current or {})
    named: set[str] = set()
    for signed_key, value in signed.items():
        sign, key = signed_key[:1], signed_key[1:]
        if sign not in ("+", "-") or not key:
            raise _wrong(f"add/alter attribute format is wrong: {signed_key}")
        if key in named:
            raise _wrong(f"alter duplication key. key: {key}")
        named.add(key)
        if sign == "-":
            if current is None:
                raise _wrong(f"only add attribute is supported while creating topic. key: {signed_key}")
            if key not in current:
                raise _wrong(f"attempt to delete a nonexistent key: {key}")
        attribute = known.get(key)
        if attribute is None:
            raise _wrong(f"unsupported key: {key}")
        if sign == "+" and not attribute.accepts(value):
            raise _wrong(f"value is not in {attribute.what_is_accepted}")
        if current is not None and not attribute.changeable and result.get(key) != value:
            raise _wrong(f"attempt to update an unchangeable attribute. key: {key}")
        if sign == "+" and attribute.lacks(value):
            raise _wrong(f"{key}={value} is not supported yet: this broker has no {attribute.missing}")
        if sign == "-":
            del result[key]
        else:
            result[key] = value
    return result


def without_effect(known: Mapping[str, Attribute], stored: Mapping[str, str]) -> list[str]:
    """Stored attributes, as `key=value`, that change nothing here: another broker has taken them."""
    return [f"{key}={value}" for key, value in stored.items() if key in known and known[key].lacks(value)]


def _wrong(remark: str) -> Refused:
    return Refused(ResponseCode.SYSTEM_ERROR, remark)
