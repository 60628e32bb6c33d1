"""The reason that a user may do something, or may not: decisions of brokers, and the rules that made them."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass, field
from shlex import quote
from typing import Literal

from orbitmq.admin.acls import rules_of
from orbitmq.admin.admin import Admin, BrokerAt
from orbitmq.admin.brokers import broker_config
from orbitmq.admin.diagnosis.phrases import Phrase, phrase
from orbitmq.broker.auth.policies import (
    Access,
    Action,
    Address,
    BadResource,
    Decision,
    Kind,
    Pattern,
    PolicyType,
    Rule,
    by_name,
    compile_entry,
    group_access,
    parse_resource,
    resource_key,
    shown,
    topic_access,
)
from orbitmq.protocol.bodies.auth import AclInfo, Environment, PolicyEntry, PolicyEntryInfo, UserInfo
from orbitmq.protocol.errors import OrbitError
from orbitmq.protocol.requests.auth import AuthGetUser

ACTIONS = ("Pub", "Sub", "Create", "Update", "Delete", "Get", "List")

Cause = Literal[
    "OPEN", "NO_USER", "DISABLED", "NO_AUTHORIZATION", "SUPER_USER", "RULE", "NO_RULE", "NOT_KNOWN"
]
"""The kind of reason. `OPEN`: the broker has no access control."""
Verdict = Literal["decides", "later", "resource", "action", "source", "unreadable"]
"""The part of a rule in a decision. `later`: it applies, but a more specific one decides; the next three:
it is about another resource, other actions, or other addresses."""


NOTHING = Phrase("")


class BadQuestion(OrbitError):
    """A resource, an action or an address that is none."""


@dataclass(frozen=True, slots=True)
class ConsideredRule:
    """One rule of the user, in the order in which the broker looks at them."""

    policy: str
    """`Custom` or `Default`; the latter count where no Custom rule applies."""
    resource: str
    actions: tuple[str, ...]
    source_ips: tuple[str, ...]
    decision: str
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Explanation:
    """The decision of one broker."""

    broker: str
    address: str
    allowed: bool | None
    """None where it cannot be found out."""
    cause: Cause
    sentence: Phrase
    advice: Phrase = NOTHING
    rules: list[ConsideredRule] = field(default_factory=list)


async def explain_access(
    admin: Admin, user: str, resource: str, action: str, source: str = ""
) -> list[Explanation]:
    """The decisions of all brokers about an action of a user on a resource, `Topic:orders` for example.

    `source` is the address from which the user comes; without one, rules for addresses do not apply.
    Raises BadQuestion.
    """
    access = _access(resource, action)
    address = _address(source)

    async def ask(one: BrokerAt) -> Explanation:
        try:
            return await _explain(admin, one, user, access, address)
        except OrbitError as error:
            sentence = phrase("{broker} does not say: {error}", broker=one.name, error=str(error))
            return Explanation(one.name, one.address, None, "NOT_KNOWN", sentence)

    return await admin.each(await admin.brokers(), ask)


async def _explain(
    admin: Admin, one: BrokerAt, user: str, access: Access, source: Address | None
) -> Explanation:
    config = await broker_config(admin, one.address)
    authenticates = config.get("authenticationEnabled") == "true"
    authorizes = config.get("authorizationEnabled") == "true"
    known = None
    if user and (authenticates or authorizes):
        known = (await admin.call(one.address, AuthGetUser(user))).body
    before_rules = _before_rules(one, user, known, authenticates=authenticates, authorizes=authorizes)
    if before_rules is not None:
        return before_rules
    considered, decision = _consider(await rules_of(admin, one.address, user), access, source)
    return _by_rules(one, user, access, considered, decision)


def _before_rules(
    one: BrokerAt, user: str, known: UserInfo | None, *, authenticates: bool, authorizes: bool
) -> Explanation | None:
    """The decision if it follows from the options of the broker or the state of the user, without rules."""

    def because(allowed: bool, cause: Cause, sentence: Phrase, advice: Phrase = NOTHING) -> Explanation:
        return Explanation(one.name, one.address, allowed, cause, sentence, advice)

    if not authenticates and not authorizes:
        return because(
            True,
            "OPEN",
            phrase("{broker} has no access control: anybody may do everything.", broker=one.name),
            phrase("Set authenticationEnabled and authorizationEnabled to have rules count."),
        )
    if known is None:
        return because(
            False,
            "NO_USER",
            phrase("{broker} has no user {user}.", broker=one.name, user=user),
            phrase("orbitmq admin user create {user}", user=quote(user)),
        )
    if authenticates and (known.user_status or "").lower() == "disable":
        return because(
            False,
            "DISABLED",
            phrase("User {user} is disabled on {broker}.", user=user, broker=one.name),
            phrase("orbitmq admin user update {user} --enable", user=quote(user)),
        )
    if not authorizes:
        return because(
            True,
            "NO_AUTHORIZATION",
            phrase(
                "{broker} looks at no rules: every user with a right signature may do everything.",
                broker=one.name,
            ),
            phrase("Set authorizationEnabled=true to have rules count."),
        )
    if (known.user_type or "").lower() == "super":
        return because(
            True, "SUPER_USER", phrase("{user} is a super user, who may do everything.", user=user)
        )
    return None


def _by_rules(
    one: BrokerAt,
    user: str,
    access: Access,
    considered: list[ConsideredRule],
    decision: Decision | None,
) -> Explanation:
    action = shown(next(iter(access.actions)))
    deciding = next((rule for rule in considered if rule.verdict == "decides"), None)
    if deciding is None:
        return Explanation(
            one.name,
            one.address,
            False,
            "NO_RULE",
            phrase(
                "No rule of {user} applies to {action} on {resource}; without one it is refused.",
                user=user,
                action=action,
                resource=str(access),
            ),
            phrase(
                "orbitmq admin acl create {user} --resource {resource} --action {action}",
                user=quote(user),
                resource=quote(str(access)),
                action=action.lower(),
            ),
            considered,
        )
    rule = f"{deciding.decision} {', '.join(deciding.actions)} on {deciding.resource}"
    return Explanation(
        one.name,
        one.address,
        decision is Decision.ALLOW,
        "RULE",
        phrase(
            "The {policy} rule “{rule}” allows {action} on {resource}."
            if decision is Decision.ALLOW
            else "The {policy} rule “{rule}” denies {action} on {resource}.",
            policy=deciding.policy,
            rule=rule,
            action=action,
            resource=str(access),
        ),
        NOTHING,
        considered,
    )


def _consider(
    acl: AclInfo | None, access: Access, source: Address | None
) -> tuple[list[ConsideredRule], Decision | None]:
    """All rules with their parts in the decision, in the broker's order, and the decision."""
    decision = None
    considered = []
    for policy, entry, rule in _ordered(acl):
        verdict: Verdict
        if rule is None:
            verdict = "unreadable"
        elif not rule.fits(access, source):
            verdict = _mismatch(rule, access, source)
        elif decision is None:
            verdict, decision = "decides", rule.decision
        else:
            verdict = "later"
        considered.append(
            ConsideredRule(
                policy,
                entry.resource or "",
                tuple(entry.actions or ()),
                tuple(entry.source_ips or ()),
                entry.decision or "",
                verdict,
            )
        )
    return considered, decision


