"""Consumer groups: list, backlog by queue, members, causes of a backlog, reset of offsets."""

from __future__ import annotations

import time
from typing import Literal

import msgspec

from orbitmq.admin.commands.group_clone import clone_group
from orbitmq.admin.commands.group_connections import group_connections
from orbitmq.admin.commands.group_progress import group_progress
from orbitmq.admin.commands.reset_offset import (
    EARLIEST,
    LATEST,
    ResetPreview,
    preview_reset,
    reset_offset,
)
from orbitmq.admin.diagnosis.evidence import Member
from orbitmq.admin.diagnosis.failures import Failure, last_failures
from orbitmq.admin.diagnosis.gathering import gather, members_of
from orbitmq.admin.diagnosis.rules import diagnose
from orbitmq.admin.reading.unread import oldest_unread
from orbitmq.console.api.endpoint import Call, endpoint
from orbitmq.console.api.problems import ApiError
from orbitmq.console.security.roles import Role
from orbitmq.protocol.bodies.heartbeat import Connection
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.bodies.stats import OffsetWrapper
from orbitmq.protocol.errors import ConsumerNotOnline
from orbitmq.protocol.names import check_group
from orbitmq.protocol.remoting.versions import version_name

Target = int | Literal["earliest", "latest"]
"""A store time in ms since 1970, or an end of the queues."""


class Group(msgspec.Struct, rename="camel"):
    """One line of the list."""

    group: str
    members: int
    lag: int
    in_flight: int
    tps: float
    dead_letters: int


class Groups(msgspec.Struct, rename="camel"):
    """All groups but the brokers' own, of the last look at the cluster."""

    at_ms: int
    groups: list[Group]
    errors: list[str]


class LastError(msgspec.Struct, rename="camel"):
    """The newest failure of a topic's handlers, from dead letters and messages that come again."""

    at_ms: int
    exception: str
    """The class; empty where the client gives none."""
    text: str
    attempts: int
    dead_letter: bool
    """False: the message comes again."""


class GroupQueue(msgspec.Struct, rename="camel"):
    """One queue that a group reads."""

    topic: str
    broker: str
    queue_id: int
    broker_offset: int
    consumer_offset: int
    lag: int
    in_flight: int
    last_ms: int
    """Store time of the message consumed last."""
    owner: str | None
    """The member that reads it, if members report it."""
    oldest_ms: int | None
    """Store time of the next message; null without a backlog, and beyond the 64 queues with the largest."""
    handler_ms: float | None
    """Mean time that its member takes for a message of the topic, over the last minute."""
    last_error: LastError | None
    """The newest failure on its topic."""


class MemberState(msgspec.Struct, rename="camel"):
    """One client of a group; without `answered` it reported nothing."""

    client_id: str
    address: str
    language: str
    version: str
    answered: bool
    ordered: bool
    threads: int
    subscriptions: dict[str, str]
    queues: int
    cached: int
    handler_ms: float
    ok_tps: float
    failed_tps: float


class GroupDetail(msgspec.Struct, rename="camel"):
    """Backlog and members of one group."""

    group: str
    at_ms: int
    lag: int
    in_flight: int
    tps: float
    queues: list[GroupQueue]
    members: list[MemberState]
    subscriptions_differ: bool


class Cause(msgspec.Struct, rename="camel"):
    """One cause of a backlog."""

    cause: str
    sentence: str
    evidence: list[str]
    advice: str


class Causes(msgspec.Struct, rename="camel"):
    """The likeliest cause first."""

    group: str
    lag: int
    causes: list[Cause]


