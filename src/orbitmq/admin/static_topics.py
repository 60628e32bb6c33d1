"""Static topics: logical queues that keep their numbers and offsets when they move between brokers."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from orbitmq.admin.admin import Admin, NoBroker
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.bodies.static_topic import LogicQueueMappingItem, TopicQueueMappingDetail
from orbitmq.protocol.bodies.topic import TopicConfig, TopicConfigAndQueueMapping
from orbitmq.protocol.errors import OrbitError, TopicNotExist
from orbitmq.protocol.names import AUTO_CREATE_TOPIC
from orbitmq.protocol.requests.topic import GetTopicConfig, GetTopicStatsInfo, UpdateAndCreateStaticTopic

BLOCK = 10_000
"""Logical offsets of a stretch begin at a multiple of it, as those that mqadmin places."""
EPOCH_STEP = 1_000

Items = list[LogicQueueMappingItem]


class NotStatic(OrbitError):
    """The topic is no static one, or cannot be changed so."""


@dataclass(slots=True, frozen=True)
class LogicalQueueState:
    """A logical queue of a static topic."""

    queue: int
    broker: str
    """The broker that leads it."""
    physical_queue: int
    first_offset: int
    """The logical offset at which the leader's messages begin; -1 while it is not decided."""
    earlier: int
    """Number of earlier stretches, mostly on other brokers."""


class StaticTopic:
    """The parts that the brokers of a cluster have of a static topic, put together."""

    def __init__(self, topic: str, parts: dict[str, TopicConfigAndQueueMapping]) -> None:
        self.topic = topic
        self.configs: dict[str, TopicConfig] = {}
        self.queues: dict[int, Items] = {}
        self.epoch = 0
        mappings = []
        for broker, part in parts.items():
            if part.mapping_detail is None:
                raise NotStatic(f"{topic} is an ordinary topic on {broker}: delete it there first")
            mappings.append(part.mapping_detail)
            self.configs[broker] = part
        # A move that was broken off has told some brokers only: the later mapping counts, and is completed.
        for mapping in sorted(mappings, key=lambda one: one.epoch):
            self.epoch = mapping.epoch
            for global_id, items in mapping.hosted_queues.items():
                if self._is_newer(items, self.queues.get(global_id)):
                    self.queues[global_id] = [replace(item) for item in items]
        missing = sorted(
            set(range(max((one.total_queues for one in mappings), default=0))) - set(self.queues)
        )
        if missing:
            raise NotStatic(f"no broker that answers hosts queue {missing[0]} of {topic}: start all of them")

    @staticmethod
    def _is_newer(items: Items, known: Items | None) -> bool:
        if not known:
            return bool(items)
        return (items[-1].gen, items[-1].is_placed) >= (known[-1].gen, known[-1].is_placed)

    def add_queues(self, total: int, targets: Iterable[str]) -> None:
        """Adds logical queues up to `total`, to the targets that lead the fewest."""
        for global_id in range(len(self.queues), total):
            led = Counter(items[-1].bname for items in self.queues.values())
            self._append(global_id, min(sorted(targets), key=lambda broker: led[broker]), [], 0)

    def move_to(self, targets: Sequence[str]) -> None:
        """Has the targets lead all queues, each as many as the others; no more queues move than have to."""
        share, more = divmod(len(self.queues), len(targets))
        led = Counter(items[-1].bname for items in self.queues.values())
        # Those that lead most already keep one more.
        order = sorted(targets, key=lambda broker: (-led[broker], broker))
        room = {broker: share + (number < more) for number, broker in enumerate(order)}
        moving = []
        for global_id, items in sorted(self.queues.items()):
            leader = items[-1].bname
            if room.get(leader, 0) and (leader in targets):
                room[leader] -= 1
            else:
                moving.append(global_id)
        free = [broker for broker, count in room.items() for _ in range(count)]
        for global_id, broker in zip(moving, free, strict=True):
            if not self.queues[global_id][-1].is_placed:
                raise NotStatic(f"queue {global_id} of {self.topic} is still being moved to another broker")
            self._append(global_id, broker, self.queues[global_id], -1)

    def _append(self, global_id: int, broker: str, before: Items, logic_offset: int) -> None:
        config = self.configs.setdefault(broker, TopicConfig(self.topic, 0, 0))
        physical = max(config.read_queue_nums, config.write_queue_nums)
        config.read_queue_nums = config.write_queue_nums = physical + 1
        gen = before[-1].gen + 1 if before else 0
        self.queues[global_id] = [*before, LogicQueueMappingItem(gen, physical, broker, logic_offset)]

    def unplaced(self) -> list[Items]:
        """The queues whose last stretch has no place yet."""
        return [items for items in self.queues.values() if not items[-1].is_placed]

    def request(self, broker: str) -> UpdateAndCreateStaticTopic:
        """The request that tells a broker its part: the queues that it leads, or has messages of."""
        config = self.configs.setdefault(broker, TopicConfig(self.topic, 0, 0))
        hosted = {
            global_id: items
            for global_id, items in sorted(self.queues.items())
            if any(item.bname == broker for item in items[-2:])
        }
        return UpdateAndCreateStaticTopic(
            self.topic,
            AUTO_CREATE_TOPIC,
            config.read_queue_nums,
            config.write_queue_nums,
            config.perm,
            "SINGLE_TAG",
            config.order,
            config.topic_sys_flag,
            body=TopicQueueMappingDetail(
                self.topic,
                total_queues=len(self.queues),
                bname=broker,
                epoch=self.epoch,
                hosted_queues=hosted,
            ),
        )

    def states(self) -> list[LogicalQueueState]:
        """The queues in order."""
        return [
            LogicalQueueState(
                global_id, items[-1].bname, items[-1].queue_id, items[-1].logic_offset, len(items) - 1
            )
            for global_id, items in sorted(self.queues.items())
        ]


