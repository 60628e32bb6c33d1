"""Access control of brokers: users, rules, and the reason that somebody may do something or may not."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal

import msgspec

from orbitmq.admin import Admin, BrokerAt
from orbitmq.admin.acls import delete_rules, list_rules, put_rules, subject_of
from orbitmq.admin.brokers import broker_config
from orbitmq.admin.diagnosis.access import ConsideredRule, explain_access
from orbitmq.admin.diagnosis.phrases import Phrase
from orbitmq.admin.users import create_user, delete_user, list_users, update_user
from orbitmq.console.api.endpoint import Call, endpoint
from orbitmq.console.api.problems import ApiError, Invalid, check_confirmed, problem_of
from orbitmq.console.security.roles import Role
from orbitmq.protocol.errors import OrbitError

Action = Literal["All", "Pub", "Sub", "Create", "Update", "Delete", "Get", "List"]
Password = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]


class BrokerAccess(msgspec.Struct, rename="camel"):
    """The access control of one broker. `error`: its users and rules are not known."""

    broker: str
    address: str
    authenticates: bool
    authorizes: bool
    error: str | None = None


class BrokerUser(msgspec.Struct, rename="camel"):
    """One user as brokers know it, never with its password."""

    name: str
    type: str
    status: str
    brokers: list[str]
    """Addresses of the brokers that have it so."""


class BrokerRule(msgspec.Struct, rename="camel"):
    """One rule as brokers have it."""

    user: str
    policy: str
    """`Custom`, or `Default`: those count where no Custom rule applies."""
    resource: str
    actions: list[str]
    source_ips: list[str]
    decision: str
    brokers: list[str]


class AccessState(msgspec.Struct, rename="camel"):
    """Users and rules of all brokers. Every broker has its own: what differs is listed once for each form."""

    brokers: list[BrokerAccess]
    users: list[BrokerUser]
    rules: list[BrokerRule]


class NewUser(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """A user to make on all brokers."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
    password: Password
    type: Literal["Normal", "Super"] = "Normal"


