"""`orbitmq admin broker config`: the options of a running broker."""

from __future__ import annotations

import click

from orbitmq.admin.admin import Admin
from orbitmq.admin.command import command
from orbitmq.admin.output import Facts
from orbitmq.protocol.requests.admin import GetBrokerConfig


async def broker_config(admin: Admin, address: str) -> dict[str, str]:
    """Every option of one broker, by Apache's name. The lines of the answer are no escaped properties."""
    body = (await admin.call(address, GetBrokerConfig())).body
    pairs = (line.partition("=") for line in bytes(body or b"").decode("utf-8", "replace").splitlines())
    return {name: value for name, equals, value in pairs if equals}


@command(
    "broker",
    "config",
    "orbitmq admin broker config broker-a\norbitmq admin broker config 127.0.0.1:10911 --filter flush",
)
@click.argument("broker")
@click.option("--filter", "part", default="", metavar="TEXT", help="Only options whose name contains this.")
async def show(admin: Admin, broker: str, part: str) -> Facts:
    """All options of BROKER, a name or HOST:PORT."""
    [address, *_] = await admin.addresses(broker)
    options = await broker_config(admin, address)
    return Facts({name: value for name, value in options.items() if part.lower() in name.lower()})
