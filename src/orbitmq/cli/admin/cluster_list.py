"""`orbitmq admin cluster list`: every broker with its rates."""

from __future__ import annotations

from orbitmq.admin.admin import Admin
from orbitmq.admin.clusters import broker_state, cluster_figures, why_not
from orbitmq.admin.output import Rows, columns
from orbitmq.cli.admin.command import cluster_flags, command


@command("cluster", "list", "orbitmq admin cluster list\norbitmq admin cluster list --json")
@cluster_flags
async def show(admin: Admin, cluster: str | None, broker: str | None) -> Rows:
    """All brokers with their version, rates and disk use.

    A broker that does not answer is `down`. A broker that answers but refuses its metrics is `refusing`.
    """
    figures = await cluster_figures(admin, cluster, broker)
    return Rows.of(
        columns(
            "cluster broker brokerId address version state inTps outTps inToday outToday diskRatio",
            brokerId="Id",
            inTps="In/s",
            outTps="Out/s",
            diskRatio="Disk",
        ),
        [broker_state(one, info) for one, info in figures],
        why_not(figures),
        broker="at.name",
    )
