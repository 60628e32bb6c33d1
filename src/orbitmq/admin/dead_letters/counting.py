"""The number of dead letters of a group."""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.admin.admin import Admin, NoBroker
from orbitmq.admin.topics import topic_names, topic_status
from orbitmq.protocol.errors import TopicNotExist
from orbitmq.protocol.names import DLQ_PREFIX


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """The dead letters of one group."""

    group: str
    count: int
    last_ms: int
    """When the last one was stored, ms since 1970; 0 without one."""


async def dead_letters(admin: Admin) -> list[DeadLetters]:
    """Groups with a dead-letter topic, by name, and how many messages each of these holds."""

    async def ask(topic: str) -> DeadLetters:
        try:
            queues = (await topic_status(admin, topic)).values()
        except (TopicNotExist, NoBroker):
            queues = {}.values()
        return DeadLetters(
            topic.removeprefix(DLQ_PREFIX),
            sum(one.max_offset - one.min_offset for one in queues),
            max((one.last_update_timestamp for one in queues), default=0),
        )

    return await admin.each([name for name in await topic_names(admin) if name.startswith(DLQ_PREFIX)], ask)
