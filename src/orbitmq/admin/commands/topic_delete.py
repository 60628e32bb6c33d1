"""`orbitmq admin topic delete`: delete a topic with its messages."""

from __future__ import annotations

import click

from orbitmq.admin.admin import Admin, BrokerAt
from orbitmq.admin.command import command, confirm, yes_flag
from orbitmq.admin.commands.topic_list import topic_names
from orbitmq.admin.output import Done
from orbitmq.protocol.requests.route import DeleteTopicInNamesrv
from orbitmq.protocol.requests.topic import DeleteTopicInBroker
from orbitmq.protocol.schema.declare import Void


async def delete_topic(admin: Admin, topic: str, cluster: str | None = None) -> list[str]:
    """Deletes a topic on every broker (of a cluster) and in every name server; gives the brokers' names."""

    async def delete(one: BrokerAt) -> Void:
        return await admin.call(one.address, DeleteTopicInBroker(topic))

    masters = await admin.masters(cluster)
    await admin.each(masters, delete)
    await admin.ask_all(DeleteTopicInNamesrv(topic, cluster))
    return [one.name for one in masters]


@command("topic", "delete", "orbitmq admin topic delete flights")
@click.argument("topic")
@click.option("-c", "--cluster", metavar="NAME", help="Only in this cluster.")
@yes_flag
async def show(admin: Admin, topic: str, cluster: str | None, yes: bool) -> Done:
    """Delete TOPIC, its messages, and the offsets of all groups on it."""
    where = f" in cluster {cluster}" if cluster else ""
    confirm(f"Delete topic {topic} and all its messages{where}?", yes)
    existed = topic in await topic_names(admin)
    names = await delete_topic(admin, topic, cluster)
    what = "is deleted" if existed else "was known to no name server; it is not"
    return Done(
        f"topic {topic} {what} on {', '.join(names)}", {"topic": topic, "existed": existed, "brokers": names}
    )
