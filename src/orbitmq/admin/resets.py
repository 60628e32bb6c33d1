"""Offsets of a group, moved to a time."""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.admin.admin import Admin, BrokerAt
from orbitmq.admin.groups import check_known, group_connections
from orbitmq.admin.progress import group_progress
from orbitmq.admin.topics import offset_at_time, offsets_of, queue_counts, topic_status
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.bodies.stats import TopicOffset
from orbitmq.protocol.errors import ConsumerNotOnline, OrbitError
from orbitmq.protocol.requests.admin import GetBrokerRuntimeInfo
from orbitmq.protocol.requests.offset import (
    InvokeBrokerToResetOffset,
    UpdateConsumerOffset,
)

LATEST = -1
EARLIEST = 0
ENDS = {"earliest": EARLIEST, "latest": LATEST}


def moment_of(to: int | str) -> int:
    """The store time that stands for an end of the queues, `earliest` or `latest`; another time as it is."""
    moment = ENDS.get(to, to) if isinstance(to, str) else to
    if not isinstance(moment, int):
        raise ValueError(f"reset_offsets: to has to be earliest, latest or ms since 1970, not {to!r}")
    return moment


async def reset_offset(
    admin: Admin,
    group: str,
    topic: str,
    timestamp_ms: int,
    *,
    queue_id: int = -1,
    offset: int | None = None,
    broker: str | None = None,
) -> dict[MessageQueue, int]:
    """Sets a group's offsets on a topic to a store time (ms; LATEST, EARLIEST), or one queue's to `offset`.

    Gives the new offsets by queue. Raises MembersOnline, and BrokerRefused where a broker does not give its
    version, on which the request depends.
    """

    async def reset(one: BrokerAt) -> dict[MessageQueue, int]:
        if await _is_before_5(admin, one) and not await _members_do_it(admin, group, one, offset):
            return await _write(admin, group, topic, timestamp_ms, one, queue_id, offset)
        reply = await admin.call(
            one.address,
            InvokeBrokerToResetOffset(group, topic, timestamp_ms, True, queue_id, offset),
        )
        table = reply.body.offset_table if reply.body else {}
        # A broker that resets on its own names no broker in its answer.
        return {
            MessageQueue(queue.topic or topic, queue.broker_name or one.name, queue.queue_id): new
            for queue, new in table.items()
        }

    targets = [one for one in await admin.brokers_of(topic) if broker in (None, one.name, one.address)]
    tables = await admin.each(targets, reset)
    return dict(sorted((queue, new) for table in tables for queue, new in table.items()))


class MembersOnline(OrbitError):
    """Members of the group would overwrite an offset that is set."""


async def _is_before_5(admin: Admin, one: BrokerAt) -> bool:
    """True if a broker resets through members alone, and takes a queue's offset for all queues."""
    info = (await admin.call(one.address, GetBrokerRuntimeInfo())).body.table
    return info.get("brokerVersionDesc", "").startswith(("V3_", "V4_"))


async def _members_do_it(admin: Admin, group: str, one: BrokerAt, offset: int | None) -> bool:
    try:
        await group_connections(admin, group, [one])
    except ConsumerNotOnline:
        return False
    if offset is not None:
        raise MembersOnline(
            f"broker {one.name} is older than 5.0 and cannot set one queue of {group} while members are "
            "online: stop them first"
        )
    return True


async def _write(
    admin: Admin,
    group: str,
    topic: str,
    timestamp_ms: int,
    one: BrokerAt,
    queue_id: int,
    offset: int | None,
) -> dict[MessageQueue, int]:
    """Writes offsets of a group without members, as a member would commit them."""
    if offset is None:
        effect = await preview_reset(admin, group, topic, timestamp_ms)
        table = {each.queue: each.new_offset for each in effect if each.queue.broker_name == one.name}
    else:
        table = {MessageQueue(topic, one.name, queue_id): offset}
    for queue, new in table.items():
        await admin.call(one.address, UpdateConsumerOffset(group, topic, queue.queue_id, new, logical=False))
    return table


@dataclass(frozen=True, slots=True)
class ResetPreview:
    """One queue before a reset, and where it would continue."""

    queue: MessageQueue
    consumer_offset: int
    new_offset: int

    @property
    def again(self) -> int:
        """Messages that would be delivered once more."""
        return max(0, self.consumer_offset - self.new_offset)

    @property
    def skipped(self) -> int:
        """Messages that would not be delivered."""
        return max(0, self.new_offset - self.consumer_offset)


@dataclass(frozen=True, slots=True)
class ResetEffect:
    """The effect of a reset, by queue."""

    queues: list[ResetPreview]

    @property
    def again(self) -> int:
        """Messages that would be delivered once more."""
        return sum(one.again for one in self.queues)

    @property
    def skipped(self) -> int:
        """Messages that would not be delivered."""
        return sum(one.skipped for one in self.queues)


async def preview_reset(
    admin: Admin, group: str, topic: str, timestamp_ms: int, queue_id: int | None = None
) -> list[ResetPreview]:
    """The effect of `reset_offset` to a time (ms; LATEST, EARLIEST), by queue; nothing is changed.

    With `queue_id` of that queue of each broker alone: then no broker sends the table of all queues. Raises
    GroupNotExist.
    """
    brokers = {one.name: one for one in await admin.brokers_of(topic)}
    present = (await group_progress(admin, group, topic, list(brokers.values()))).queues
    if not any(one.consumer_offset for one in present.values()):
        await check_known(admin, group)

    async def look(item: tuple[MessageQueue, TopicOffset]) -> ResetPreview:
        queue, reach = item
        target = reach.max_offset if timestamp_ms == LATEST else reach.min_offset
        if timestamp_ms not in (LATEST, EARLIEST):
            address = brokers[queue.broker_name].address
            target = max(await offset_at_time(admin, address, queue, reach, timestamp_ms), reach.min_offset)
        at = present[queue].consumer_offset if queue in present else reach.min_offset
        return ResetPreview(queue, at, target)

    if queue_id is None:
        queues = await topic_status(admin, topic)
    else:
        counts = (await queue_counts(admin, topic)).items()
        named = [MessageQueue(topic, broker, queue_id) for broker, count in counts if queue_id < count]
        queues = await offsets_of(admin, named)
    return await admin.each([item for item in queues.items() if item[0].broker_name in brokers], look)
