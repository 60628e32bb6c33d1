"""Reasons for which a group cannot be switched now, and what is done already."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from shlex import join

from orbitmq.admin.acls import list_rules
from orbitmq.admin.admin import Admin
from orbitmq.admin.replication.survey import (
    MAKES,
    ORBITMQ,
    GroupSurvey,
    Offsets,
    Replica,
    behind,
    consumed,
    queue_ends,
    topics_of,
)
from orbitmq.admin.users import list_users
from orbitmq.net.address import parse_address
from orbitmq.options import Layer, OptionError, RefusedValue
from orbitmq.plurals import counted
from orbitmq.protocol.bodies.auth import AclInfo
from orbitmq.protocol.bodies.offset import DelayOffsetSerializeWrapper
from orbitmq.protocol.errors import Malformed, OrbitError
from orbitmq.protocol.names import SCHEDULE_TOPIC
from orbitmq.protocol.requests.offset import GetAllDelayOffset
from orbitmq.protocol.requests.route import GetBrokerClusterInfo

DONE, OPEN, WARNING, BLOCKED = "done", "open", "warning", "blocked"
SAME = ("brokerClusterName", "mappedFileSizeCommitLog", "messageDelayLevel", "timerWheelEnable")
"""Options that master and slave have alike."""
OF_EACH = frozenset(
    {
        "brokerId",
        "brokerRole",
        "listenPort",
        "namesrvAddr",
        "rocketmqHome",
        "brokerIP1",
        "brokerIP2",
        "bindAddress",
    }
)
"""Options that are a broker's own, and no matter of this comparison."""
MODES = {
    "enableControllerMode": "a controller elects its master: let a broker of OrbitMQ join that",
    "enableDLegerCommitLog": "its log is DLedger's, which is another format: send its messages anew",
    "enableSlaveActingMaster": "",
}
OF_ONE_MAKE = ("haAuthenticationEnable", "haTlsEnable")
"""Options that only OrbitMQ knows, and that keep Apache's brokers from the port for slaves."""
CONNECT_SECONDS = 3.0

Row = tuple[str, str, str]
"""Subject, state and detail."""


@dataclass(frozen=True, slots=True)
class Check:
    """One finding about a group. `state` is done, open (it comes, or a step brings it), warning, blocked."""

    group: str
    subject: str
    state: str
    detail: str


async def check_group(admin: Admin, found: GroupSurvey, to: str) -> list[Check]:
    """Everything that matters before the master of a group is switched to a make."""
    rows = [one async for one in _rows(admin, found, to)]
    return [Check(found.name, *row) for row in rows]


def target_of(found: GroupSurvey, to: str) -> Replica | None:
    """The slave of a make that lacks least."""
    return max(found.slaves(to), key=lambda one: one.log_end, default=None)


async def _rows(admin: Admin, found: GroupSurvey, to: str) -> AsyncIterator[Row]:
    master = found.master
    async for row in _name_servers(admin, found):
        yield row
    if master is None:
        yield "master", BLOCKED, "the group has no master: start it, or promote a slave"
        return
    if master.error:
        yield "master", BLOCKED, f"{master.at.address} {master.error}"
        return
    if master.make == to:
        yield "master", DONE, f"{master} ({master.version}) is master"
        return
    yield "master", OPEN, f"{master} ({master.version}) is master"
    for name, advice in MODES.items():
        if master.options.get(name) == "true":
            yield (
                "options",
                BLOCKED if advice else WARNING,
                f"{name} is set at the master: {advice or 'set it at all'}",
            )
    if to == ORBITMQ:
        for row in _refused_options(master):
            yield row
    target = target_of(found, to)
    if target is None:
        yield (
            "slave",
            OPEN,
            f"no slave of {MAKES[to]} follows yet: `orbitmq migrate plan` says how one is started",
        )
        return
    yield "slave", DONE, f"{target} ({target.version}) is a slave with id {target.at.broker_id}"
    for row in _alike(master, target):
        yield row
    yield await _port_for_slaves(master)
    try:
        for row in await _replica(admin, master, target):
            yield row
    except OrbitError as error:
        yield "replica", BLOCKED, f"it cannot be compared: {error}"


