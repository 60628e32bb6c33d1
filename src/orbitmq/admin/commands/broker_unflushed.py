"""`orbitmq admin broker unflushed`: what a power cut would cost now."""

from __future__ import annotations

import click

from orbitmq.admin.admin import Admin
from orbitmq.admin.commands.cluster_list import Figures, cluster_figures, why_not
from orbitmq.admin.face import face
from orbitmq.admin.output import Column, Rows
from orbitmq.protocol.errors import OrbitError


@face("broker", "unflushed", "orbitmq admin broker unflushed\norbitmq admin broker unflushed broker-a --json")
@click.argument("broker", required=False)
async def show(admin: Admin, broker: str | None) -> Rows:
    """What is acknowledged and not yet on the disk, of all brokers or of BROKER: a power cut would cost it.

    Bytes of the commit log, and for how many seconds the oldest of them has waited. Under SYNC_FLUSH nothing
    is acknowledged before it is on the disk: what is shown then waits for its answer. Nothing is shown of
    brokers that do not say, Apache's among them.
    """
    figures = await cluster_figures(admin, broker=broker)
    return Rows(
        (
            Column("broker", "Broker"),
            Column("brokerId", "Id"),
            Column("address", "Address"),
            Column("unflushedBytes", "Bytes not on disk"),
            Column("unflushedSeconds", "Oldest, s"),
        ),
        [
            (one.name, one.broker_id, one.address, _whole(info, "unflushedBytes"), _seconds(info))
            for one, info in figures
        ],
        why_not(figures),
    )


def _whole(info: Figures | OrbitError, name: str) -> int | None:
    text = "" if isinstance(info, OrbitError) else info.get(name, "")
    return int(text) if text.isdigit() else None


def _seconds(info: Figures | OrbitError) -> float | None:
    waited_ms = _whole(info, "unflushedTimeMillis")
    return None if waited_ms is None else waited_ms / 1000
