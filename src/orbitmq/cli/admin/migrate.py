"""`orbitmq migrate`, and `orbitmq admin migrate`: an Apache cluster becomes one of OrbitMQ, or back."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import click

from orbitmq.admin.admin import Admin
from orbitmq.admin.migration.checks import BLOCKED, OPEN, check_group
from orbitmq.admin.migration.journal import MigrationJournal
from orbitmq.admin.migration.plan import plan_group
from orbitmq.admin.migration.switching import Switch, Timeouts
from orbitmq.admin.output import Done, Rows, columns
from orbitmq.admin.replication.old_master import Stopped
from orbitmq.admin.replication.survey import APACHE, MAKES, ORBITMQ, survey
from orbitmq.cli.admin.command import COMMANDS, command, confirm_stopped, epilog
from orbitmq.flags import Seconds, all_of
from orbitmq.plurals import counted

DEFAULT_JOURNAL = "orbitmq-migrate.json"


_to_flag = click.option(
    "--to", type=click.Choice([ORBITMQ, APACHE]), default=ORBITMQ, help="The make to move to."
)
_group_and_cluster = all_of(
    click.argument("group", required=False),
    click.option("-c", "--cluster", metavar="NAME", help="Only this cluster."),
)


@command("migrate", "plan", "orbitmq migrate plan\norbitmq migrate plan broker-a --to apache --json")
@_group_and_cluster
@_to_flag
async def plan(admin: Admin, group: str | None, cluster: str | None, to: str) -> Rows:
    """List the steps of a migration, for every broker group or for GROUP, as it is now.

    Nothing is changed.
    """
    found = await survey(admin, cluster, group)
    steps = [step for one in found for step in plan_group(one, to, ";".join(admin.namesrv))]
    left = sum(step.state == OPEN for step in steps)
    return Rows(
        columns("group step state what command"),
        [(step.group, step.number, step.state, step.what, step.command or None) for step in steps],
        f"{counted(left, 'step')} to {MAKES[to]}",
    )


@command("migrate", "check", "orbitmq migrate check\norbitmq migrate check broker-a --json")
@_group_and_cluster
@_to_flag
async def check(admin: Admin, group: str | None, cluster: str | None, to: str) -> Rows:
    """Say what stands in the way of a migration, and what is done: versions, options, replicas, offsets.

    Nothing is changed.
    """
    checks = [row for one in await survey(admin, cluster, group) for row in await check_group(admin, one, to)]
    blocked = sum(row.state == BLOCKED for row in checks)
    return Rows.of(
        columns("group subject state detail"),
        checks,
        f"{counted(blocked, 'finding')} in the way" if blocked else "nothing is in the way",
    )


@command(
    "migrate",
    "switch",
    "orbitmq migrate switch broker-a --stop-command 'ssh old-host mqshutdown broker'\n"
    "orbitmq migrate switch broker-a --undo",
)
@click.argument("group")
@_to_flag
@click.option(
    "--stop-command",
    metavar="COMMAND",
    help="Stops the old master. Without it you stop it when the command asks you to.",
)
@click.option(
    "--start-command",
    metavar="COMMAND",
    help="With --to apache: starts the slave's broker again, as the master.",
)
@click.option(
    "--drain",
    type=Seconds(0),
    default=35.0,
    help="Time for clients to turn to other groups: they look routes up every 30 s.",
)
@click.option(
    "--wait",
    type=Seconds(1),
    default=600.0,
    help="Longest wait for the slave to have everything, and for the old master to be gone.",
)
@click.option(
    "--journal",
    type=click.Path(dir_okay=False, path_type=Path),
    default=DEFAULT_JOURNAL,
    help="File that notes how far it is.",
)
@click.option(
    "--master-stopped",
    is_flag=True,
    help="The old master is stopped for certain: do not ask if its host answers nothing at all.",
)
@click.option("--undo", is_flag=True, help="Let the old master take messages again, while it is the master.")
async def switch(
    admin: Admin,
    group: str,
    to: str,
    stop_command: str | None,
    start_command: str | None,
    drain: float,
    wait: float,
    journal: Path,
    master_stopped: bool,
    undo: bool,
) -> Done:
    """Make a slave of the other make the master of GROUP.

    Clients turn to other groups, the master refuses what still comes, the slave gets everything, the master
    is stopped, the slave is promoted. Only a host that refuses connections, several times, counts as stopped;
    for one that answers nothing the command asks. At any doubt it ends with an error and changes nothing
    more. Run the same command again to go on, also after it was killed.
    """
    steps = Switch(
        admin,
        MigrationJournal(journal),
        lambda line: click.echo(line, err=True),
        timeouts=Timeouts(drain=drain, level=wait, stop=wait),
        stop_master=_runs(stop_command) if stop_command else None,
        start_master=_runs(start_command) if start_command else None,
        confirm=confirm_stopped(master_stopped),
    )
    if undo:
        await steps.undo(group)
        return Done(f"{group} is as it was")
    record = await steps.run(group, to)
    return Done(
        f"{record.target} is the master of {group}",
        {"group": group, "master": record.target, "before": record.master},
    )


def _runs(command: str) -> Callable[[], Awaitable[None]]:
    """Runs a command of the user's in a shell. Raises Stopped if it fails."""

    async def run() -> None:
        process = await asyncio.create_subprocess_shell(
            command, stdin=asyncio.subprocess.DEVNULL, stdout=sys.stderr
        )
        code = await process.wait()
        if code:
            raise Stopped(
                f"`{command}` ended with {code}: nothing more was done. Run the same command again to go on"
            )

    return run


migrate = click.Group(
    "migrate",
    commands=COMMANDS["migrate"],
    help="Move a live cluster from Apache RocketMQ to OrbitMQ, or back, group by group.",
    epilog=epilog(
        ["orbitmq migrate plan", "orbitmq migrate check broker-a", "orbitmq migrate switch broker-a"]
    ),
)
