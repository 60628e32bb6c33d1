"""`orbitmq admin group create`: create a consumer group, or change it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from orbitmq.admin.admin import Admin
from orbitmq.admin.commands.group_list import groups_on
from orbitmq.admin.face import cluster_flags, face
from orbitmq.admin.output import Done
from orbitmq.protocol.bodies.group import SubscriptionGroupConfig
from orbitmq.protocol.requests.group import UpdateAndCreateSubscriptiongroup


async def create_group(admin: Admin, address: str, config: SubscriptionGroupConfig) -> None:
    """Makes a group on one broker what `config` says, in all its settings; attributes need their signs."""
    await admin.call(address, UpdateAndCreateSubscriptiongroup(config))


@face("group", "create", "orbitmq admin group create billing --max-retries 3")
@click.argument("group")
@click.option(
    "--max-retries", type=click.IntRange(0), help="Deliveries again before the dead letters. [default: 16]"
)
@click.option("--retry-queues", type=click.IntRange(0), help="Queues of its retry topic. [default: 1]")
@click.option(
    "--enable/--disable", "enabled", default=None, help="Whether it may consume. [default: enabled]"
)
@click.option("--broadcast/--no-broadcast", default=None, help="Whether it may broadcast. [default: yes]")
@click.option("--orderly/--no-orderly", default=None, help="Whether it consumes in order. [default: no]")
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
    """Create GROUP on all masters. Where it is there already, only what is given changes."""
    given: dict[str, Any] = {
        "retry_max_times": max_retries,
        "retry_queue_nums": retry_queues,
        "consume_enable": enabled,
        "consume_broadcast_enable": broadcast,
        "consume_message_orderly": orderly,
    }
    changes = {name: value for name, value in given.items() if value is not None}
    masters = await admin.masters(cluster, broker)
    for one in masters:
        present = (await groups_on(admin, one.address)).get(group) or SubscriptionGroupConfig(group)
        await create_group(admin, one.address, replace(present, attributes={}, **changes))
    names = [one.name for one in masters]
    return Done(f"group {group} is on {', '.join(names)}", {"group": group, "brokers": names})
