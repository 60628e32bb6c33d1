"""`orbitmq admin broker status`: all figures of a broker."""

from __future__ import annotations

import click

from orbitmq.admin.admin import Admin
from orbitmq.admin.command import command
from orbitmq.admin.output import Facts
from orbitmq.protocol.requests.admin import GetBrokerRuntimeInfo


async def broker_status(admin: Admin, address: str) -> dict[str, str]:
    """The runtime info of one broker, by name."""
    return dict(sorted((await admin.call(address, GetBrokerRuntimeInfo())).body.table.items()))


@command(
    "broker", "status", "orbitmq admin broker status broker-a\norbitmq admin broker status 127.0.0.1:10911"
)
@click.argument("broker")
async def show(admin: Admin, broker: str) -> Facts:
    """All metrics of BROKER, a name or HOST:PORT."""
    [address, *_] = await admin.addresses(broker)
    return Facts(await broker_status(admin, address))