class UserChange(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """Changes of a user on all brokers; null leaves as it is."""

    password: Password | None = None
    type: Literal["Normal", "Super"] | None = None
    enabled: bool | None = None


class Confirmation(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """The name of the user once more."""

    confirm: str


class NewRule(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """A rule for all brokers. It replaces the one for the same user, resource and policy."""

    user: Annotated[str, msgspec.Meta(min_length=1)]
    resource: str
    """`Topic:NAME`, `Group:NAME` or `Cluster:NAME`; the name may end in `*`; `*` alone is everything."""
    actions: Annotated[list[Action], msgspec.Meta(min_length=1)]
    decision: Literal["Allow", "Deny"] = "Allow"
    source_ips: list[str] = []
    policy: Literal["Custom", "Default"] = "Custom"


class RuleName(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """The rule to delete."""

    user: str
    resource: str
    policy: Literal["Custom", "Default"] = "Custom"


class ChangedBrokers(msgspec.Struct, rename="camel"):
    """Addresses of the brokers that made the change."""

    brokers: list[str]


class ExplainQuery(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """The access to explain."""

    user: str
    resource: str
    """`Topic:NAME`, `Group:NAME` or `Cluster:NAME`."""
    action: str
    source: str = ""
    """Address from which the user comes."""


class AccessExplanation(msgspec.Struct, rename="camel"):
    """The decision of one broker."""

    broker: str
    address: str
    allowed: bool | None
    cause: str
    sentence: str
    advice: str
    rules: list[ConsideredRule]


class ExplanationWords(msgspec.Struct, rename="camel"):
    """The texts of an explanation, each with its values apart, for translations."""

    sentence: Phrase
    advice: Phrase


class AccessExplanations(msgspec.Struct, rename="camel"):
    """The decisions of all brokers."""

    brokers: list[AccessExplanation]
    words: list[ExplanationWords]
    """The texts of the same, in the same order."""


@endpoint("GET", "/api/clusters/{cluster}/access", Role.VIEWER, rows=("users", "rules", "brokers"))
async def get_access(call: Call[None, None]) -> AccessState:
    """Users and rules of all brokers, without secrets."""
    admin = call.cluster.admin
    users: dict[tuple[str, ...], BrokerUser] = {}
    rules: dict[tuple[Any, ...], BrokerRule] = {}

    async def ask(one: BrokerAt) -> BrokerAccess:
        state = BrokerAccess(one.name, one.address, False, False)
        try:
            config = await broker_config(admin, one.address)
            state.authenticates = config.get("authenticationEnabled") == "true"
            state.authorizes = config.get("authorizationEnabled") == "true"
            await _gather_users(admin, one, users)
            await _gather_rules(admin, one, rules)
        except OrbitError as error:
            state.error = " ".join(str(error).split())
        return state

    brokers = await admin.each(await admin.brokers(), ask)
    return AccessState(
        brokers, [users[key] for key in sorted(users)], [rules[key] for key in sorted(rules, key=str)]
    )


async def _gather_users(admin: Admin, one: BrokerAt, users: dict[tuple[str, ...], BrokerUser]) -> None:
    for user in await list_users(admin, one.address):
        key = (user.username or "", user.user_type or "", user.user_status or "")
        users.setdefault(key, BrokerUser(*key, [])).brokers.append(one.address)


async def _gather_rules(admin: Admin, one: BrokerAt, rules: dict[tuple[Any, ...], BrokerRule]) -> None:
    for acl in await list_rules(admin, one.address):
        for policy in acl.policies or ():
            for entry in policy.entries or ():
                key = (
                    (acl.subject or "").removeprefix("User:"),
                    policy.policy_type or "",
                    entry.resource or "",
                    tuple(sorted(entry.actions or ())),
                    tuple(entry.source_ips or ()),
                    entry.decision or "",
                )
                user, kind, resource, actions, sources, decision = key
                rule = BrokerRule(user, kind, resource, list(actions), list(sources), decision, [])
                rules.setdefault(key, rule).brokers.append(one.address)


@endpoint("GET", "/api/clusters/{cluster}/access/explain", Role.VIEWER, rows=("brokers",))
async def explain(call: Call[ExplainQuery, None]) -> AccessExplanations:
    """Explain if a user may do something, on every broker, and which rule decides."""
    query = call.query
    found = await explain_access(
        call.cluster.admin, query.user, query.resource, query.action, query.source.strip()
    )
    return AccessExplanations(
        [
            AccessExplanation(
                one.broker,
                one.address,
                one.allowed,
                one.cause,
                str(one.sentence),
                str(one.advice),
                one.rules,
            )
            for one in found
        ],
        [ExplanationWords(one.sentence, one.advice) for one in found],
    )


@endpoint("POST", "/api/clusters/{cluster}/access/users", Role.ADMIN)
async def make_user(call: Call[None, NewUser]) -> ChangedBrokers:
    """Create a user on all brokers."""
    body = call.body
    call.after = {"user": body.name, "type": body.type}
    return await _on_all(
        call, lambda admin, address: create_user(admin, address, body.name, body.password, body.type)
    )


@endpoint("PATCH", "/api/clusters/{cluster}/access/users/{user}", Role.ADMIN)
async def change_user(call: Call[None, UserChange]) -> ChangedBrokers:
    """Change password, type or status of a user on all brokers."""
    name, body = call.path["user"], call.body
    if body.password is None and body.type is None and body.enabled is None:
        raise Invalid("nothing to change", "Give a password, a type or a status.")
    call.before = await _user_states(call, name)
    status = None if body.enabled is None else "enable" if body.enabled else "disable"
    # The password itself stands nowhere.
    call.after = {"type": body.type, "status": status, "newPassword": body.password is not None}
    return await _on_all(
        call, lambda admin, address: update_user(admin, address, name, body.password, body.type, status)
    )


@endpoint("DELETE", "/api/clusters/{cluster}/access/users/{user}", Role.ADMIN)
async def remove_user(call: Call[None, Confirmation]) -> ChangedBrokers:
    """Delete a user and its rules on all brokers."""
    name = call.path["user"]
    check_confirmed(call.body.confirm, name, "user", "delete")
    call.before = await _user_states(call, name)
    return await _on_all(call, lambda admin, address: delete_user(admin, address, name))


@endpoint("POST", "/api/clusters/{cluster}/access/rules", Role.ADMIN)
async def put_rule(call: Call[None, NewRule]) -> ChangedBrokers:
    """Allow or deny a user something, on all brokers."""
    body = call.body
    call.after = msgspec.to_builtins(body)
    return await _on_all(
        call,
        lambda admin, address: put_rules(
            admin,
            address,
            body.user,
            [body.resource],
            list(body.actions),
            body.decision,
            body.source_ips,
            body.policy,
        ),
    )


@endpoint("DELETE", "/api/clusters/{cluster}/access/rules", Role.ADMIN)
async def remove_rule(call: Call[None, RuleName]) -> ChangedBrokers:
    """Delete the rule of a user about a resource, on all brokers."""
    body = call.body
    call.before = msgspec.to_builtins(body)
    return await _on_all(
        call, lambda admin, address: delete_rules(admin, address, body.user, body.resource, body.policy)
    )


async def _user_states(call: Call[Any, Any], name: str) -> dict[str, Any]:
    """The user as brokers have it, by address, without secrets."""
    admin = call.cluster.admin
    states = {}
    for one in await admin.brokers():
        for user in await list_users(admin, one.address, name):
            if user.username == name:
                states[one.address] = {"type": user.user_type, "status": user.user_status}
    if not states:
        raise ApiError(404, "NO_USER", f"no broker has a user {subject_of(name)}", "Check the name.")
    return states


async def _on_all(call: Call[Any, Any], change: Callable[[Admin, str], Awaitable[None]]) -> ChangedBrokers:
    """Makes a change on every broker. If one refuses, the problem names those that made it."""
    admin = call.cluster.admin
    failures: dict[str, OrbitError] = {}

    async def act(one: BrokerAt) -> str | None:
        try:
            await change(admin, one.address)
        except OrbitError as error:
            failures[one.address] = error
            return None
        return one.address

    done = [address for address in await admin.each(await admin.brokers(), act) if address is not None]
    if failures and not done:
        raise next(iter(failures.values()))
    if failures:
        reasons = "; ".join(f"{address}: {error}" for address, error in failures.items())
        first = problem_of(next(iter(failures.values())))
        raise ApiError(
            502,
            "PARTLY_DONE",
            f"done on {', '.join(done)}, but not on all brokers: {reasons}",
            first.advice if first else "Try again when all brokers answer.",
        )
    return ChangedBrokers(done)
