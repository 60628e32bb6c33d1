"""Messages of a topic that hold a text: read from a time on, up to a budget."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Literal

from orbitmq.admin.admin import Admin
from orbitmq.admin.commands.messages import MOST_PULLED, page
from orbitmq.admin.commands.topic_status import topic_status
from orbitmq.admin.reading.selection import Selection
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.records.message import StoredMessage
from orbitmq.protocol.requests.offset import SearchOffsetByTimestamp

End = Literal["", "all", "budget", "enough"]
"""The reason that a search is over: all was read, or so many messages as the budget has, or enough found."""


@dataclass(frozen=True, slots=True)
class Step:
    """Messages that were found since the step before, and how far the search is."""

    found: list[tuple[MessageQueue, StoredMessage]]
    scanned: int
    total: int
    """Messages that there were from the time on when the search began."""
    end: End = ""


async def search(
    admin: Admin,
    topic: str,
    selection: Selection,
    *,
    from_ms: int = 0,
    budget: int = 100_000,
    most: int = 100,
) -> AsyncIterator[Step]:
    """Steps of a search, all queues in turn; the last one has an `end`. Raises TopicNotExist."""
    addresses = {one.name: one.address for one in await admin.brokers_of(topic)}
    status = await topic_status(admin, topic)

    async def start(queue: MessageQueue) -> int:
        if from_ms <= 0:
            return status[queue].min_offset
        request = SearchOffsetByTimestamp(topic, queue.queue_id, from_ms)
        return (await admin.call(addresses[queue.broker_name], request)).offset

    queues = [queue for queue in status if queue.broker_name in addresses]
    starts = await admin.each(queues, start)
    ends = {queue: status[queue].max_offset for queue in queues}
    turn = deque((queue, at) for queue, at in zip(queues, starts, strict=True) if at < ends[queue])
    total = sum(ends[queue] - at for queue, at in turn)
    scanned = count = 0
    while turn and scanned < budget and count < most:
        queue, offset = turn.popleft()
        size = min(MOST_PULLED, ends[queue] - offset, budget - scanned)
        messages, following = await page(admin, addresses[queue.broker_name], queue, offset, size)
        following = min(following, ends[queue])
        scanned += following - offset
        found = []
        for stored in messages:
            if stored.store_timestamp < from_ms or count >= most:
                continue
            message = selection.select(stored)
            if message is not None:
                found.append((queue, message))
                count += 1
        if following < ends[queue]:
            turn.append((queue, following))
        yield Step(found, scanned, total)
    yield Step([], scanned, total, "enough" if count >= most else "budget" if turn else "all")
