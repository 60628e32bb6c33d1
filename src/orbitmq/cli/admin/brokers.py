"""`orbitmq admin broker ...`: options and figures of a running broker."""

from __future__ import annotations

import click

from orbitmq.admin.admin import Admin
from orbitmq.admin.brokers import broker_config, broker_status, set_options
from orbitmq.admin.output import Done, Facts
from orbitmq.cli.admin.command import command
from orbitmq.flags import pairs_of


@command(
    "broker",
    "config",
    "orbitmq admin broker config broker-a\norbitmq admin broker config 127.0.0.1:10911 --filter flush",
)
@click.argument("broker")
@click.option(
    "--filter",
    "part",
    default="",
    show_default=False,
    metavar="TEXT",
    help="Only options whose name contains this.",
)
async def show_config(admin: Admin, broker: str, part: str) -> Facts:
    """All options of BROKER, a name or HOST:PORT."""
    [address, *_] = await admin.addresses(broker)
    options = await broker_config(admin, address)
    return Facts({name: value for name, value in options.items() if part.lower() in name.lower()})


@command("broker", "set", "orbitmq admin broker set broker-a brokerPermission=4")
@click.argument("broker")
@click.argument("assignments", metavar="NAME=VALUE...", nargs=-1, required=True)
async def show_set(admin: Admin, broker: str, assignments: tuple[str, ...]) -> Done:
    """Set options of BROKER, a name or HOST:PORT. If one is refused, none is set."""
    options = dict(pairs_of(assignments))
    addresses = await set_options(admin, broker, options)
    return Done(
        f"set {', '.join(options)} on {', '.join(addresses)}", {"options": options, "brokers": addresses}
    )


@command(
    "broker", "status", "orbitmq admin broker status broker-a\norbitmq admin broker status 127.0.0.1:10911"
)
@click.argument("broker")
async def show_status(admin: Admin, broker: str) -> Facts:
    """All metrics of BROKER, a name or HOST:PORT."""
    [address, *_] = await admin.addresses(broker)
    return Facts(await broker_status(admin, address))
