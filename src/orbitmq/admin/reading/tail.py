"""Messages of a topic as they come in, at a bounded rate: what is too much is counted and left out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

from orbitmq.admin.admin import Admin
from orbitmq.admin.bodies import BodyBudget
from orbitmq.admin.messages import MOST_PULLED, page
from orbitmq.admin.reading.selection import Selection
from orbitmq.admin.topics import topic_status
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.records.compression import DEFAULT_MAX_INFLATED_BYTES
from orbitmq.protocol.records.message import StoredMessage

LOOK_SECONDS = 1.0
PAUSE_SHARE = 4
"""A pause is so many times as long as the brokers took to tell the ends of all queues: for 100,000 they send
12 MB."""
READ_AT_ONCE = 512
"""Messages that are read in one look; of a topic with more coming in the newest ones are."""
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
        news = {}
        for queue, end in ends.items():
            begin = positions.get(queue, 0)
            # A queue that ends before where it was read is one of a topic that was made anew.
            news[queue] = (begin if begin <= end else 0, end)
        positions = {**positions, **ends}
        seen = sum(end - begin for begin, end in news.values())
        busy = [
            queue for queue, (begin, end) in news.items() if end > begin and queue.broker_name in addresses
        ]
        share = READ_AT_ONCE // len(busy) if busy else 0
        found: list[tuple[MessageQueue, StoredMessage]] = []
        left_out = unread = 0
        reason = ""
        bodies = BodyBudget(max_body_bytes, INFLATED_BYTES)
        for queue in busy:
            begin, end = news[queue]
            offset = max(begin, end - max(1, share))
            left_out += offset - begin
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


async def _ends(admin: Admin, topic: str) -> tuple[dict[MessageQueue, int], float]:
    """The ends of all queues, and the seconds that it took to be told them."""
    began = time.monotonic()
    status = await topic_status(admin, topic)
    return {queue: one.max_offset for queue, one in status.items()}, time.monotonic() - began


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
