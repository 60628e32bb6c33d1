"""`orbitmq admin broker drain` and `undrain`: take a broker out of the routes of producers, and put it back.

Name servers do it: the broker itself keeps its permission, so that messages under way still arrive.
"""

from __future__ import annotations

import click

from orbitmq.admin.admin import Admin
from orbitmq.admin.maintenance import drain, name_servers, undrain
from orbitmq.admin.output import Done, Rows, columns
from orbitmq.cli.admin.command import command, confirm, yes_flag
from orbitmq.plurals import counted


@command("broker", "drain", "orbitmq admin broker drain broker-a")
@click.argument("broker", metavar="NAME")
@yes_flag
async def show_drain(admin: Admin, broker: str, yes: bool) -> Done:
    """Take broker NAME out of the routes of producers; consumers go on. Done before maintenance.

    The order lasts until the broker starts again or one of its topics changes.
    """
    confirm(f"Let nobody send to {broker} any more?", yes)
    topics = await drain(admin, broker)
    return Done(
        f"producers no longer get {broker} in the routes of {counted(topics, 'topic')}",
        {"broker": broker, "topics": topics},
    )


@command("broker", "undrain", "orbitmq admin broker undrain broker-a")
@click.argument("broker", metavar="NAME")
async def show_undrain(admin: Admin, broker: str) -> Done:
    """Put broker NAME back into the routes of producers."""
    topics = await undrain(admin, broker)
    return Done(
        f"producers get {broker} again in the routes of {counted(topics, 'topic')}",
        {"broker": broker, "topics": topics},
    )


@command("cluster", "namesrv", "orbitmq admin cluster namesrv --json")
async def show(admin: Admin) -> Rows:
    """Name servers, the brokers that each knows, and those that are drained."""
    found = await name_servers(admin)
    return Rows(
        columns("address state brokers drained"),
        [(one.address, "down" if one.error else "active", one.brokers, one.drained) for one in found],
        "\n".join(f"{one.address}: {one.error}" for one in found if one.error),
    )