async def _name_servers(admin: Admin, found: GroupSurvey) -> AsyncIterator[Row]:
    known = {one.at.address for one in found.members}
    for address in admin.namesrv:
        try:
            info = (await admin.call(address, GetBrokerClusterInfo())).body
        except OrbitError as error:
            yield "name servers", BLOCKED, f"{address} does not answer: {error}"
            continue
        data = (info.broker_addr_table or {}).get(found.name)
        there = set((data.broker_addrs or {}).values()) if data else set()
        if there != known:
            lacking = ", ".join(sorted(known ^ there))
            yield "name servers", BLOCKED, f"{address} knows other members of the group: {lacking}"
        else:
            yield "name servers", DONE, f"{address} knows the group"


def _refused_options(master: Replica) -> Iterator[Row]:
    from orbitmq.broker.options import (
        BROKER_TABLE,
    )  # a broker's package, as `orbitmq admin broker set` needs it

    for name, value in master.options.items():
        if name in OF_EACH or name in MODES or name.startswith("storePath") or not BROKER_TABLE.has(name):
            continue
        try:
            BROKER_TABLE.load([Layer("the master", {name: value})])
        except RefusedValue as error:
            yield "options", BLOCKED, f"OrbitMQ refuses {name}={value}: {error}"
        except OptionError as error:
            yield "options", WARNING, f"OrbitMQ does not take over {name}={value}: {error}"


def _alike(master: Replica, target: Replica) -> Iterator[Row]:
    differs = False
    for name in SAME:
        mine, theirs = master.options.get(name), target.options.get(name)
        if mine is not None and theirs is not None and mine != theirs:
            differs = True
            yield (
                "options",
                BLOCKED,
                f"{name} is {mine} at the master, and {theirs} at the slave: set it alike",
            )
    for name in ("authenticationEnabled", "authorizationEnabled"):
        mine, theirs = (one.options.get(name, "false") for one in (master, target))
        if mine != theirs:
            differs = True
            yield (
                "access control",
                BLOCKED,
                f"{name} is {mine} at the master, and {theirs} at the slave: set it alike",
            )
    for member in (master, target):
        for name in OF_ONE_MAKE:
            if member.options.get(name) == "true":
                differs = True
                yield (
                    "ports",
                    BLOCKED,
                    f"{name} is set at {member}: Apache's brokers do not know it. Set it to false as long as "
                    "the group has brokers of both",
                )
    if not differs:
        yield "options", DONE, f"{', '.join(SAME)} and access control are alike"


async def _port_for_slaves(master: Replica) -> Row:
    """The master's HA port. A slave's own opens when it is promoted."""
    host, port = parse_address(master.at.address)
    at = int(master.options.get("haListenPort") or port + 1)
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            _, writer = await asyncio.open_connection(host, at)
        writer.close()
    except (OSError, TimeoutError) as error:
        return (
            "ports",
            WARNING,
            f"{host}:{at}, the master's port for slaves, is not open from here: {error or 'silent'}",
        )
    return "ports", DONE, f"{host}:{at}, the master's port for slaves, is open"


async def _replica(admin: Admin, master: Replica, target: Replica) -> list[Row]:
    rows = []
    gap = master.log_end - target.log_end
    if gap > 0:
        rows.append(("replica", OPEN, f"the slave lacks {counted(gap, 'byte')} of the log"))
    elif gap < 0:
        rows.append(("replica", DONE, "the slave has all of the log; the master has said less a moment ago"))
    else:
        rows.append(("replica", DONE, f"the slave has all of the log, {counted(master.log_end, 'byte')}"))
    topics, theirs = await topics_of(admin, master.at.address), await topics_of(admin, target.at.address)
    lacking = sorted(topics - theirs)
    if lacking:
        rows.append(
            ("topics", OPEN, f"the slave has not got {', '.join(lacking[:5])} yet ({len(lacking)} in all)")
        )
    else:
        rows.append(("topics", DONE, f"the slave has all of {counted(len(topics), 'topic')}"))
    offsets = await consumed(admin, master.at.address)
    late = behind(offsets, await consumed(admin, target.at.address))
    if late:
        rows.append(("offsets", OPEN, f"{', '.join(late[:5])} are not level yet ({len(late)} in all)"))
    else:
        rows.append(
            ("offsets", DONE, f"the slave has the offsets of {counted(len(offsets), 'subscription')}")
        )
    if master.options.get("authenticationEnabled") == "true":
        rows.append(await _users(admin, master, target))
    if target.log_begin > master.log_begin:
        rows += await _missing_history(admin, master, target, offsets)
    return rows


