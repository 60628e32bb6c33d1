"""Evidence about a group, from brokers and from the group's members."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace

from orbitmq.admin.admin import Admin, BrokerAt
from orbitmq.admin.clusters import BLIND_SINCE, cluster_figures, whole
from orbitmq.admin.diagnosis.evidence import Evidence, Handling, HeldQueue, LoopBlocks, Member, QueueEvidence
from orbitmq.admin.groups import group_connections, groups_on, subscriptions_of
from orbitmq.admin.progress import GroupProgress, group_progress
from orbitmq.admin.topics import topic_status
from orbitmq.net.errors import NetError
from orbitmq.net.near_names import near_names
from orbitmq.protocol.bodies.heartbeat import ConsumerConnection, MessageModel
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.bodies.running import (
    LOOP_BLOCKED_AT,
    LOOP_BLOCKED_LAST_MS,
    LOOP_BLOCKED_LONGEST_MS,
    LOOP_BLOCKED_TIMES,
    ConsumerRunningInfo,
)
from orbitmq.protocol.bodies.stats import TopicOffset
from orbitmq.protocol.errors import ConsumerNotOnline, NoPermission, OrbitError
from orbitmq.protocol.names import DLQ_PREFIX, RETRY_PREFIX
from orbitmq.protocol.records.properties import whole_number
from orbitmq.protocol.remoting.versions import version_name
from orbitmq.protocol.requests.client import GetConsumerRunningInfo

BETWEEN_SECONDS = 1.5
"""Between the two looks that show whether anything moves."""
READ = 4
MOST_CHARACTERS = 500
"""Length at which a text of a member is cut."""


async def gather(admin: Admin, group: str, between_seconds: float = BETWEEN_SECONDS) -> Evidence:
    """Everything about a group. Brokers that do not answer are part of it. Raises NoBroker, NetError."""
    figures = [(at, found) for at, found in await cluster_figures(admin) if at.is_master]
    errors = {at.name: found for at, found in figures if isinstance(found, OrbitError)}
    gone = {name: str(error) for name, error in errors.items() if isinstance(error, NetError)}
    forbidden = {name: str(error) for name, error in errors.items() if isinstance(error, NoPermission)}
    refusing = {name: str(errors[name]) for name in errors.keys() - gone.keys() - forbidden.keys()}
    there = [at for at, _ in figures if at.name not in errors]
    since = {at.name: whole(found, BLIND_SINCE) for at, found in figures}
    if not there:
        nothing = Evidence(group, _now_ms(), 1.0, brokers_gone=gone)
        return replace(nothing, brokers_refusing=refusing, forbidden=forbidden)
    try:
        first, began = await group_progress(admin, group, None, there), time.monotonic()
        dead_before = await _count(admin, DLQ_PREFIX + group)
        members, connections = await _members(admin, group, there)
        await asyncio.sleep(max(0.0, between_seconds - (time.monotonic() - began)))
        second = await group_progress(admin, group, None, there)
    except NoPermission as error:
        names = {at.address: at.name for at in there}
        name = names.get(error.address or "", ", ".join(names.values()))
        return Evidence(group, _now_ms(), 1.0, forbidden={**forbidden, name: str(error)})
    seconds = time.monotonic() - began
    groups = await admin.each(there, lambda one: groups_on(admin, one.address))
    known = [found[group] for found in groups if group in found]
    fresh = _without_offset(second, members)
    topics = {queue.topic for queue in (*second.queues, *fresh)}
    offsets, unreadable = await _topics(admin, topics)
    dead = await _count(admin, DLQ_PREFIX + group)
    differing = None if connections is None else connections.filters_of_members
    return Evidence(
        group,
        _now_ms(),
        seconds,
        [*_queues(first, second, offsets), *_waiting(fresh, offsets)],
        members,
        known=bool(known),
        near=() if known else tuple(near_names(group, {name for found in groups for name in found})),
        enabled=all(one.consume_enable for one in known),
        broadcasting=connections is not None and connections.message_model is MessageModel.BROADCASTING,
        brokers_gone=gone,
        brokers_blind={name: ms for name, ms in since.items() if ms is not None},
        brokers_refusing=refusing,
        forbidden=forbidden,
        unreadable=frozenset(unreadable),
        retry_lag=sum(
            one.broker_offset - one.consumer_offset
            for queue, one in second.queues.items()
            if queue.topic == RETRY_PREFIX + group
        ),
        dead_letters=dead,
        new_dead_letters=max(0, dead - dead_before),
        filters=differing or [],
    )


def _queues(
    first: GroupProgress, second: GroupProgress, offsets: dict[MessageQueue, TopicOffset]
) -> list[QueueEvidence]:
    found = []
    for queue, now in second.queues.items():
        before = first.queues.get(queue, now)
        found.append(
            QueueEvidence(
                queue,
                max(0, now.broker_offset - now.consumer_offset),
                max(0, now.consumer_offset - before.consumer_offset),
                max(0, now.broker_offset - before.broker_offset),
                now.consumer_offset,
                offsets[queue].min_offset if queue in offsets else None,
                now.last_timestamp,
            )
        )
    return found


def _without_offset(progress: GroupProgress, members: list[Member]) -> dict[MessageQueue, HeldQueue]:
    """Queues of which brokers know no offset yet, where a member shows that it wants to read them: it holds
    messages, or waits for the lock. Others may begin at the end, and have no backlog.
    """
    return {
        queue: held
        for member in members
        for queue, held in member.held.items()
        if queue not in progress.queues and (held.cached or not held.locked)
    }


def _waiting(
    fresh: dict[MessageQueue, HeldQueue], offsets: dict[MessageQueue, TopicOffset]
) -> list[QueueEvidence]:
    found = []
    for queue, held in fresh.items():
        if (ends := offsets.get(queue)) is not None:
            begin = max(ends.min_offset, held.first_cached if held.cached else 0)
            lag = max(0, ends.max_offset - begin)
            found.append(QueueEvidence(queue, lag, consumer_offset=begin, min_offset=ends.min_offset))
    return found


async def _members(
    admin: Admin, group: str, brokers: list[BrokerAt]
) -> tuple[list[Member], ConsumerConnection | None]:
    if not brokers:
        return [], None
    try:
        connections = await group_connections(admin, group, brokers)
    except ConsumerNotOnline:
        return [], None
    return await members_of(admin, group, brokers, connections), connections


async def members_of(
    admin: Admin,
    group: str,
    brokers: list[BrokerAt],
    connections: ConsumerConnection,
) -> list[Member]:
    """The members of a group by their own reports; of those that report nothing, what brokers know."""
    known = subscriptions_of(connections)
    clients = {one.client_id: one for one in connections.connection_set}

    async def ask(name: str) -> Member:
        member = await _member(admin, group, name, brokers, known[name])
        client = clients.get(name)
        if client is None:
            return member
        language = getattr(client.language, "name", "-")
        version = version_name(client.version)
        return replace(member, address=client.client_addr, language=language, version=version)

    return await admin.each(sorted(known), ask)


async def _member(
    admin: Admin, group: str, client_id: str, brokers: list[BrokerAt], known: dict[str, str]
) -> Member:
    """One member's own account; brokers pass the question on to it."""
    for one in brokers:
        try:
            reply = await admin.call(one.address, GetConsumerRunningInfo(group, client_id))
        except OrbitError:
            continue
        return member_of(client_id, reply.body)
    return Member(client_id, answered=False, subscriptions=known)


