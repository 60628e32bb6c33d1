"""Consumer groups: list, backlog by queue, members, causes of a backlog, reset of offsets."""

from __future__ import annotations

import heapq
import time
from dataclasses import asdict, dataclass, fields
from typing import Annotated, Literal

import msgspec

from orbitmq.admin.diagnosis.evidence import Member, filters_of
from orbitmq.admin.diagnosis.failures import Failure, last_failures
from orbitmq.admin.diagnosis.gathering import gather, members_of
from orbitmq.admin.diagnosis.phrases import Phrase
from orbitmq.admin.diagnosis.rules import diagnose
from orbitmq.admin.group_clone import clone_group
from orbitmq.admin.groups import check_known, group_connections
from orbitmq.admin.progress import GroupSummary, QueueProgress, group_progress
from orbitmq.admin.reading.unread import oldest_unread
from orbitmq.admin.resets import ResetEffect, ResetPreview, moment_of, preview_reset, reset_offset
from orbitmq.console.api.endpoint import Call, endpoint
from orbitmq.console.api.problems import Invalid
from orbitmq.console.security.roles import Role
from orbitmq.protocol.bodies.heartbeat import ConsumerConnection
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.errors import ConsumerNotOnline
from orbitmq.protocol.names import check_group

Target = int | Literal["earliest", "latest"]
"""A store time in ms since 1970, or an end of the queues."""


@dataclass(frozen=True, slots=True)
class Group(GroupSummary):
    """One line of the list."""

    dead_letters: int


class Groups(msgspec.Struct, rename="camel"):
    """All groups but the brokers' own, of the last look at the cluster."""

    at_ms: int
    groups: list[Group]
    errors: list[str]


@dataclass(frozen=True, slots=True)
class GroupQueue(QueueProgress):
    """One queue that a group reads, and the member that reads it."""

    owner: str | None
    """The member that reads it, if members report it."""
    oldest_ms: int | None
    """Store time of the next message; null without a backlog, and beyond the 64 queues with the largest."""
    handler_ms: float | None
    """Mean time that its member takes for a message of the topic, over the last minute."""
    last_error: Failure | None
    """The newest failure on its topic."""


class MembersFilter(msgspec.Struct, rename="camel"):
    """A filter by which some members read a topic, while others read it by another one."""

    topic: str
    filter: str
    members: list[str]


class GroupDetail(msgspec.Struct, rename="camel"):
    """Backlog and members of one group."""

    group: str
    at_ms: int
    lag: int
    in_flight: int
    tps: float
    queues: list[GroupQueue]
    """Those with the largest lag, if there are more than asked for."""
    queue_count: int
    members: list[Member]
    filters: list[MembersFilter]
    """The filters by which members read a topic, where these differ; empty while all agree."""