async def _users(admin: Admin, master: Replica, target: Replica) -> Row:
    """The users and rules that the slave has. Without them it would refuse the clients of its master."""
    at, there = master.at.address, target.at.address
    users, known = (
        await list_users(admin, at),
        {user.username: user for user in await list_users(admin, there)},
    )
    lacking = [
        user.username or ""
        for user in users
        if (found := known.get(user.username)) is None
        or (found.user_type, found.user_status) != (user.user_type, user.user_status)
        # Neither make has to show the secrets.
        or (found.password and user.password and found.password != user.password)
    ]
    rules, theirs = await list_rules(admin, at), {_policies(acl) for acl in await list_rules(admin, there)}
    without = [acl.subject or "" for acl in rules if _policies(acl) not in theirs]
    if not lacking and not without:
        return "users", DONE, f"the slave has all of {counted(len(users), 'user')}, and their rules"
    parts = [f"the users {', '.join(lacking[:5])}"] if lacking else []
    parts += [f"the rules of {', '.join(without[:5])}"] if without else []
    both = join((at, there))
    return (
        "users",
        BLOCKED,
        f"the slave lacks {' and '.join(parts)}, or has others. `orbitmq admin user copy {both}` and "
        f"`orbitmq admin acl copy {both}` bring them; a slave of OrbitMQ takes them over by itself if "
        "innerClientAuthenticationCredentials names a super user of the master",
    )


def _policies(acl: AclInfo) -> tuple[str | None, frozenset[tuple[object, ...]]]:
    """The rules of a user, in a form in which equal ones are equal."""
    return acl.subject, frozenset(
        (
            policy.policy_type,
            entry.resource,
            frozenset(action.upper() for action in entry.actions or ()),
            frozenset(entry.source_ips or ()),
            (entry.decision or "").upper(),
        )
        for policy in acl.policies or ()
        for entry in policy.entries or ()
    )


async def _missing_history(admin: Admin, master: Replica, target: Replica, offsets: Offsets) -> list[Row]:
    """Older messages that the slave has not got and somebody still needs."""
    table = dict(offsets)
    levels = await _delay_offsets(admin, master.at.address)
    if levels:
        table[f"{SCHEDULE_TOPIC}@the delay levels"] = levels
    topics = {key.partition("@")[0] for key in table}
    firsts = await queue_ends(admin, target.at.address, topics)
    ends = await queue_ends(admin, master.at.address, topics)
    unread = []
    for key, queues in table.items():
        topic = key.partition("@")[0]
        for queue, offset in queues.items():
            first = firsts.get(topic, {}).get(queue, (0, 0))[0]
            begin, end = ends.get(topic, {}).get(queue, (0, 0))
            # A queue that the slave knows nothing of begins behind all that the master has.
            first = first if queue in firsts.get(topic, {}) else end
            if begin < end and max(offset, begin) < first:
                unread.append(f"{key} queue {queue} ({first - max(offset, begin):,})")
    size = target.log_begin - master.log_begin
    text = f"the slave's log begins {size:,} bytes later than the master's"
    if unread:
        return [
            (
                "history",
                BLOCKED,
                f"{text}, and these have not been read: {', '.join(unread[:5])}. Start the slave on a copy "
                "of a store that has them",
            )
        ]
    return [
        ("history", WARNING, f"{text}: older messages, which all groups have read, stay with the old store")
    ]


async def _delay_offsets(admin: Admin, address: str) -> dict[int, int]:
    """Queue offsets of the delay levels, by the id of their queue."""
    try:
        body = (await admin.call(address, GetAllDelayOffset())).body
        found = DelayOffsetSerializeWrapper.from_json(bytes(body or b"{}"))
    except (OrbitError, Malformed):
        return {}
    return {level - 1: offset for level, offset in found.offset_table.items()}
