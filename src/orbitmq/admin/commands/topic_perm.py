"""`orbitmq admin topic perm`: what a topic lets clients do."""

from __future__ import annotations

from dataclasses import replace

import click

from orbitmq.admin.admin import Admin
from orbitmq.admin.command import cluster_flags, command
from orbitmq.admin.commands.topic_create import create_topic
from orbitmq.admin.commands.topic_route import perm_text
from orbitmq.admin.output import Done
from orbitmq.protocol.bodies.topic import TopicConfig
from orbitmq.protocol.requests.topic import GetTopicConfig


async def set_topic_perm(admin: Admin, address: str, topic: str, perm: int) -> TopicConfig:
    """Changes the permission of a topic on one broker and nothing else of it; gives what it was."""
    present = (await admin.call(address, GetTopicConfig(topic))).body
    await create_topic(admin, address, replace(present, perm=perm, attributes={}))
    return present


async def set_topic_perm_on_masters(
    admin: Admin, topic: str, perm: int, cluster: str | None = None, broker: str | None = None
) -> dict[str, int]:
    """Changes the permission of a topic wherever it has queues; gives what it was, by broker."""
    wanted = {one.address for one in await admin.masters(cluster, broker)}
    return {
        one.name: (await set_topic_perm(admin, one.address, topic, perm)).perm
        for one in await admin.brokers_of(topic)
        if one.address in wanted
    }


@command("topic", "perm", "orbitmq admin topic perm flights 4   # nobody may send any more")
@click.argument("topic")
@click.argument("perm", type=click.IntRange(0, 7))
@cluster_flags
async def show(admin: Admin, topic: str, perm: int, cluster: str | None, broker: str | None) -> Done:
    """Set the permissions of clients on TOPIC. PERM is the sum of 4 (read) and 2 (write)."""
    changed = await set_topic_perm_on_masters(admin, topic, perm, cluster, broker)
    text = ", ".join(f"{perm_text(old)} to {perm_text(perm)} on {name}" for name, old in changed.items())
    return Done(
        f"permission of {topic}: {text or 'nothing changed'}",
        {"topic": topic, "perm": perm, "before": changed},
    )
