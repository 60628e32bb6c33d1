"""`orbitmq admin group progress`: what consumer groups still have before them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import click

from orbitmq.admin.admin import Admin, BrokerAt
from orbitmq.admin.command import command
from orbitmq.admin.commands.group_connections import group_connections
from orbitmq.admin.commands.group_list import groups_on, is_system
from orbitmq.admin.output import Column, Rows
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.bodies.stats import ConsumeStats, OffsetWrapper
from orbitmq.protocol.errors import ConsumerNotOnline, OrbitError
from orbitmq.protocol.requests.group import GetConsumeStats


@dataclass(slots=True)
class Progress:
    """The progress of a group, on all brokers together."""

    queues: dict[MessageQueue, OffsetWrapper] = field(default_factory=dict)
    tps: float = 0.0

    @property
    def lag(self) -> int:
        """Messages that the group has not finished."""
        return sum(one.broker_offset - one.consumer_offset for one in self.queues.values())

    @property
    def in_flight(self) -> int:
        """Messages that clients have pulled and not finished."""
        return sum(one.pull_offset - one.consumer_offset for one in self.queues.values())


async def group_progress(
    admin: Admin, group: str, topic: str | None = None, brokers: Sequence[BrokerAt] | None = None
) -> Progress:
    """The progress of a group on a topic, or on all it consumes; without queues if it has no offsets.

    `brokers` are the ones to ask; all masters where they are not given.
    """

    async def ask(one: BrokerAt) -> ConsumeStats:
        return (await admin.call(one.address, GetConsumeStats(group, topic))).body

    progress = Progress()
    for stats in await admin.each(brokers or await admin.masters(), ask):
        progress.queues.update(stats.offset_table)
        progress.tps += stats.consume_tps
    progress.queues = dict(sorted(progress.queues.items()))
    return progress


@command(
    "group",
    "progress",
    "orbitmq admin group progress\norbitmq admin group progress billing --topic orders --json",
)
@click.argument("group", required=False)
@click.option("-t", "--topic", metavar="NAME", help="Only this topic.")
async def show(admin: Admin, group: str | None, topic: str | None) -> Rows:
    """The backlog of GROUP by queue, or of all groups with one line each.

    In flight: messages that clients have pulled but not finished.
    """
    if group is None:
        return await _overview(admin, topic)
    progress = await group_progress(admin, group, topic)
    if not progress.queues:
        raise NoOffsets(
            f"group {group} has no offsets{f' on {topic}' if topic else ''}: it has consumed nothing yet"
        )
    return Rows(
        (
            Column("topic", "Topic"),
            Column("broker", "Broker"),
            Column("queueId", "Queue"),
            Column("brokerOffset", "Broker offset"),
            Column("consumerOffset", "Consumer offset"),
            Column("lag", "Lag"),
            Column("inFlight", "In flight"),
            Column("lastConsumed", "Last consumed", is_time=True),
        ),
        [
            (
                queue.topic,
                queue.broker_name,
                queue.queue_id,
                one.broker_offset,
                one.consumer_offset,
                one.broker_offset - one.consumer_offset,
                one.pull_offset - one.consumer_offset,
                one.last_timestamp,
            )
            for queue, one in progress.queues.items()
        ],
        f"lag {progress.lag}, in flight {progress.in_flight}, {progress.tps:.2f} messages/s",
    )


class NoOffsets(OrbitError):
    """The group has consumed nothing yet."""


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """One group on all brokers together."""

    group: str
    members: int
    lag: int
    in_flight: int
    tps: float
    """Messages that its members finish per second."""


async def group_summaries(admin: Admin, topic: str | None = None) -> list[GroupSummary]:
    """All groups but the brokers' own, by name, with members and backlog (on one topic, if given)."""
    brokers = await admin.masters()
    groups: set[str] = set()
    for found in await admin.each(brokers, lambda one: groups_on(admin, one.address)):
        groups.update(group for group in found if not is_system(group))

    async def ask(group: str) -> GroupSummary:
        progress = await group_progress(admin, group, topic, brokers)
        try:
            members = len((await group_connections(admin, group, brokers)).connection_set)
        except ConsumerNotOnline:
            members = 0
        return GroupSummary(group, members, progress.lag, progress.in_flight, progress.tps)

    return await admin.each(sorted(groups), ask)


async def _overview(admin: Admin, topic: str | None) -> Rows:
    return Rows(
        (
            Column("group", "Group"),
            Column("members", "Members"),
            Column("lag", "Lag"),
            Column("inFlight", "In flight"),
            Column("tps", "Messages/s"),
        ),
        [
            (one.group, one.members, one.lag, one.in_flight, one.tps)
            for one in await group_summaries(admin, topic)
        ],
    )
