"""`orbitmq admin broker unflushed`: what a power cut would cost now."""

from __future__ import annotations

import click

from orbitmq.admin.admin import Admin
from orbitmq.admin.clusters import broker_state, cluster_figures, why_not
from orbitmq.admin.output import Rows, columns
from orbitmq.cli.admin.command import command


@command(
    "broker", "unflushed", "orbitmq admin broker unflushed\norbitmq admin broker unflushed broker-a --json"
)
@click.argument("broker", required=False)
async def show(admin: Admin, broker: str | None) -> Rows:
    """Acknowledged data that is not on the disk yet, of all brokers or of BROKER: a power cut would lose it.

    Shows bytes of the commit log and the age of the oldest of them in seconds. Under SYNC_FLUSH these
    bytes are not acknowledged yet: nothing is acknowledged before it is on the disk. Brokers that do not
    report these values, such as Apache's, are left out.
    """
    figures = await cluster_figures(admin, broker=broker)
    return Rows.of(
        columns(
            "broker brokerId address unflushedBytes unflushedSeconds",
            brokerId="Id",
            unflushedBytes="Bytes not on disk",
            unflushedSeconds="Oldest, s",
        ),
        [broker_state(one, info) for one, info in figures],
        why_not(figures),
        broker="at.name",
    )