async def _look_up(admin: Admin, topic: str) -> tuple[StaticTopic, dict[str, str]]:
    """A static topic as its brokers have it, and the addresses of all masters. Raises NotStatic."""
    masters = {one.name: one.address for one in await admin.masters()}
    parts = {}
    for name, address in masters.items():
        try:
            parts[name] = (await admin.call(address, GetTopicConfig(topic, logical=True))).body
        except TopicNotExist:
            continue
    return StaticTopic(topic, parts), masters


async def _members(admin: Admin, masters: dict[str, str], names: set[str]) -> dict[str, str]:
    """Those of the masters that are in a cluster with one of these."""
    clusters = ((await admin.clusters()).cluster_addr_table or {}).values()
    members = {name for cluster in clusters if names & set(cluster) for name in cluster}
    return {name: address for name, address in masters.items() if name in members}


async def static_topic(admin: Admin, topic: str) -> list[LogicalQueueState]:
    """The logical queues of a topic, with the brokers that lead them. Raises NotStatic."""
    found, _ = await _look_up(admin, topic)
    if not found.queues:
        raise NotStatic(f"no broker has a static topic {topic}: `topic static --queues` creates it")
    return found.states()


async def create_static_topic(
    admin: Admin, topic: str, queues: int, *, cluster: str | None = None, broker: str | None = None
) -> list[LogicalQueueState]:
    """Makes a static topic with so many logical queues over all masters, or gives one more queues.

    All other masters of the cluster hear of it, too. Raises NotStatic.
    """
    found, masters = await _look_up(admin, topic)
    targets = [one.name for one in await admin.masters(cluster, broker)]
    if queues < len(found.queues):
        raise NotStatic(f"{topic} has {len(found.queues)} queues: a static topic does not lose any")
    found.add_queues(queues, targets)
    found.epoch = _next_epoch(found.epoch)
    for name, address in (await _members(admin, masters, {*targets, *found.configs})).items():
        await admin.call(address, found.request(name))
    return found.states()


async def move_static_topic(admin: Admin, topic: str, brokers: Sequence[str]) -> list[LogicalQueueState]:
    """Has these brokers lead the queues of a static topic. One that was broken off is completed by another.

    Nothing is lost: the new leader takes messages before the old one ends, and readers follow when it is
    known where the new one's offsets begin. Raises NotStatic, NoBroker.
    """
    found, masters = await _look_up(admin, topic)
    if not found.queues:
        raise NotStatic(f"{topic} is no static topic: create it as one")
    masters = await _members(admin, masters, set(found.configs))
    for name in brokers:
        if name not in masters:
            raise NoBroker(f"the cluster of {topic} has no broker {name} with a master")
    found.move_to(list(dict.fromkeys(brokers)))
    found.epoch = _next_epoch(found.epoch)
    unplaced = found.unplaced()
    arriving = {items[-1].bname for items in unplaced}
    leaving = {items[-2].bname for items in unplaced}

    async def tell(names: Iterable[str]) -> None:
        for name in sorted(names):
            await admin.call(masters[name], found.request(name))

    await tell(arriving)
    await tell(leaving)  # from here on the queues before take nothing
    for name in sorted(leaving):
        rows = (await admin.call(masters[name], GetTopicStatsInfo(topic))).body.offset_table
        for items in unplaced:
            old, new = items[-2:]
            if old.bname == name and not new.is_placed:
                end = rows[MessageQueue(topic, name, old.queue_id)].max_offset
                new.logic_offset = _rounded_up(old.static_offset(end))
    await tell(arriving)
    await tell(set(masters) - arriving)
    return found.states()


def _next_epoch(epoch: int) -> int:
    return max(epoch + EPOCH_STEP, int(time.time() * 1000))


def _rounded_up(offset: int) -> int:
    """The place of the next stretch, with room for what comes late to the one before."""
    blocks, rest = divmod(offset, BLOCK)
    return (blocks + (1 if rest < BLOCK // 2 else 2)) * BLOCK
