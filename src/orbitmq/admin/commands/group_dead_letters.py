"""`orbitmq admin group dead-letters`: how many messages no consumer could handle."""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.admin.admin import Admin, NoBroker
from orbitmq.admin.command import command
from orbitmq.admin.commands.topic_list import topic_names
from orbitmq.admin.commands.topic_status import topic_status
from orbitmq.admin.output import Column, Rows
from orbitmq.plurals import counted
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


@command("group", "dead-letters", "orbitmq admin group dead-letters\norbitmq admin group dead-letters --json")
async def show(admin: Admin) -> Rows:
    """Groups with dead letters: messages that failed after all retries."""
    found = await dead_letters(admin)
    return Rows(
        (
            Column("group", "Group"),
            Column("deadLetters", "Dead letters"),
            Column("last", "Last stored", is_time=True),
        ),
        [(one.group, one.count, one.last_ms) for one in found],
        counted(sum(one.count for one in found), "dead letter"),
    )
