"""Offsets of consumer groups as brokers report them, and the age of the oldest message that waits."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from orbitmq.admin.admin import Admin, BrokerAt
from orbitmq.admin.groups import groups_on, is_system
from orbitmq.admin.progress import group_progress
from orbitmq.net.errors import NetError
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.bodies.stats import OffsetWrapper, TopicOffset
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import BrokerRefused, OrbitError
from orbitmq.protocol.names import TOOLS_GROUP
from orbitmq.protocol.records.message_cy import read_header
from orbitmq.protocol.requests.pull import pull_without_commit
from orbitmq.protocol.requests.topic import GetTopicStatsInfo

Sample = dict[str, Any]


class Sampler:
    """Looks at groups (all that are not the brokers' own, where none are named) on all masters."""

    def __init__(self, admin: Admin, groups: Sequence[str] = (), topics: Sequence[str] = ()) -> None:
        self._admin = admin
        self._groups = tuple(groups)
        self._topics = frozenset(topics)
        self.failures: list[str] = []
        """Failed requests of the last sampling."""

    async def look(self) -> list[Sample]:
        """One sample per group and queue, all with the same time."""
        at = datetime.now(UTC)
        self.failures = []
        try:
            masters = await self._admin.masters()
        except OrbitError as error:
            self.failures.append(str(error))
            return []
        found = await self._admin.each(masters, lambda one: self._broker(one, at))
        samples = [one for samples in found for one in samples]
        if not self.failures:
            unseen = sorted(set(self._groups) - {one["clientGroup"] for one in samples})
            self.failures += [f"no broker knows how far {group} is{self._of_topics()}" for group in unseen]
        return samples

    def _of_topics(self) -> str:
        return f" in {', '.join(sorted(self._topics))}" if self._topics else ""

    async def _broker(self, one: BrokerAt, at: datetime) -> list[Sample]:
        try:
            groups = self._groups or [
                group for group in await groups_on(self._admin, one.address) if not is_system(group)
            ]
            return [sample for group in groups for sample in await self._group(one, group, at)]
        except (NetError, BrokerRefused) as error:
            self.failures.append(f"{one.name}: {error}")
            return []

    async def _group(self, one: BrokerAt, group: str, at: datetime) -> list[Sample]:
        progress = await group_progress(self._admin, group, brokers=[one])
        queues = {
            queue: offsets
            for queue, offsets in progress.queues.items()
            if not self._topics or queue.topic in self._topics
        }
        reach: dict[MessageQueue, TopicOffset] = {}
        for topic in {queue.topic for queue in queues}:
            reach |= (await self._admin.call(one.address, GetTopicStatsInfo(topic))).body.offset_table
        return [
            {
                "at": at,
                "clientGroup": group,
                "topic": queue.topic,
                "broker": queue.broker_name,
                "queueId": queue.queue_id,
                "minOffset": max(0, reach[queue].min_offset) if queue in reach else 0,
                "maxOffset": offsets.broker_offset,
                "consumerOffset": max(0, offsets.consumer_offset),
                "pullOffset": max(0, offsets.pull_offset),
                "oldestAt": await self._oldest(one, queue, offsets, reach.get(queue)),
            }
            for queue, offsets in queues.items()
        ]

    async def _oldest(
        self, one: BrokerAt, queue: MessageQueue, offsets: OffsetWrapper, reach: TopicOffset | None
    ) -> datetime | None:
        """Store time of the first message that is not finished; None if none waits, or none can be read."""
        first = max(0, offsets.consumer_offset, reach.min_offset if reach else 0)
        if first >= offsets.broker_offset:
            return None
        try:
            reply = await self._admin.call(
                one.address, pull_without_commit(TOOLS_GROUP, queue.topic, queue.queue_id, first, 1)
            )
        except BrokerRefused:  # a topic that tools may not read; its lag is known all the same
            return None
        if reply.code != ResponseCode.SUCCESS or not reply.body:
            return None
        return datetime.fromtimestamp(read_header(reply.body)[6] / 1000, UTC)
