"""The newest failure of a group's handlers by topic, from dead letters and messages that come again."""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.admin.admin import Admin
from orbitmq.admin.dead_letters.dead_letter import dead_letter_of
from orbitmq.admin.messages import page
from orbitmq.admin.topics import topic_status
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.errors import OrbitError
from orbitmq.protocol.names import DLQ_PREFIX, RETRY_PREFIX

NEWEST = 16
"""Messages that are read of the end of each queue."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A message that a handler did not finish."""

    at_ms: int
    """Store time of the dead letter or of the message for its next try."""
    exception: str
    """The class; empty where the client gives none: only OrbitMQ's does, for dead letters."""
    text: str
    attempts: int
    """Deliveries that failed."""
    dead_letter: bool
    """False: the message comes again."""


async def last_failures(admin: Admin, group: str) -> dict[str, Failure]:
    """The newest failure of each topic, by its name. Brokers that do not answer are left out."""
    found: dict[str, Failure] = {}
    for prefix in (RETRY_PREFIX, DLQ_PREFIX):
        for topic, failure in await _newest(admin, prefix + group, is_dead_letter=prefix == DLQ_PREFIX):
            if topic not in found or failure.at_ms >= found[topic].at_ms:
                found[topic] = failure
    return found


async def _newest(admin: Admin, name: str, *, is_dead_letter: bool) -> list[tuple[str, Failure]]:
    try:
        addresses = {one.name: one.address for one in await admin.brokers_of(name)}
        offsets = await topic_status(admin, name)
    except OrbitError:  # a group without failures has no such topic
        return []

    async def read(queue: MessageQueue) -> list[tuple[str, Failure]]:
        ends = offsets[queue]
        address = addresses.get(queue.broker_name)
        start = max(ends.min_offset, ends.max_offset - NEWEST)
        if address is None or start >= ends.max_offset:
            return []
        try:
            messages, _ = await page(admin, address, queue, start, NEWEST)
        except OrbitError:
            return []
        failures = []
        for message in messages:
            letter = dead_letter_of(queue.broker_name, message)
            if letter.topic is not None:
                failure = Failure(
                    message.store_timestamp,
                    letter.cause.exception or "",
                    letter.reason,
                    max(1, message.reconsume_times),
                    is_dead_letter,
                )
                failures.append((letter.topic, failure))
        return failures

    return [one for part in await admin.each(offsets, read) for one in part]
