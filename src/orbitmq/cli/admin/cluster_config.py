"""`orbitmq admin cluster config`: options of all brokers side by side."""

from __future__ import annotations

import click

from orbitmq.admin.admin import Admin
from orbitmq.admin.cluster_config import cluster_config
from orbitmq.admin.output import Column, Rows
from orbitmq.cli.admin.command import cluster_flags, command


@command(
    "cluster",
    "config",
    "orbitmq admin cluster config --different\norbitmq admin cluster config --filter flush",
)
@click.option("--different", is_flag=True, help="Only options on which brokers do not agree.")
@click.option(
    "--filter",
    "part",
    default="",
    show_default=False,
    metavar="TEXT",
    help="Only options whose name contains this.",
)
@cluster_flags
async def show(admin: Admin, different: bool, part: str, cluster: str | None, broker: str | None) -> Rows:
    """Options of all brokers side by side."""
    found = await cluster_config(admin, cluster, broker)
    return Rows(
        (Column("option", "Option"), *(Column(one.address, one.address) for one in found.brokers)),
        [
            (one.name, *one.values)
            for one in found.options
            if part.lower() in one.name.lower() and (one.differs or not different)
        ],
        "\n".join(f"{address}: {error}" for address, error in found.errors.items()),
    )
