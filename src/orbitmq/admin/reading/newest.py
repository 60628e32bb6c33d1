"""The newest messages of a topic, and page by page the ones before them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from orbitmq.admin.admin import Admin
from orbitmq.admin.bodies import BodyBudget
from orbitmq.admin.messages import MOST_PULLED
from orbitmq.admin.messages import page as pull_page
from orbitmq.admin.reading.selection import Selection
from orbitmq.admin.topics import newest_queues, offset_at_time
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.records.compression import DEFAULT_MAX_INFLATED_BYTES
from orbitmq.protocol.records.message import StoredMessage
from orbitmq.protocol.requests.offset import GetMaxOffset, GetMinOffset

MOST_QUEUES = 64
"""Queues that one page is made of: those with the newest messages."""
READ_AT_ONCE = 8
"""Messages of a queue that are read at a time at most: brokers give no more old ones in one pull."""
INFLATED_BYTES = 256 << 20
"""Bytes that one page inflates to find a text, piece by piece."""
MOST_LOOKED_AT = 2000
"""Messages that one page looks at where only some are meant."""

Ends = Mapping[MessageQueue, int]
"""For each queue the offset before which the next page begins."""


@dataclass(slots=True)
class NewestPage:
    """Messages as they are stored, the newest first."""

    messages: list[tuple[MessageQueue, StoredMessage]]
    ends: dict[MessageQueue, int]
    """For the page after this one; empty if there is none."""
    left_out: int
    """Queues with messages that were not looked into."""
    scanned: int = 0
    """Messages that were looked at."""
    back_to_ms: int = 0
    """Store time of the oldest of them; 0 without one."""
    unread: int = 0
    """Messages whose bodies could not be looked into."""
    reason: str = ""
    """The reason of the last one of them."""


@dataclass(slots=True)
class _Queue:
    """One queue, read backwards."""

    queue: MessageQueue
    address: str
    low: int
    """The first offset that is there."""
    end: int
    """All from this offset on was read."""
    at_once: int
    """Messages that are read at a time: few of each queue if there are many, for bodies may be large."""
    read: list[StoredMessage] = field(default_factory=list)
    """Messages in the order of the queue that are on no page yet."""

    async def fill(self, admin: Admin) -> None:
        """Reads messages before those that were read, until there are some, or none are left."""
        while not self.read and self.end > self.low:
            begin = max(self.low, self.end - self.at_once)
            offset = begin
            while offset < self.end:
                count = min(MOST_PULLED, self.end - offset)
                messages, offset = await pull_page(admin, self.address, self.queue, offset, count)
                self.read += [one for one in messages if begin <= one.queue_offset < self.end]
            self.end = begin

    def next_end(self) -> int:
        """The beginning of the next page."""
        return self.read[-1].queue_offset + 1 if self.read else self.end


async def newest(
    admin: Admin,
    topic: str,
    most: int,
    *,
    before: Ends | None = None,
    before_ms: int | None = None,
    selection: Selection | None = None,
    max_body_bytes: int = DEFAULT_MAX_INFLATED_BYTES,
) -> NewestPage:
    """The newest `most` messages of a topic: of all, of those stored before a time (ms), or `before` the
    `ends` of an earlier page. Of a `selection`, as many as are among the newest MOST_LOOKED_AT.

    Raises TopicNotExist.
    """
    addresses = {one.name: one.address for one in await admin.brokers_of(topic)}
    # An earlier page has chosen its queues: brokers are not asked for them again.
    status, left_out = ({}, 0) if before is not None else await newest_queues(admin, topic, MOST_QUEUES)
    chosen = [queue for queue in before or status if queue.broker_name in addresses][:MOST_QUEUES]
    at_once = min(READ_AT_ONCE, max(1, 2 * most // max(1, len(chosen))))

    async def begin(queue: MessageQueue) -> _Queue:
        address = addresses[queue.broker_name]
        if before is not None:
            low = (await admin.call(address, GetMinOffset(topic, queue.queue_id, logical=False))).offset
            high = (await admin.call(address, GetMaxOffset(topic, queue.queue_id, logical=False))).offset
            end = min(high, before[queue])
        else:
            low, end = status[queue].min_offset, status[queue].max_offset
            if before_ms is not None:
                end = await offset_at_time(admin, address, queue, status[queue], before_ms)
        one = _Queue(queue, address, low, end, at_once)
        await one.fill(admin)
        return one

    queues = await admin.each(chosen, begin)
    page = NewestPage([], {}, left_out)
    bodies = BodyBudget(max_body_bytes, INFLATED_BYTES)
    everything = selection is None or selection.is_everything
    budget = most if everything else MOST_LOOKED_AT
    while len(page.messages) < most and page.scanned < budget and not bodies.is_spent:
        # No more at a time than the page has room for: all that are meant are on it.
        latest = await _latest(admin, queues, min(most - len(page.messages), budget - page.scanned))
        if not latest:
            break
        page.scanned += len(latest)
        page.back_to_ms = latest[-1][1].store_timestamp
        if selection is None or everything:
            page.messages += latest
            continue
        selected = await selection.select([one for _, one in latest], bodies)
        meant = {id(one) for one in selected.messages}
        page.messages += [one for one in latest if id(one[1]) in meant]
        page.unread, page.reason = page.unread + selected.unread, selected.reason or page.reason
    page.ends.update({one.queue: one.next_end() for one in queues if one.read})
    return page


async def _latest(admin: Admin, queues: list[_Queue], most: int) -> list[tuple[MessageQueue, StoredMessage]]:
    """The next messages of all queues, the newest first."""
    found: list[tuple[MessageQueue, StoredMessage]] = []
    while len(found) < most and (some := [one for one in queues if one.read]):
        # Of messages of one millisecond the place in the log tells the order.
        latest = max(some, key=lambda one: (one.read[-1].store_timestamp, one.read[-1].physical_offset))
        found.append((latest.queue, latest.read.pop()))
        await latest.fill(admin)
    return found