def _ordered(acl: AclInfo | None) -> Iterator[tuple[str, PolicyEntryInfo, Rule | None]]:
    """Rules in the order in which they are asked: Custom ones first, the most specific of each kind first."""
    for kind in PolicyType:
        rules = []
        for policy in (acl.policies if acl is not None else None) or ():
            if by_name(PolicyType, policy.policy_type) is kind:
                rules += [(entry, _rule(entry)) for entry in policy.entries or ()]
        readable = [(entry, rule) for entry, rule in rules if rule is not None]
        for entry, rule in sorted(readable, key=lambda pair: pair[1].rank):
            yield shown(kind), entry, rule
        for entry, unread in rules:
            if unread is None:
                yield shown(kind), entry, None


def _rule(entry: PolicyEntryInfo) -> Rule | None:
    try:
        actions = [by_name(Action, name) for name in entry.actions or ()]
        return compile_entry(
            PolicyEntry(
                parse_resource(entry.resource),
                [int(action) for action in actions if action is not None],
                Environment(list(entry.source_ips)) if entry.source_ips else None,
                by_name(Decision, entry.decision),
            )
        )
    except ValueError:
        return None


def _mismatch(rule: Rule, access: Access, source: Address | None) -> Verdict:
    """The first part of a rule that does not fit."""
    anywhere = Rule(rule.kind, rule.pattern, rule.name, rule.actions, (), rule.decision)
    if anywhere.fits(access, source):
        return "source"
    anything = Rule(rule.kind, rule.pattern, rule.name, frozenset({Action.ALL}), (), rule.decision)
    return "action" if anything.fits(access, source) else "resource"


def _access(resource: str, action: str) -> Access:
    wanted = by_name(Action, action)
    if wanted is None or shown(wanted) not in ACTIONS:
        raise BadQuestion(f"{action!r} is no action: one of {', '.join(ACTIONS)}")
    try:
        parsed = parse_resource(resource)
    except BadResource:
        parsed = None
    if parsed is None or parsed.resource_pattern != Pattern.LITERAL:
        raise BadQuestion(
            f"{resource!r} names no resource: expected Topic:NAME, Group:NAME or Cluster:NAME, without *"
        )
    name = resource_key(parsed).partition(":")[2]
    actions = frozenset({wanted})
    if parsed.resource_type == Kind.TOPIC:
        return topic_access(name, actions)
    if parsed.resource_type == Kind.GROUP:
        return group_access(name, actions)
    return Access(Kind.CLUSTER, name, actions)


def _address(text: str) -> Address | None:
    if not text:
        return None
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        raise BadQuestion(f"{text!r} is no address") from None
