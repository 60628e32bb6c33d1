"""The oldest message that a group has not consumed, by queue."""

from __future__ import annotations

from collections.abc import Mapping

from orbitmq.admin.admin import Admin
from orbitmq.admin.messages import page
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.bodies.stats import OffsetWrapper
from orbitmq.protocol.errors import OrbitError

MOST_QUEUES = 64
"""Queues that are read for one answer: those with the largest backlog."""
_TRIES = 2
"""The second one where retention was faster than the group: at the oldest message that is left."""


async def oldest_unread(
    admin: Admin, queues: Mapping[MessageQueue, OffsetWrapper]
) -> dict[MessageQueue, int]:
    """Store times, ms since 1970, of the next messages of queues with a backlog.

    A queue is left out where its broker does not answer, and beyond MOST_QUEUES.
    """
    behind = [queue for queue, one in queues.items() if one.broker_offset > one.consumer_offset]
    behind.sort(key=lambda queue: queues[queue].consumer_offset - queues[queue].broker_offset)
    behind = behind[:MOST_QUEUES]
    addresses: dict[str, dict[str, str]] = {}
    for topic in sorted({queue.topic for queue in behind}):
        try:
            addresses[topic] = {one.name: one.address for one in await admin.brokers_of(topic)}
        except OrbitError:
            addresses[topic] = {}

    async def read(queue: MessageQueue) -> int | None:
        address = addresses[queue.topic].get(queue.broker_name)
        if address is None:
            return None
        one = queues[queue]
        offset = max(0, one.consumer_offset)
        for _ in range(_TRIES):
            if offset >= one.broker_offset:
                return None
            try:
                messages, offset = await page(admin, address, queue, offset, 1)
            except OrbitError:
                return None
            if messages:
                return messages[0].store_timestamp
        return None

    times = await admin.each(behind, read)
    return {queue: found for queue, found in zip(behind, times, strict=True) if found is not None}
