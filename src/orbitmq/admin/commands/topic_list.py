"""`orbitmq admin topic list`: names of topics."""

from __future__ import annotations

import click

from orbitmq.admin.admin import Admin, BrokerAt, NoBroker
from orbitmq.admin.command import command
from orbitmq.admin.output import Column, Rows
from orbitmq.protocol.errors import OrbitError
from orbitmq.protocol.names import DLQ_PREFIX, RETRY_PREFIX
from orbitmq.protocol.requests.route import (
    GetAllTopicListFromNameserver,
    GetSystemTopicListFromNs,
    GetTopicsByCluster,
)
from orbitmq.protocol.requests.topic import GetSystemTopicListFromBroker


async def topic_names(admin: Admin, cluster: str | None = None) -> list[str]:
    """Names of all topics, or of those of one cluster, sorted."""
    if cluster is None:
        return sorted((await admin.ask(GetAllTopicListFromNameserver())).body.topic_list)
    return sorted((await admin.ask(GetTopicsByCluster(cluster))).body.topic_list)


async def system_topics(admin: Admin) -> set[str]:
    """Names of topics that brokers and name servers made for themselves."""
    names = set((await admin.ask(GetSystemTopicListFromNs())).body.topic_list)
    try:
        brokers = await admin.masters()
    except NoBroker:
        return names

    async def ask(one: BrokerAt) -> list[str]:
        try:
            return (await admin.call(one.address, GetSystemTopicListFromBroker())).body.topic_list
        except OrbitError:
            return []

    for some in await admin.each(brokers, ask):
        names.update(some)
    return names


async def own_topics(admin: Admin, names: list[str]) -> list[str]:
    """Those of `names` that are not the system's, nor for retries and dead letters."""
    system = await system_topics(admin)
    return [name for name in names if name not in system and not name.startswith((RETRY_PREFIX, DLQ_PREFIX))]


@command("topic", "list", "orbitmq admin topic list\norbitmq admin topic list --json")
@click.option("-c", "--cluster", metavar="NAME", help="Only topics of this cluster.")
@click.option("-a", "--all", "everything", is_flag=True, help="Include system, retry and dead-letter topics.")
async def show(admin: Admin, cluster: str | None, everything: bool) -> Rows:
    """Names of topics."""
    names = await topic_names(admin, cluster)
    hidden = 0
    if not everything:
        own = await own_topics(admin, names)
        hidden = len(names) - len(own)
        names = own
    note = f"({hidden} more with --all)" if hidden else ""
    return Rows((Column("topic", "Topic"),), [(name,) for name in names], note)
