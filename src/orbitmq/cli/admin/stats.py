"""`orbitmq admin stats`: what comes in, what goes out, and what waits, by topic and group."""

from __future__ import annotations

from collections.abc import Mapping

import click

from orbitmq.admin.admin import Admin
from orbitmq.admin.output import Rows, columns
from orbitmq.admin.stats import rows_of, young_brokers
from orbitmq.admin.topics import system_topics, topic_names
from orbitmq.cli.admin.command import command
from orbitmq.protocol.errors import TopicNotExist
from orbitmq.protocol.names import DLQ_PREFIX


@command("stats", "all", "orbitmq admin stats all\norbitmq admin stats all --topic flights")
@click.option("-t", "--topic", metavar="NAME", help="Only this topic.")
@click.option("-a", "--active", is_flag=True, help="Only topics with traffic within the last day.")
async def show(admin: Admin, topic: str | None, active: bool) -> Rows:
    """Messages per second and per day, and the backlog, of every topic and group."""
    if topic is not None:
        topics = [topic]
    else:
        system = await system_topics(admin)
        topics = [
            name
            for name in await topic_names(admin)
            if name not in system and not name.startswith(DLQ_PREFIX)
        ]

    async def of_topic(name: str) -> list[tuple[object, ...]]:
        try:
            brokers = await admin.brokers_of(name)
        except TopicNotExist:
            if topic is not None:
                raise
            return []
        return await rows_of(admin, brokers, name, active)

    rows = [row for part in await admin.each(topics, of_topic) for row in part]
    return Rows(
        columns(
            "topic group lag inTps outTps inDay outDay",
            inTps="In/s",
            outTps="Out/s",
            inDay="In 24 h",
            outDay="Out 24 h",
        ),
        rows,
        _known_since(await young_brokers(admin)) if topics else "",
    )


def _known_since(young: Mapping[str, float]) -> str:
    """The sentence that says which figures are of less than a day; empty if none is."""
    brokers = ", ".join(f"{name} for {hours:.1f} h" for name, hours in young.items())
    return f"brokers that run for less than 24 h count since their start: {brokers}" if young else ""
