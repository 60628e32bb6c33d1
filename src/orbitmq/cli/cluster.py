"""`orbitmq cluster`: name servers, masters and slaves, or controllers and replicas, as local processes."""

from __future__ import annotations

from pathlib import Path

import click
from click.core import ParameterSource

from orbitmq.admin.output import Column, Rows
from orbitmq.protocol.errors import OrbitError
from orbitmq.testing.local_broker import StartFailed
from orbitmq.testing.local_cluster import FILE_NAME, FLUSHES, MODES, LocalCluster, NodeState

ACTIONS = ("start", "status", "kill", "stop")
COLUMNS = (
    Column("node", "node"),
    Column("role", "role"),
    Column("address", "address"),
    Column("state", "state"),
    Column("logEnd", "end of log"),
    Column("behindBytes", "bytes behind"),
)


@click.command(
    epilog="""\b
Examples:
  orbitmq cluster ./demo --masters 2 --slaves 1 --mode sync-master --flush sync
  orbitmq cluster ./demo --slaves 1 --failover
  orbitmq cluster ./demo status
  orbitmq cluster ./demo kill broker-a-0
  orbitmq cluster ./demo start broker-a-0
  orbitmq cluster ./demo stop

\b
All processes listen on the loopback only. DIR keeps the settings of the first start: another start takes no
others."""
)
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.argument("action", type=click.Choice(ACTIONS), default="start", required=False)
@click.argument("node", required=False)
@click.option("--masters", type=click.IntRange(1, 64), default=1, help="Broker groups.")
@click.option("--slaves", type=click.IntRange(0, 8), default=0, help="Slaves of each master.")
@click.option("--namesrvs", type=click.IntRange(1, 8), default=1, help="Name servers.")
@click.option(
    "--mode",
    type=click.Choice(list(MODES)),
    show_default="async-master, with --failover sync-master",
    help="Answer a send before slaves have it (async-master), or after (sync-master).",
)
@click.option(
    "--flush",
    type=click.Choice(list(FLUSHES)),
    default="async",
    help="Answer a send before it is on the disk (async), or after (sync).",
)
@click.option(
    "--failover",
    is_flag=True,
    help="Let controllers elect another master when one is gone. Needs --slaves and the program etcd.",
)
@click.option("--json", "as_json", is_flag=True, help="JSON instead of a table.")
@click.pass_context
def cluster(
    context: click.Context,
    folder: Path,
    action: str,
    node: str | None,
    masters: int,
    slaves: int,
    namesrvs: int,
    mode: str | None,
    flush: str,
    failover: bool,
    as_json: bool,
) -> None:
    """A cluster of processes on this machine: create and start it, show it, kill a node, stop it."""
    folder = folder.absolute()
    if action == "kill" and node is None:
        raise click.UsageError("kill needs the name of a node; `status` lists them")
    if failover and not slaves:
        raise click.UsageError("--failover needs somebody to take over: give --slaves 1 or more")
    try:
        if action == "start" and not (folder / FILE_NAME).exists():
            if node is not None:
                raise click.UsageError(f"there is no cluster in {folder} yet: start it without a node")
            if folder.is_dir() and any(folder.iterdir()):
                raise click.UsageError(f"{folder} is not empty and holds no cluster: name another folder")
            made = LocalCluster(
                folder,
                masters=masters,
                slaves=slaves,
                name_servers=namesrvs,
                mode=mode or ("sync-master" if failover else "async-master"),
                flush=flush,
                failover=failover,
            )
        else:
            made = LocalCluster.load(folder)
            _refuse_other_settings(context, made)
        if action == "status" and node is not None:
            made.node(node)
        _act(made, action, node)
    except OrbitError as error:
        raise click.ClickException(str(error)) from None
    except StartFailed as error:
        raise click.ClickException(f"{error}\n{_what_goes_on(folder)}") from None
    except KeyboardInterrupt:
        if action == "start":
            click.echo(_what_goes_on(folder), err=True)
        raise
    shown = [one for one in made.status() if action != "status" or node in (None, one.node.name)]
    _show(made, shown, as_json)


def _refuse_other_settings(context: click.Context, made: LocalCluster) -> None:
    """Raises UsageError if an option asks for a cluster other than the one that the folder has."""
    for name, there in made.settings().items():
        given = context.params[name]
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE and given != there:
            is_there = "without --failover" if name == "failover" else f"with --{name} {there}"
            raise click.UsageError(
                f"the cluster in {made.data_dir} was made {is_there}, and keeps that: name another folder"
            )


def _what_goes_on(folder: Path) -> str:
    return f"nodes that have started are still running: `orbitmq cluster {folder} stop` ends them"


def _act(made: LocalCluster, action: str, node: str | None) -> None:
    if action == "start":
        try:
            if node is None:
                made.start()
            else:
                made.start_node(node)
        finally:
            for name, master in made.demoted.items():
                click.echo(f"{name} starts as a slave: {master} was made the master of their group", err=True)
    elif action == "kill" and node is not None:
        made.kill(node)
    elif action == "stop":
        if node is None:
            made.halt()
        else:
            made.stop_node(node)


def _show(made: LocalCluster, states: list[NodeState], as_json: bool) -> None:
    rows = Rows(
        COLUMNS,
        [
            (
                state.node.name,
                state.role,
                state.node.address,
                "running" if state.is_running else "down",
                state.log_end if state.log_end >= 0 else None,
                state.behind_bytes if state.behind_bytes >= 0 else None,
            )
            for state in states
        ],
        note=f"name servers: {made.namesrv}",
    )
    if as_json:
        import json

        click.echo(json.dumps(rows.as_json()))
    else:
        rows.print()