class ResetQuery(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """A reset to look at."""

    topic: str
    to: str
    """`earliest`, `latest` or ms since 1970."""


class QueueReset(msgspec.Struct, rename="camel"):
    """The effect on one queue."""

    broker: str
    queue_id: int
    consumer_offset: int
    new_offset: int
    again: int
    """Messages delivered once more."""
    skipped: int


class ResetEffect(msgspec.Struct, rename="camel"):
    """The effect of a reset, by queue."""

    queues: list[QueueReset]
    again: int
    skipped: int


class Reset(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """A reset to do."""

    topic: str
    to: Target


class Clone(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """The name of the new group."""

    name: str


class Cloned(msgspec.Struct, rename="camel"):
    """The new group, and the topics on which it has offsets."""

    group: str
    topics: list[str]


@endpoint("GET", "/api/clusters/{cluster}/groups", Role.VIEWER, rows=("groups",))
async def list_groups(call: Call[None, None]) -> Groups:
    """All groups with members, backlog and dead letters, of the last look at the cluster."""
    sample = await call.cluster.sampler.first()
    dead = {one.group: one.count for one in sample.dead_letters}
    groups = [
        Group(one.group, one.members, one.lag, one.in_flight, one.tps, dead.get(one.group, 0))
        for one in sample.groups
    ]
    return Groups(sample.at_ms, groups, sample.errors)


@endpoint("GET", "/api/clusters/{cluster}/groups/{group}", Role.VIEWER, rows=("queues", "members"))
async def get_group(call: Call[None, None]) -> GroupDetail:
    """Backlog by queue, and the members, of one group."""
    admin, group = call.cluster.reader, call.path["group"]
    brokers = await admin.masters()
    progress = await group_progress(admin, group, None, brokers)
    try:
        connections = {
            one.client_id: one for one in (await group_connections(admin, group, brokers)).connection_set
        }
    except ConsumerNotOnline:
        connections = {}
    members = await members_of(admin, group, brokers, sorted(connections))
    if not progress.queues and not members and group not in await admin.groups():
        raise ApiError(404, "GROUP_NOT_EXIST", f"no group {group} is known", "Check the name.")
    owners = {queue: one for one in members for queue in one.held}
    oldest = await oldest_unread(admin, progress.queues)
    failures = await last_failures(admin, group)
    kinds = {tuple(sorted(one.subscriptions.items())) for one in members if one.answered}
    return GroupDetail(
        group,
        time.time_ns() // 1_000_000,
        progress.lag,
        progress.in_flight,
        progress.tps,
        [
            _queue(queue, one, owners.get(queue), oldest.get(queue), failures.get(queue.topic))
            for queue, one in progress.queues.items()
        ],
        [_member(one, connections[one.client_id]) for one in members],
        len(kinds) > 1,
    )


@endpoint("GET", "/api/clusters/{cluster}/groups/{group}/why", Role.VIEWER, rows=("causes",))
async def get_causes(call: Call[None, None]) -> Causes:
    """The causes of a group's backlog, with evidence, the likeliest first. Takes two seconds."""
    evidence = await gather(call.cluster.admin, call.path["group"])
    causes = [Cause(one.cause, one.sentence, list(one.evidence), one.advice) for one in diagnose(evidence)]
    return Causes(evidence.group, evidence.lag, causes)


@endpoint("GET", "/api/clusters/{cluster}/groups/{group}/reset-preview", Role.VIEWER)
async def get_reset_preview(call: Call[ResetQuery, None]) -> ResetEffect:
    """The effect that a reset would have, by queue; nothing is changed."""
    text = call.query.to
    if text not in ("earliest", "latest") and not text.isdigit():
        raise ApiError(422, "INVALID", "`to` is earliest, latest or ms since 1970", field="to")
    to: Target = int(text) if text.isdigit() else text  # type: ignore[assignment]
    rows = await preview_reset(call.cluster.admin, call.path["group"], call.query.topic, _moment(to))
    return _effect(rows)


@endpoint("POST", "/api/clusters/{cluster}/groups/{group}/reset", Role.OPERATOR)
async def reset_group(call: Call[None, Reset]) -> ResetEffect:
    """Set where a group goes on in a topic; `latest` skips what waits."""
    admin, group, body = call.cluster.admin, call.path["group"], call.body
    before = {
        queue: one.consumer_offset
        for queue, one in (await group_progress(admin, group, body.topic)).queues.items()
    }
    call.before = {_name(queue): offset for queue, offset in before.items()}
    table = await reset_offset(admin, group, body.topic, _moment(body.to))
    call.after = {_name(queue): offset for queue, offset in table.items()}
    return _effect([ResetPreview(queue, before.get(queue, new), new) for queue, new in table.items()])


@endpoint("POST", "/api/clusters/{cluster}/groups/{group}/clone", Role.ADMIN)
async def copy_group(call: Call[None, Clone]) -> Cloned:
    """Make a new group with the settings and offsets of this one."""
    name = call.body.name.strip()
    call.after = {"group": name}
    check_group(name)
    topics = await clone_group(call.cluster.admin, call.path["group"], name)
    call.after["topics"] = topics
    return Cloned(name, topics)


def _queue(
    queue: MessageQueue,
    progress: OffsetWrapper,
    owner: Member | None,
    oldest: int | None,
    failure: Failure | None,
) -> GroupQueue:
    return GroupQueue(
        queue.topic,
        queue.broker_name,
        queue.queue_id,
        progress.broker_offset,
        progress.consumer_offset,
        progress.broker_offset - progress.consumer_offset,
        progress.pull_offset - progress.consumer_offset,
        progress.last_timestamp,
        None if owner is None else owner.client_id,
        oldest,
        _handler_ms(owner, queue.topic),
        _last_error(failure),
    )


def _handler_ms(member: Member | None, topic: str) -> float | None:
    handling = None if member is None else member.handling.get(topic)
    if handling is None or not (handling.ok_tps or handling.failed_tps):
        return None
    return handling.handler_ms


def _last_error(found: Failure | None) -> LastError | None:
    if found is None:
        return None
    return LastError(found.at_ms, found.exception, found.text, found.attempts, found.is_dead_letter)


def _moment(to: Target) -> int:
    if isinstance(to, str):
        return {"earliest": EARLIEST, "latest": LATEST}[to]
    return to


def _effect(rows: list[ResetPreview]) -> ResetEffect:
    return ResetEffect(
        [
            QueueReset(
                one.queue.broker_name,
                one.queue.queue_id,
                one.consumer_offset,
                one.new_offset,
                one.again,
                one.skipped,
            )
            for one in rows
        ],
        sum(one.again for one in rows),
        sum(one.skipped for one in rows),
    )


def _name(queue: MessageQueue) -> str:
    return f"{queue.broker_name}/{queue.queue_id}"


def _member(one: Member, connection: Connection) -> MemberState:
    handled = [figures for figures in one.handling.values() if figures.ok_tps or figures.failed_tps]
    return MemberState(
        one.client_id,
        connection.client_addr,
        getattr(connection.language, "name", "-"),
        version_name(connection.version),
        one.answered,
        one.ordered,
        one.threads,
        one.subscriptions,
        len(one.held),
        sum(held.cached for held in one.held.values()),
        max((figures.handler_ms for figures in handled), default=0.0),
        sum(figures.ok_tps for figures in handled),
        sum(figures.failed_tps for figures in handled),
    )
