"""`orbitmq admin group delete`: delete a consumer group."""

from __future__ import annotations

import click

from orbitmq.admin.admin import Admin, BrokerAt
from orbitmq.admin.command import command, confirm, yes_flag
from orbitmq.admin.commands.topic_delete import delete_topic
from orbitmq.admin.output import Done
from orbitmq.protocol.names import DLQ_PREFIX, RETRY_PREFIX
from orbitmq.protocol.requests.group import DeleteSubscriptiongroup
from orbitmq.protocol.schema.declare import Void


async def delete_group(
    admin: Admin, group: str, *, clean_offset: bool = True, topics: bool = True, cluster: str | None = None
) -> list[str]:
    """Deletes a group on every broker, with its offsets, and its retry and dead-letter topics.

    Gives the brokers' names.
    """

    async def delete(one: BrokerAt) -> Void:
        return await admin.call(one.address, DeleteSubscriptiongroup(group, clean_offset))

    masters = await admin.masters(cluster)
    await admin.each(masters, delete)
    if topics:
        await delete_topic(admin, RETRY_PREFIX + group, cluster)
        await delete_topic(admin, DLQ_PREFIX + group, cluster)
    return [one.name for one in masters]


@command("group", "delete", "orbitmq admin group delete billing --keep-topics")
@click.argument("group")
@click.option(
    "--keep-offsets", is_flag=True, help="Keep the offsets: a later group of this name continues from them."
)
@click.option("--keep-topics", is_flag=True, help="Keep its retry and dead-letter topics.")
@click.option("-c", "--cluster", metavar="NAME", help="Only in this cluster.")
@yes_flag
async def show(
    admin: Admin, group: str, keep_offsets: bool, keep_topics: bool, cluster: str | None, yes: bool
) -> Done:
    """Delete GROUP, its offsets, its retries and its dead letters."""
    confirm(f"Delete group {group}{'' if keep_topics else ', its retries and dead letters'}?", yes)
    names = await delete_group(
        admin, group, clean_offset=not keep_offsets, topics=not keep_topics, cluster=cluster
    )
    return Done(f"group {group} is deleted on {', '.join(names)}", {"group": group, "brokers": names})
