"""`orbitmq admin group create`: create a consumer group, or change it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import click

from orbitmq.admin.admin import Admin
from orbitmq.admin.command import cluster_flags, command
from orbitmq.admin.commands.group_list import groups_on
from orbitmq.admin.output import Done
from orbitmq.protocol.bodies.group import SubscriptionGroupConfig
from orbitmq.protocol.requests.group import UpdateAndCreateSubscriptiongroup


async def create_group(admin: Admin, address: str, config: SubscriptionGroupConfig) -> None:
    """Makes a group on one broker what `config` says, in all its settings; attributes need their signs."""
    await admin.call(address, UpdateAndCreateSubscriptiongroup(config))


async def create_group_on_masters(
    admin: Admin,
    group: str,
    changes: Mapping[str, Any],
    cluster: str | None = None,
    broker: str | None = None,
) -> list[str]:
    """Creates a group on all masters, or changes of it what `changes` names; gives the brokers' names."""
    masters = await admin.masters(cluster, broker)
    for one in masters:
        present = (await groups_on(admin, one.address)).get(group) or SubscriptionGroupConfig(group)
        await create_group(admin, one.address, replace(present, attributes={}, **changes))
    return [one.name for one in masters]


@command("group", "create", "orbitmq admin group create billing --max-retries 3")
@click.argument("group")
@click.option(
    "--max-retries",
    type=click.IntRange(0),
    help="Redeliveries before a message becomes a dead letter. [default: 16]",
)
@click.option(
    "--retry-queues", type=click.IntRange(0), help="Queues of the group's retry topic. [default: 1]"
)
@click.option(
    "--enable/--disable", "enabled", default=None, help="Let the group consume, or not. [default: enabled]"
)
@click.option(
    "--broadcast/--no-broadcast", default=None, help="Allow broadcast consumption, or not. [default: yes]"
)
@click.option("--orderly/--no-orderly", default=None, help="Consume in order, or not. [default: no]")
@cluster_flags
async def show(
    admin: Admin,
    group: str,
    max_retries: int | None,
    retry_queues: int | None,
    enabled: bool | None,
    broadcast: bool | None,
    orderly: bool | None,
    cluster: str | None,
    broker: str | None,
) -> Done:
    """Create GROUP on all masters. If it exists, only the given settings change."""
    given: dict[str, Any] = {
        "retry_max_times": max_retries,
        "retry_queue_nums": retry_queues,
        "consume_enable": enabled,
        "consume_broadcast_enable": broadcast,
        "consume_message_orderly": orderly,
    }
    changes = {name: value for name, value in given.items() if value is not None}
    names = await create_group_on_masters(admin, group, changes, cluster, broker)
    return Done(f"group {group} is on {', '.join(names)}", {"group": group, "brokers": names})
