"""`orbitmq admin ha status`, `orbitmq admin broker promote`."""

from __future__ import annotations

import click

from orbitmq.admin.admin import Admin
from orbitmq.admin.output import Done, Rows, columns
from orbitmq.admin.replication import moving
from orbitmq.admin.replication.old_master import OldMaster
from orbitmq.admin.replication.promoting import (
    ASYNC_MASTER,
    SYNC_MASTER,
    WAIT_SECONDS,
    Promotion,
    PromotionRequest,
    promote,
)
from orbitmq.admin.replication.status import replication_status
from orbitmq.cli.admin.command import cluster_flags, command, confirm_stopped
from orbitmq.flags import Seconds


@command("ha", "status", "orbitmq admin ha status\norbitmq admin ha status -b broker-a --json")
@cluster_flags
async def show_status(admin: Admin, cluster: str | None, broker: str | None) -> Rows:
    """How far the slaves of each broker group are: bytes and time behind, in sync, rate.

    --broker names a group, or any member of one. With access control this asks as a super user.
    """
    found = await replication_status(admin, cluster, broker)
    return Rows(
        columns(
            "broker brokerId address role logEnd behindBytes behindMillis inSync bytesPerSecond note",
            brokerId="Id",
            logEnd="End of log",
            behindBytes="Behind (bytes)",
            behindMillis="Behind (ms)",
            bytesPerSecond="Bytes/s",
        ),
        [
            (
                one.at.name,
                one.at.broker_id if one.at.broker_id >= 0 else None,
                one.at.address,
                one.role or None,
                one.log_end,
                one.behind_bytes,
                one.behind_ms,
                one.in_sync,
                one.bytes_per_second,
                one.note or None,
            )
            for one in found
        ],
    )


@command(
    "broker",
    "promote",
    "orbitmq admin broker promote broker-a\n"
    "orbitmq admin broker promote 10.0.0.2:10911 --role SYNC_MASTER\n"
    "orbitmq admin broker promote broker-a --fence",
)
@click.argument("broker")
@click.option(
    "--role",
    type=click.Choice([ASYNC_MASTER, SYNC_MASTER]),
    help="brokerRole of the new master. Without it that of the old master, else ASYNC_MASTER.",
)
@click.option(
    "--old-master",
    default="",
    show_default=False,
    metavar="HOST:PORT",
    help="The old master, if no name server knows it any more.",
)
@click.option("--fence", is_flag=True, help="Make a master that lives a slave first: they change places.")
@click.option(
    "--master-stopped",
    is_flag=True,
    help="The old master is stopped for certain: do not ask if its host answers nothing at all.",
)
@click.option(
    "--wait",
    type=Seconds(1),
    default=WAIT_SECONDS,
    help="Longest wait for the slave to have everything, and for name servers to know the new master.",
)
async def show_promotion(
    admin: Admin,
    broker: str,
    role: str | None,
    old_master: str,
    fence: bool,
    master_stopped: bool,
    wait: float,
) -> Done:
    """Make a slave the master of its group: BROKER is the group, or HOST:PORT of the slave.

    Of a group, the slave with most of the log is taken. The old master has to be gone: its host refuses
    connections, several times. If it lives, the command refuses, or makes it a slave first (--fence); if
    nothing can be found out about it, the command asks. Where a controller decides, it names `controller
    elect`. Start the old master again as a slave only, on an empty store unless it was stopped in order.
    """
    made = await promote(
        admin,
        PromotionRequest(broker, role or "", old_master, fence, wait),
        OldMaster(admin, confirm_stopped(master_stopped)),
        lambda line: click.echo(line, err=True),
    )
    return Done(
        f"{made.master} {'is' if made.before else 'already is'} the master of {made.group}, {made.role}",
        _values(made),
    )


@command(
    "broker",
    "move",
    "orbitmq admin broker move broker-a --to 10.0.0.9:10911\n"
    "orbitmq admin broker move 10.0.0.2:10911 --to 10.0.0.9:10911",
)
@click.argument("broker")
@click.option("--to", required=True, metavar="HOST:PORT", help="The address of the new broker.")
@click.option(
    "--wait",
    type=Seconds(1),
    default=moving.WAIT_SECONDS,
    help="Longest wait for the new broker to be started, and to have everything.",
)
async def show_move(admin: Admin, broker: str, to: str, wait: float) -> Done:
    """Move a broker to another host while clients work: the master of a group BROKER, or a HOST:PORT.

    The command shows how to start the new broker, waits until it has the log, topics and offsets, and makes
    it the master if the old one was that. Stop the old broker afterwards: it is a slave then. Run the command
    again if it was interrupted.
    """
    made = await moving.move(admin, broker, to, lambda line: click.echo(line, err=True), wait)
    role = f"{made.after} is {'the master' if made.was_master else 'a member'} of {made.group}"
    return Done(
        role if made.before == made.after else f"{role} in place of {made.before}: stop that one now",
        {"group": made.group, "before": made.before, "after": made.after, "wasMaster": made.was_master},
    )


def _values(made: Promotion) -> dict[str, object]:
    return {
        "group": made.group,
        "master": made.master,
        "role": made.role,
        "before": list(made.before),
        "changed": bool(made.before),
        "lackedBytes": made.lacked_bytes,
    }
