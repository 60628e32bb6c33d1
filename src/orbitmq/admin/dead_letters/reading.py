"""Dead letters from the brokers: all of a group page by page, or those at some places."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass

from orbitmq.admin.admin import Admin, NoBroker
from orbitmq.admin.dead_letters.dead_letter import DeadLetter, Place, dead_letter_of
from orbitmq.admin.messages import MOST_PULLED, page
from orbitmq.admin.topics import topic_status
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.names import DLQ_PREFIX


@dataclass(frozen=True, slots=True)
class Page:
    """Some dead letters, and how far the reading is."""

    letters: list[DeadLetter]
    scanned: int
    total: int
    """Dead letters that were there when the reading began."""


async def scan(admin: Admin, group: str) -> AsyncIterator[Page]:
    """All dead letters of a group that are there now, queue by queue. Raises TopicNotExist."""
    topic = DLQ_PREFIX + group
    addresses = await _addresses(admin, topic)
    status = await topic_status(admin, topic)
    queues = sorted(
        (queue for queue in status if queue.broker_name in addresses),
        key=lambda one: (one.broker_name, one.queue_id),
    )
    total = sum(status[queue].max_offset - status[queue].min_offset for queue in queues)
    done = 0
    for queue in queues:
        begin, end = status[queue].min_offset, status[queue].max_offset
        offset = begin
        while offset < end:
            letters, following = await _page(admin, addresses[queue.broker_name], queue, offset, MOST_PULLED)
            offset = min(end, following)
            letters = [one for one in letters if one.place.queue_offset < end]
            yield Page(letters, done + offset - begin, total)
        done += end - begin


async def letters_at(admin: Admin, group: str, places: Iterable[Place]) -> dict[Place, DeadLetter]:
    """The dead letters at some places, neighbours read together; those that are gone are left out.

    Raises NoBroker where a broker is not there.
    """
    topic = DLQ_PREFIX + group
    addresses = await _addresses(admin, topic)
    wanted = sorted(set(places))
    found: dict[Place, DeadLetter] = {}
    index = 0
    while index < len(wanted):
        place = wanted[index]
        address = addresses.get(place.broker)
        if address is None:
            raise NoBroker(f"broker {place.broker}, which has dead letters of {group}, is not registered")
        queue = MessageQueue(topic, place.broker, place.queue_id)
        letters, _ = await _page(admin, address, queue, place.queue_offset, _run_length(wanted, index))
        found.update((one.place, one) for one in letters)
        index += 1
        while index < len(wanted) and wanted[index] in found:
            index += 1
    return {place: found[place] for place in wanted if place in found}


def _run_length(places: list[Place], start: int) -> int:
    first = places[start]
    length = 1
    while length < MOST_PULLED and start + length < len(places):
        following = Place(first.broker, first.queue_id, first.queue_offset + length)
        if places[start + length] != following:
            break
        length += 1
    return length


async def _addresses(admin: Admin, topic: str) -> Mapping[str, str]:
    return {one.name: one.address for one in await admin.brokers_of(topic)}


async def _page(
    admin: Admin, address: str, queue: MessageQueue, offset: int, count: int
) -> tuple[list[DeadLetter], int]:
    messages, following = await page(admin, address, queue, offset, count)
    # Shapes of bodies take time: to inflate, and to parse JSON.
    letters = await asyncio.to_thread(lambda: [dead_letter_of(queue.broker_name, one) for one in messages])
    return letters, following
