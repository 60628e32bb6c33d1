"""Rules of a user: resources and their patterns, and which of several rules counts.

Of the rules that fit a request the most specific one decides: a rule for a type of resource before one for
any; a name before a prefix, a longer prefix before a shorter one, a prefix before any name; Deny before
Allow. Default policies are looked at only where no Custom one fits. Nothing fits: refused.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias, TypeVar

from orbitmq.protocol.bodies.auth import Acl, PolicyEntry, Resource
from orbitmq.protocol.names import RETRY_PREFIX

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network


class Action(IntEnum):
    """Actions on a resource; the numbers are those of stored rules."""

    ALL = 1
    ANY = 2
    PUB = 3
    SUB = 4
    CREATE = 5
    UPDATE = 6
    DELETE = 7
    GET = 8
    LIST = 9


class Kind(IntEnum):
    """Types of resources."""

    ANY = 1
    CLUSTER = 2
    TOPIC = 4
    GROUP = 5


class Pattern(IntEnum):
    """The way in which a rule names its resources."""

    ANY = 1
    LITERAL = 2
    PREFIXED = 3


class Decision(IntEnum):
    """The decision of a rule."""

    ALLOW = 1
    DENY = 2


class PolicyType(IntEnum):
    """Types of rules, in the order in which they are checked."""

    CUSTOM = 1
    DEFAULT = 2


class UserType(IntEnum):
    """Super users may do everything."""

    SUPER = 1
    NORMAL = 2


class UserStatus(IntEnum):
    """A disabled user is refused whatever its rules are."""

    ENABLE = 1
    DISABLE = 2


EnumT = TypeVar("EnumT", bound=IntEnum)


def by_name(enum: type[EnumT], name: str | None) -> EnumT | None:
    """The member with a name in any case, as Apache reads them; None if there is none."""
    return enum.__members__.get((name or "").upper())


def shown(member: IntEnum) -> str:
    """A member as peers write it: `Pub`, `Super`; of a status `enable`."""
    return member.name.lower() if isinstance(member, UserStatus) else member.name.capitalize()


class BadResource(ValueError):
    """A text that names no resource."""


def parse_resource(key: str | None) -> Resource:
    """The resource that `Topic:x`, `Group:x*`, `Cluster:*` or `*` names. Raises BadResource."""
    if key == "*":
        return Resource(Kind.ANY, None, Pattern.ANY)
    kind_name, _, name = (key or "").partition(":")
    kind = by_name(Kind, kind_name)
    if kind is None or kind is Kind.ANY or not name:
        raise BadResource("The resource is null.")
    if name == "*":
        return Resource(kind, None, Pattern.ANY)
    if "*" in name[:-1]:
        raise BadResource(f"The resource {key} is illegal, * may only be its last character.")
    if name.endswith("*"):
        return Resource(kind, name[:-1], Pattern.PREFIXED)
    return Resource(kind, name, Pattern.LITERAL)


def resource_key(resource: Resource | None) -> str:
    """The text that `parse_resource` reads."""
    if resource is None or resource.resource_type == Kind.ANY:
        return "*"
    kind = shown(Kind(resource.resource_type or Kind.ANY))
    if resource.resource_pattern == Pattern.ANY:
        return f"{kind}:*"
    return f"{kind}:{resource.resource_name}{'*' if resource.resource_pattern == Pattern.PREFIXED else ''}"


def parse_network(text: str) -> Network:
    """An address, or a range `10.0.0.0/8`. Raises ValueError."""
    return ipaddress.ip_network(text, strict=False)


@dataclass(slots=True, frozen=True)
class Access:
    """One thing that a request wants to do: any of `actions` allowed is enough."""

    kind: Kind
    name: str
    actions: frozenset[Action]
    any_right: bool = False
    """Any right of the user is enough: for requests that name no resource."""

    def __str__(self) -> str:
        return "anything" if self.any_right else f"{shown(self.kind)}:{self.name}"


ANY_RIGHT = Access(Kind.ANY, "*", frozenset({Action.ANY}), any_right=True)


def topic_access(topic: str, actions: frozenset[Action]) -> Access:
    """To a topic; one of retries stands for its group."""
    if topic.startswith(RETRY_PREFIX):
        return Access(Kind.GROUP, topic.removeprefix(RETRY_PREFIX), actions)
    return Access(Kind.TOPIC, topic, actions)


def group_access(group: str, actions: frozenset[Action]) -> Access:
    """To a group, which may be named by its retry topic."""
    return Access(Kind.GROUP, group.removeprefix(RETRY_PREFIX), actions)


@dataclass(slots=True, frozen=True)
class Rule:
    """A stored entry in the form in which it is asked."""

    kind: Kind
    pattern: Pattern
    name: str
    actions: frozenset[Action]
    networks: tuple[Network, ...]
    decision: Decision

    def fits(self, access: Access, source: Address | None) -> bool:
        return self._covers(access) and self._names(access.actions) and self._holds_for(source)

    def _covers(self, access: Access) -> bool:
        if access.any_right:
            return self.decision is Decision.ALLOW
        if self.kind is Kind.ANY:
            return True
        if self.kind is not access.kind:
            return False
        if self.pattern is Pattern.LITERAL:
            return access.name == self.name
        return self.pattern is Pattern.ANY or access.name.startswith(self.name)

    def _names(self, wanted: Collection[Action]) -> bool:
        if not self.actions:
            return False
        return Action.ALL in self.actions or Action.ANY in wanted or not self.actions.isdisjoint(wanted)

    def _holds_for(self, source: Address | None) -> bool:
        return not self.networks or (source is not None and any(source in net for net in self.networks))

    @property
    def rank(self) -> tuple[bool, int, int, bool]:
        """Less counts first."""
        order = (Pattern.LITERAL, Pattern.PREFIXED, Pattern.ANY).index(self.pattern)
        length = len(self.name) if self.pattern is Pattern.PREFIXED else 0
        return self.kind is Kind.ANY, order, -length, self.decision is Decision.ALLOW


class Rules:
    """All rules of one user, the most specific first."""

    __slots__ = ("_custom", "_default")

    def __init__(self, acl: Acl | None) -> None:
        self._custom = _compiled(acl, PolicyType.CUSTOM)
        self._default = _compiled(acl, PolicyType.DEFAULT)

    def decide(self, access: Access, source: Address | None) -> Decision | None:
        """The decision of the rules about an access; None if none applies."""
        for rules in (self._custom, self._default):
            for rule in rules:
                if rule.fits(access, source):
                    return rule.decision
        return None


def _compiled(acl: Acl | None, kind: PolicyType) -> list[Rule]:
    policies = (acl.policies if acl is not None else None) or ()
    entries: Iterable[PolicyEntry] = (
        entry for policy in policies if policy.policy_type == kind for entry in policy.entries or ()
    )
    return sorted(map(compile_entry, entries), key=lambda rule: rule.rank)


def compile_entry(entry: PolicyEntry) -> Rule:
    """A stored entry as a rule. Raises ValueError for one that cannot have been made by `parse_resource`."""
    resource = entry.resource or Resource()
    source_ips = (entry.environment.source_ips if entry.environment is not None else None) or ()
    return Rule(
        Kind(resource.resource_type or 0),
        Pattern(resource.resource_pattern or 0),
        resource.resource_name or "",
        frozenset(map(Action, entry.actions or ())),
        tuple(map(parse_network, source_ips)),
        Decision(entry.decision or 0),
    )