class GroupQuery(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """Parts of a group."""

    max: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 500
    """Queues at most."""


class Cause(msgspec.Struct, rename="camel"):
    """One cause of a backlog."""

    cause: str
    sentence: str
    evidence: list[str]
    advice: str


class CauseWords(msgspec.Struct, rename="camel"):
    """The texts of a cause, each with its values apart, for translations."""

    sentence: Phrase
    evidence: list[Phrase]
    advice: Phrase


class Causes(msgspec.Struct, rename="camel"):
    """The likeliest cause first."""

    group: str
    lag: int
    causes: list[Cause]
    words: list[CauseWords]
    """The same in the same order."""


class ResetQuery(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """A reset to look at."""

    topic: str
    to: str
    """`earliest`, `latest` or ms since 1970."""


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
    groups = [Group(**asdict(one), dead_letters=dead.get(one.group, 0)) for one in sample.groups]
    return Groups(sample.at_ms, groups, sample.errors)


@endpoint("GET", "/api/clusters/{cluster}/groups/{group}", Role.VIEWER, rows=("queues", "members"))
async def get_group(call: Call[GroupQuery, None]) -> GroupDetail:
    """Backlog by queue, and the members, of one group."""
    admin, group = call.cluster.reader, call.path["group"]
    brokers = await admin.masters()
    progress = await group_progress(admin, group, None, brokers)
    try:
        online = await group_connections(admin, group, brokers)
    except ConsumerNotOnline:
        online = ConsumerConnection()
        progress.without_members()
    members = await members_of(admin, group, brokers, online)
    if not progress.queues and not members:
        await check_known(admin, group)
    owners = {queue: one for one in members for queue in one.held}
    queues = progress.by_queue()
    if len(queues) > call.query.max:
        queues = heapq.nlargest(call.query.max, queues, key=lambda one: one.lag)
    oldest = await oldest_unread(admin, progress.queues)
    failures = await last_failures(admin, group)
    return GroupDetail(
        group,
        time.time_ns() // 1_000_000,
        progress.lag,
        progress.in_flight,
        progress.tps,
        [
            _queue(one, owners.get(one.queue), oldest.get(one.queue), failures.get(one.queue.topic))
            for one in queues
        ],
        len(progress.queues),
        members,
        [
            MembersFilter(one.topic, one.text, one.client_ids)
            for one in online.filters_of_members or filters_of(members)
        ],
    )


@endpoint("GET", "/api/clusters/{cluster}/groups/{group}/why", Role.VIEWER, rows=("causes",))
async def get_causes(call: Call[None, None]) -> Causes:
    """The causes of a group's backlog, with evidence, the likeliest first. Takes two seconds."""
    evidence = await gather(call.cluster.admin, call.path["group"])
    found = diagnose(evidence)
    return Causes(
        evidence.group,
        evidence.lag,
        [Cause(one.cause, str(one.sentence), list(map(str, one.evidence)), str(one.advice)) for one in found],
        [CauseWords(one.sentence, list(one.evidence), one.advice) for one in found],
    )


@endpoint("GET", "/api/clusters/{cluster}/groups/{group}/reset-preview", Role.VIEWER)
async def get_reset_preview(call: Call[ResetQuery, None]) -> ResetEffect:
    """The effect that a reset would have, by queue; nothing is changed."""
    text = call.query.to
    if text not in ("earliest", "latest") and not text.isdigit():
        raise Invalid("`to` is earliest, latest or ms since 1970", "Give one of these.", field="to")
    to: Target = int(text) if text.isdigit() else text  # type: ignore[assignment]
    return ResetEffect(
        await preview_reset(call.cluster.admin, call.path["group"], call.query.topic, moment_of(to))
    )


@endpoint("POST", "/api/clusters/{cluster}/groups/{group}/reset", Role.OPERATOR)
async def reset_group(call: Call[None, Reset]) -> ResetEffect:
    """Set where a group continues in a topic; `latest` skips what waits."""
    admin, group, body = call.cluster.admin, call.path["group"], call.body
    before = {
        queue: one.consumer_offset
        for queue, one in (await group_progress(admin, group, body.topic)).queues.items()
    }
    call.before = {_name(queue): offset for queue, offset in before.items()}
    table = await reset_offset(admin, group, body.topic, moment_of(body.to))
    call.after = {_name(queue): offset for queue, offset in table.items()}
    return ResetEffect([ResetPreview(queue, before.get(queue, new), new) for queue, new in table.items()])


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
    progress: QueueProgress, owner: Member | None, oldest: int | None, failure: Failure | None
) -> GroupQueue:
    known = {one.name: getattr(progress, one.name) for one in fields(progress)}
    owner_id, handler_ms = (
        (owner.client_id, _handler_ms(owner, progress.queue.topic)) if owner else (None, None)
    )
    return GroupQueue(**known, owner=owner_id, oldest_ms=oldest, handler_ms=handler_ms, last_error=failure)


def _handler_ms(member: Member, topic: str) -> float | None:
    handling = member.handling.get(topic)
    if handling is None or not (handling.ok_tps or handling.failed_tps):
        return None
    return handling.handler_ms


def _name(queue: MessageQueue) -> str:
    return f"{queue.broker_name}/{queue.queue_id}"
