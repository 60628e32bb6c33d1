"""The progress of consumer groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from orbitmq.admin.admin import Admin, BrokerAt
from orbitmq.admin.groups import group_connections, groups_on, is_system
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.bodies.stats import ConsumeStats, OffsetWrapper
from orbitmq.protocol.errors import ConsumerNotOnline, OrbitError
from orbitmq.protocol.requests.group import GetConsumeStats


@dataclass(frozen=True, slots=True)
class QueueProgress:
    """One queue that a group reads."""

    queue: MessageQueue
    broker_offset: int
    consumer_offset: int
    lag: int
    """Messages that the group has not finished."""
    in_flight: int
    """Messages that clients have pulled and not finished."""
    last_ms: int
    """Store time of the message consumed last."""


@dataclass(slots=True)
class GroupProgress:
    """The progress of a group, on all brokers together."""

    queues: dict[MessageQueue, OffsetWrapper] = field(default_factory=dict)
    tps: float = 0.0

    @property
    def lag(self) -> int:
        return sum(one.broker_offset - one.consumer_offset for one in self.queues.values())

    @property
    def in_flight(self) -> int:
        """Messages that clients have pulled and not finished."""
        return sum(one.pull_offset - one.consumer_offset for one in self.queues.values())

    def by_queue(self) -> list[QueueProgress]:
        return [
            QueueProgress(
                queue,
                one.broker_offset,
                one.consumer_offset,
                one.broker_offset - one.consumer_offset,
                one.pull_offset - one.consumer_offset,
                one.last_timestamp,
            )
            for queue, one in self.queues.items()
        ]

    def without_members(self) -> None:
        """Makes nothing in flight: what brokers say of a group that has no member is about those it had."""
        for one in self.queues.values():
            one.pull_offset = one.consumer_offset
        self.tps = 0.0


async def group_progress(
    admin: Admin, group: str, topic: str | None = None, brokers: Sequence[BrokerAt] | None = None
) -> GroupProgress:
    """The progress of a group on a topic, or on all that it consumes: `lag`, `in_flight`, `queues`.

    Without queues if it has no offsets yet. `brokers` are the ones to ask; without them all masters are.
    """

    async def ask(one: BrokerAt) -> ConsumeStats:
        return (await admin.call(one.address, GetConsumeStats(group, topic))).body

    progress = GroupProgress()
    for stats in await admin.each(brokers or await admin.masters(), ask):
        for one in stats.offset_table.values():  # -1 where it has none, of static topics alone
            one.consumer_offset, one.pull_offset = max(0, one.consumer_offset), max(0, one.pull_offset)
        progress.queues.update(stats.offset_table)
        progress.tps += stats.consume_tps
    progress.queues = dict(sorted(progress.queues.items()))
    return progress


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
        progress, members = await live_progress(admin, group, topic, brokers)
        return GroupSummary(group, members, progress.lag, progress.in_flight, progress.tps)

    return await admin.each(sorted(groups), ask)


async def live_progress(
    admin: Admin, group: str, topic: str | None, brokers: Sequence[BrokerAt]
) -> tuple[GroupProgress, int]:
    """The progress of a group and the number of its members; nothing is in flight without any."""
    progress = await group_progress(admin, group, topic, brokers)
    members = await member_count(admin, group, brokers)
    if not members:
        progress.without_members()
    return progress, members


async def member_count(admin: Admin, group: str, brokers: Sequence[BrokerAt]) -> int:
    """The number of members that are connected now."""
    try:
        return len((await group_connections(admin, group, brokers)).connection_set)
    except ConsumerNotOnline:
        return 0