def member_of(client_id: str, info: ConsumerRunningInfo) -> Member:
    """A member by its own report."""
    return Member(
        client_id,
        ordered=info.properties.get("PROP_CONSUMEORDERLY") == "true",
        threads=whole_number(info.properties.get("PROP_THREADPOOL_CORE_SIZE")) or 0,
        subscriptions={one.topic: one.sub_string for one in info.subscription_set},
        held={
            queue: HeldQueue(
                one.cached_msg_count,
                one.cached_msg_size_in_mib,
                one.cached_msg_min_offset,
                one.locked or info.properties.get("PROP_CONSUMEORDERLY") != "true",
                one.last_pull_timestamp,
                one.last_consume_timestamp,
            )
            for queue, one in info.mq_table.items()
            if not one.droped
        },
        handling={
            topic: Handling(one.consume_rt, one.consume_ok_tps, one.consume_failed_tps, one.pull_tps)
            for topic, one in info.status_table.items()
        },
        blocks=_blocks(info.properties),
    )


def _blocks(properties: Mapping[str, str]) -> LoopBlocks | None:
    """Blocks of the event loop that a member of OrbitMQ's reports; None for what is no such report."""
    names = (LOOP_BLOCKED_TIMES, LOOP_BLOCKED_LONGEST_MS, LOOP_BLOCKED_LAST_MS)
    numbers = [text for name in names if (text := properties.get(name, "")).isdecimal() and len(text) < 20]
    if len(numbers) < len(names):
        return None
    times, longest_ms, last_ms = map(int, numbers)
    return LoopBlocks(times, longest_ms, last_ms, properties.get(LOOP_BLOCKED_AT, "")[:MOST_CHARACTERS])


async def _topics(admin: Admin, topics: set[str]) -> tuple[dict[MessageQueue, TopicOffset], set[str]]:
    """Offsets of all queues, and the topics that may not be read somewhere."""
    offsets: dict[MessageQueue, TopicOffset] = {}
    unreadable = set()
    for topic in sorted(topics):
        try:
            offsets.update(await topic_status(admin, topic))
            route = await admin.route(topic)
        except OrbitError:
            continue
        if any(not one.perm & READ for one in route.queue_datas):
            unreadable.add(topic)
    return offsets, unreadable


async def _count(admin: Admin, topic: str) -> int:
    try:
        return sum(one.max_offset - one.min_offset for one in (await topic_status(admin, topic)).values())
    except OrbitError:
        return 0


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
