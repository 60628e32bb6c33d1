"""Messages of a topic as they come in, at a bounded rate: what is too much is counted and left out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from orbitmq.admin.admin import Admin
from orbitmq.admin.bodies import BodyBudget
from orbitmq.admin.messages import MOST_PULLED, page
from orbitmq.admin.reading.selection import Selection
from orbitmq.admin.topics import queue_ends
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.records.compression import DEFAULT_MAX_INFLATED_BYTES
from orbitmq.protocol.records.message import StoredMessage

LOOK_SECONDS = 1.0
PAUSE_SHARE = 4
"""A pause is so many times as long as the brokers took to tell the ends of all queues: for 100,000 Apache's
send 12 MB, ours 1 MB."""
READ_AT_ONCE = 512
"""Messages that are read in one look; of a topic with more coming in the newest ones of each queue are. Of
more queues than that with news, so many are read, from all over the topic."""
HELD_BYTES = 8 << 20
"""Bodies that one look holds, as they are stored."""
INFLATED_BYTES = 64 << 20
"""Bytes that one look inflates to find a text, piece by piece."""


@dataclass(frozen=True, slots=True)
class Look:
    """The findings of one look."""

    messages: list[tuple[MessageQueue, StoredMessage]]
    seen: int
    """Messages that came in since the look before."""
    left_out: int
    """Of those, messages that were not read, or selected beyond the rate."""
    unread: int = 0
    """Of those, messages whose bodies could not be looked into."""
    reason: str = ""
    """The reason of the last one of them."""


async def tail(
    admin: Admin,
    topic: str,
    selection: Selection,
    rate: int,
    look_seconds: float = LOOK_SECONDS,
    max_body_bytes: int = DEFAULT_MAX_INFLATED_BYTES,
) -> AsyncIterator[Look]:
    """A look every second from now on, `rate` messages in each at most. Raises TopicNotExist.

    Looks at a topic with very many queues have longer pauses between them.
    """
    positions, took = await _ends(admin, topic)
    yield Look([], 0, 0)
    while True:
        await asyncio.sleep(max(look_seconds, PAUSE_SHARE * took))
        addresses = {one.name: one.address for one in await admin.brokers_of(topic)}
        ends, took = await _ends(admin, topic)
        news = {
            MessageQueue(topic, name, queue_id): span
            for name, now in ends.items()
            for queue_id, span in _grown(positions.get(name, ()), now)
        }
        positions |= ends
        seen = left_out = sum(end - begin for begin, end in news.values())
        busy = [queue for queue in news if queue.broker_name in addresses]
        busy = busy[:: -(-len(busy) // READ_AT_ONCE) or 1]
        share = READ_AT_ONCE // len(busy) if busy else 0
        found: list[tuple[MessageQueue, StoredMessage]] = []
        unread = 0
        reason = ""
        bodies = BodyBudget(max_body_bytes, INFLATED_BYTES)
        for queue in busy:
            begin, end = news[queue]
            offset = max(begin, end - share)
            left_out -= end - offset
            while offset < end:
                messages, following = await page(
                    admin, addresses[queue.broker_name], queue, offset, min(MOST_PULLED, end - offset)
                )
                selected = await selection.select(messages, bodies)
                found += [(queue, one) for one in selected.messages]
                unread, reason = unread + selected.unread, selected.reason or reason
                left_out += _keep_newest(found, rate)
                offset = following
        found.sort(key=lambda one: one[1].store_timestamp)
        yield Look(found, seen, left_out, unread, reason)


def _grown(before: Sequence[int], now: Sequence[int]) -> Iterator[tuple[int, tuple[int, int]]]:
    """The queues that have news: queue id, the first offset and the end of what came in."""
    for queue_id, (begin, end) in enumerate(zip_longest(before, now, fillvalue=0)):
        # A queue that ends before where it was read is one of a topic that was made again.
        if end != begin and end > 0:
            yield queue_id, (begin if begin < end else 0, end)


async def _ends(admin: Admin, topic: str) -> tuple[dict[str, Sequence[int]], float]:
    """The ends of all queues, and the seconds that it took to be told them."""
    began = time.monotonic()
    return await queue_ends(admin, topic), time.monotonic() - began


def _keep_newest(found: list[tuple[MessageQueue, StoredMessage]], rate: int) -> int:
    """Drops the oldest messages beyond the rate or the bytes that are held; gives their number."""
    found.sort(key=lambda one: one[1].store_timestamp)
    size, kept = 0, 0
    for _, message in reversed(found):
        size += len(message.body)
        if kept == rate or (kept and size > HELD_BYTES):
            break
        kept += 1
    dropped = len(found) - kept
    del found[:dropped]
    return dropped
