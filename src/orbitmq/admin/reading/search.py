"""Messages of a topic that hold a text: read from a time on, up to a budget."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Literal

from orbitmq.admin.admin import Admin
from orbitmq.admin.bodies import BodyBudget
from orbitmq.admin.messages import MOST_PULLED, page
from orbitmq.admin.reading.selection import Selection
from orbitmq.admin.topics import offset_at_time, topic_status
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.records.compression import DEFAULT_MAX_INFLATED_BYTES
from orbitmq.protocol.records.message import StoredMessage

End = Literal["", "all", "budget", "bytes", "enough"]
"""The reason that a search is over: all was read, or so many messages as the budget has, or bodies of
INFLATED_BYTES were inflated, or enough was found."""
INFLATED_BYTES = 1 << 30
"""Bytes that a search inflates, piece by piece: some three seconds of one core."""


@dataclass(frozen=True, slots=True)
class SearchStep:
    """Messages that were found since the step before, and how far the search is."""

    found: list[tuple[MessageQueue, StoredMessage]]
    """As they are stored."""
    scanned: int
    total: int
    """Messages that there were from the time on when the search began."""
    end: End = ""
    unread: int = 0
    """Messages, since the search began, whose bodies could not be looked into."""
    reason: str = ""
    """The reason of the last one of them."""


async def search(
    admin: Admin,
    topic: str,
    selection: Selection,
    *,
    from_ms: int = 0,
    budget: int = 100_000,
    most: int = 100,
    max_body_bytes: int = DEFAULT_MAX_INFLATED_BYTES,
    inflated_bytes: int = INFLATED_BYTES,
) -> AsyncIterator[SearchStep]:
    """Steps of a search, all queues in turn; the last one has an `end`. Raises TopicNotExist."""
    addresses = {one.name: one.address for one in await admin.brokers_of(topic)}
    status = await topic_status(admin, topic)

    async def start(queue: MessageQueue) -> int:
        if from_ms <= 0:
            return status[queue].min_offset
        return await offset_at_time(admin, addresses[queue.broker_name], queue, status[queue], from_ms)

    queues = [queue for queue in status if queue.broker_name in addresses]
    starts = await admin.each(queues, start)
    ends = {queue: status[queue].max_offset for queue in queues}
    turn = deque((queue, at) for queue, at in zip(queues, starts, strict=True) if at < ends[queue])
    total = sum(ends[queue] - at for queue, at in turn)
    scanned = count = unread = 0
    reason = ""
    bodies = BodyBudget(max_body_bytes, inflated_bytes)
    while turn and scanned < budget and count < most and not bodies.is_spent:
        queue, offset = turn.popleft()
        size = min(MOST_PULLED, ends[queue] - offset, budget - scanned)
        messages, following = await page(admin, addresses[queue.broker_name], queue, offset, size)
        following = min(following, ends[queue])
        scanned += following - offset
        selected = await selection.select([one for one in messages if one.store_timestamp >= from_ms], bodies)
        found = [(queue, one) for one in selected.messages[: most - count]]
        count += len(found)
        unread, reason = unread + selected.unread, selected.reason or reason
        if following < ends[queue]:
            turn.append((queue, following))
        yield SearchStep(found, scanned, total, "", unread, reason)
    end: End = "bytes" if bodies.is_spent else "budget" if turn else "all"
    yield SearchStep([], scanned, total, "enough" if count >= most else end, unread, reason)
