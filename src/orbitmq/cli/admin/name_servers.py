"""`orbitmq admin namesrv`: options of name servers."""

from __future__ import annotations

import click

from orbitmq.admin.admin import Admin
from orbitmq.admin.name_servers import namesrv_config, set_namesrv_options
from orbitmq.admin.output import Column, Done, Rows
from orbitmq.cli.admin.command import command
from orbitmq.flags import pairs_of


@command("namesrv", "config", "orbitmq admin namesrv config")
@click.option("--server", metavar="HOST:PORT", help="Only this name server.")
async def show(admin: Admin, server: str | None) -> Rows:
    """All options of the name servers."""
    servers = [server] if server else list(admin.namesrv)
    found = [
        (address, name, value)
        for address in servers
        for name, value in (await namesrv_config(admin, address)).items()
    ]
    return Rows(
        (Column("server", "Name server"), Column("option", "Option"), Column("value", "Value")), found
    )


@command("namesrv", "set", "orbitmq admin namesrv set logLevel=debug")
@click.argument("assignments", metavar="NAME=VALUE...", nargs=-1, required=True)
@click.option("--server", metavar="HOST:PORT", help="Only this name server.")
async def show_set(admin: Admin, assignments: tuple[str, ...], server: str | None) -> Done:
    """Set options of the running name servers."""
    options = dict(pairs_of(assignments))
    servers = await set_namesrv_options(admin, options, server)
    return Done(f"set {', '.join(options)} on {', '.join(servers)}", {"options": options, "servers": servers})
