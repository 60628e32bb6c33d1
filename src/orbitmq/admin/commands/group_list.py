"""`orbitmq admin group list`: names and settings of groups."""

from __future__ import annotations

from dataclasses import dataclass

import click

from orbitmq.admin.admin import Admin, BrokerAt
from orbitmq.admin.command import cluster_flags, command
from orbitmq.admin.output import Column, Rows
from orbitmq.protocol.bodies.group import SubscriptionGroupConfig
from orbitmq.protocol.names import SYSTEM_GROUP_PREFIX, TOOLS_GROUP
from orbitmq.protocol.requests.group import GetAllSubscriptiongroupConfig

SYSTEM_GROUPS = frozenset(
    {
        TOOLS_GROUP,
        "FILTERSRV_CONSUMER",
        "SELF_TEST_C_GROUP",
        "CID_ONS-HTTP-PROXY",
        "CID_ONSAPI_PULL",
        "CID_ONSAPI_PERMISSION",
        "CID_ONSAPI_OWNER",
    }
)
"""Groups that every broker makes for itself, besides those that begin with CID_RMQ_SYS_."""


async def groups_on(admin: Admin, address: str) -> dict[str, SubscriptionGroupConfig]:
    """The groups of one broker by name."""
    reply = await admin.call(address, GetAllSubscriptiongroupConfig())
    return dict(sorted(reply.body.subscription_group_table.items())) if reply.body else {}


def is_system(group: str) -> bool:
    """True if a group belongs to the brokers themselves."""
    return group in SYSTEM_GROUPS or group.startswith(SYSTEM_GROUP_PREFIX)


@dataclass(slots=True)
class KnownGroup:
    """A consumer group as brokers know it."""

    config: SubscriptionGroupConfig
    """Its settings at the first of the brokers."""
    brokers: list[str]
    """Names of the brokers that know it."""


async def known_groups(
    admin: Admin, cluster: str | None = None, broker: str | None = None, *, everything: bool = False
) -> dict[str, KnownGroup]:
    """Groups by name; with `everything` the brokers' own, too."""

    async def ask(one: BrokerAt) -> tuple[str, dict[str, SubscriptionGroupConfig]]:
        return one.name, await groups_on(admin, one.address)

    known: dict[str, KnownGroup] = {}
    for name, groups in await admin.each(await admin.masters(cluster, broker), ask):
        for group, config in groups.items():
            if everything or not is_system(group):
                known.setdefault(group, KnownGroup(config, [])).brokers.append(name)
    return dict(sorted(known.items()))


@command("group", "list", "orbitmq admin group list\norbitmq admin group list --broker broker-a --json")
@click.option("-a", "--all", "everything", is_flag=True, help="Include the brokers' own groups.")
@cluster_flags
async def show(admin: Admin, everything: bool, cluster: str | None, broker: str | None) -> Rows:
    """Consumer groups, their settings and their brokers."""
    groups = await known_groups(admin, cluster, broker, everything=everything)
    return Rows(
        (
            Column("group", "Group"),
            Column("consumeEnable", "Enabled"),
            Column("broadcast", "May broadcast"),
            Column("orderly", "Ordered"),
            Column("retryQueues", "Retry queues"),
            Column("retryMax", "Max retries"),
            Column("brokers", "Brokers"),
        ),
        [
            (
                group,
                known.config.consume_enable,
                known.config.consume_broadcast_enable,
                known.config.consume_message_orderly,
                known.config.retry_queue_nums,
                known.config.retry_max_times,
                known.brokers,
            )
            for group, known in groups.items()
        ],
    )
