"""`orbitmq prove`: what can be lost with a configuration, and what cannot, shown by killing brokers of it."""

from __future__ import annotations

import asyncio
import json
import random
import re
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from orbitmq.cli.exits import ExitCode
from orbitmq.plurals import counted

if TYPE_CHECKING:
    from rich.console import Console

    from orbitmq.testing.prove.brokers import Given
    from orbitmq.testing.prove.cluster_trial import ClusterPlan
    from orbitmq.testing.prove.seeds import Simulated
    from orbitmq.testing.prove.trial import Findings

UNITS = {"s": 1, "m": 60, "h": 3600}


def _seconds(ctx: click.Context, param: click.Parameter, value: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", value.strip())
    if found is None or float(found[1]) <= 0:
        raise click.BadParameter(f"{value!r} is no time: 90s, 10m, 2h")
    return float(found[1]) * UNITS[found[2] or "s"]


@click.command(
    epilog="""\b
Examples:
  orbitmq prove
  orbitmq prove --config broker.conf --for 10m
  orbitmq prove --set flushDiskType=SYNC_FLUSH --for 1h --json > proof.json
  orbitmq prove --beside apache --apache-home /opt/rocketmq
  orbitmq prove --cluster --faults 20 --mode sync-master --flush sync
  orbitmq prove --cluster --failover --for 10m --json
  orbitmq prove --cluster --faults 10 --only 'full disk of master'
  orbitmq prove --cluster --failover --set enableBlindMaster=true --only 'lose controllers' --only 'lose etcd'

\b
Exit code 0: every promise was kept; 1: one was broken, and what the broker left is kept.
Breaches by the broker beside it are counted and do not change the exit code."""
)
@click.option("--config", type=click.Path(path_type=Path, dir_okay=False), help="Option file of the broker.")
@click.option(
    "--set",
    "assignments",
    metavar="NAME=VALUE",
    multiple=True,
    help="Set an option of the broker. Repeatable.",
)
@click.option(
    "--for", "seconds", default="1m", metavar="TIME", callback=_seconds,
    help="Duration: 90s, 10m, 2h. A round in progress is finished."
)  # fmt: skip
@click.option("--faults", type=click.IntRange(1), help="With --cluster: number of faults, in place of --for.")
@click.option(
    "--only", metavar="KIND", multiple=True,
    help="With --cluster: a kind of fault, as the table names it. Repeatable. [default: all]",
)  # fmt: skip
@click.option("--seed", type=click.IntRange(0), help="Seed of the random choices. [default: random]")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@click.option("--beside", type=click.Choice(["apache"]), help="Also kill this broker in the same way.")
@click.option(
    "--apache-home",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="An unpacked release of Apache RocketMQ 5, or a folder with its jars. Needs java on PATH.",
)
@click.option("--cluster", is_flag=True, help="Let the nodes and links of a cluster fail, one by one.")
@click.option("--masters", type=click.IntRange(1, 16), default=1, help="Broker groups.")
@click.option("--slaves", type=click.IntRange(0, 4), default=1, help="Slaves of each master.")
@click.option("--namesrvs", type=click.IntRange(1, 8), default=2, help="Name servers.")
@click.option(
    "--mode",
    type=click.Choice(["async-master", "sync-master"]),
    default="sync-master",
    help="Answer a send before slaves have it (async-master), or after (sync-master).",
)
@click.option(
    "--flush",
    type=click.Choice(["async", "sync"]),
    default="sync",
    help="Answer a send before it is on the disk (async), or after (sync).",
)
@click.option(
    "--failover", is_flag=True, help="Let controllers elect masters, and fail too. Needs the program etcd."
)
@click.pass_context
def prove(
    ctx: click.Context,
    config: Path | None,
    assignments: tuple[str, ...],
    seconds: float,
    faults: int | None,
    only: tuple[str, ...],
    seed: int | None,
    as_json: bool,
    beside: str | None,
    apache_home: Path | None,
    cluster: bool,
    masters: int,
    slaves: int,
    namesrvs: int,
    mode: str,
    flush: str,
    failover: bool,
) -> None:
    """Kill a broker with your configuration again and again, and report lost messages.

    It runs in a temporary folder on ports of its own; your broker and its data are not touched. Clients send
    plain, batched, delayed, timed, popped and transactional messages while the broker is killed, stopped, and
    cut off from power: then every page that was not synced is lost, torn or kept by chance. Meanwhile the
    same broker runs on a simulated machine, with other chances each time.

    With --cluster the nodes of a local cluster are killed and paused, their disks fill up, and the links
    between them, and between clients and them, are cut, slow or lossy, or break their connections, while
    clients send and consume messages with unique ids. The table shows for each kind of fault how long
    nobody was served, and what was lost.
    """
    if not sys.platform.startswith("linux"):
        raise click.ClickException("`orbitmq prove` runs on Linux only, as the broker does.")
    _check_cluster_flags(ctx, cluster)
    if beside and apache_home is None:
        raise click.UsageError("--beside apache needs --apache-home, the folder of its release.", ctx)
    from orbitmq.cli.flags import ServerFlags
    from orbitmq.cli.settings import broker_settings
    from orbitmq.net.address import DEFAULT_NAMESRV
    from orbitmq.testing.prove.brokers import Given

    # A setting that no broker would start with is the command line's fault: no promise is broken by it.
    nodes: dict[str, object] = {"namesrvAddr": DEFAULT_NAMESRV}
    if failover:
        nodes |= {"enableControllerMode": True, "controllerAddr": DEFAULT_NAMESRV}
    broker_settings(ServerFlags(config=config, assignments=assignments), nodes)
    seed = random.SystemRandom().randint(1, 1 << 31) if seed is None else seed
    if cluster:
        from orbitmq.cli.prove_cluster import options_of
        from orbitmq.testing.prove.cluster_trial import ClusterPlan

        is_timed = faults is None or ctx.get_parameter_source("seconds") is not ParameterSource.DEFAULT
        plan = ClusterPlan(
            masters, slaves, namesrvs, mode, flush, failover, faults, seconds if is_timed else None,
            options_of(config, assignments), only,
        )  # fmt: skip
        ctx.exit(_break_cluster(ctx, plan, seed, as_json=as_json))
    held = _kill_one_broker(
        Given(config, assignments), seed, seconds, apache_home if beside else None, as_json=as_json
    )
    ctx.exit(ExitCode.DONE if held else ExitCode.FAILED)


def _kill_one_broker(
    given: Given, seed: int, seconds: float, apache_home: Path | None, *, as_json: bool
) -> bool:
    """Kills a broker, and Apache's if there is one, and prints the findings; true if promises were kept."""
    from orbitmq.testing.prove.trial import Trial

    found: list[Findings] = []
    with _Bar() if sys.stderr.isatty() else nullcontext(_quiet) as show:
        found.append(asyncio.run(Trial(given, seed, seconds, show).on_ours()))
        if apache_home is not None:
            found.append(asyncio.run(Trial(given, seed, seconds, show).on_apache(apache_home.absolute())))
    if as_json:
        click.echo(json.dumps([one.to_value() for one in found], indent=2))
    else:
        for one in found:
            print_findings(one)
    ours, *others = found
    return ours.is_kept and not any(other.failed for other in others)


def _break_cluster(ctx: click.Context, plan: ClusterPlan, seed: int, *, as_json: bool) -> ExitCode:
    """Breaks a cluster, prints the findings, and gives the exit code. Raises UsageError for a wrong plan."""
    from orbitmq.cli.prove_cluster import prove_cluster
    from orbitmq.testing.prove.faults import kinds_of

    if plan.failover and not plan.slaves:
        raise click.UsageError("--failover needs somebody to take over: give --slaves 1 or more", ctx)
    kinds = kinds_of(has_slaves=plan.slaves > 0, has_controllers=plan.failover, goes_blind=plan.goes_blind)
    for kind in plan.only:
        if kind not in kinds:
            raise click.UsageError(f"such a cluster has no {kind!r}, but {', '.join(kinds)}", ctx)
    with _Bar() if sys.stderr.isatty() else nullcontext(_quiet) as show:
        return prove_cluster(plan, seed, show, as_json)


def _check_cluster_flags(ctx: click.Context, cluster: bool) -> None:
    """Raises UsageError for flags that go with --cluster alone, or without it alone."""
    given = {
        name
        for name in ctx.params
        if ctx.get_parameter_source(name) not in (None, ParameterSource.DEFAULT) and ctx.params[name]
    }
    if cluster and given & {"beside", "apache_home"}:
        raise click.UsageError("--beside goes without --cluster", ctx)
    lacking = sorted(given & {"masters", "slaves", "namesrvs", "mode", "flush", "failover", "faults", "only"})
    if lacking and not cluster:
        raise click.UsageError(f"--{lacking[0]} needs --cluster", ctx)


def _quiet(share: float, line: str) -> None:
    """A display that shows nothing."""


class _Bar:
    """A progress bar on standard error."""

    def __enter__(self) -> _Bar:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        self._progress = Progress(
            BarColumn(), TimeElapsedColumn(), TextColumn("{task.description}"), console=Console(stderr=True),
            transient=True,
        )  # fmt: skip
        self._progress.start()
        self._task = self._progress.add_task("starting", total=1.0)
        return self

    def __call__(self, share: float, line: str) -> None:
        self._progress.update(self._task, completed=share, description=line)

    def __exit__(self, *_: object) -> None:
        self._progress.stop()


def print_findings(found: Findings) -> None:
    """Prints what a trial has found, for people."""
    from rich.console import Console
    from rich.table import Table

    from orbitmq.testing.load.history import RULES
    from orbitmq.testing.prove.trial import KINDS

    out = Console(width=max(100, Console().width) if not sys.stdout.isatty() else None)
    settings = ", ".join(f"{name}={value}" for name, value in found.settings.items())
    ends = found.ends
    out.print(f"\n[bold]{found.name}[/bold]  {settings}")
    out.print(
        f"{found.seconds:.0f} s, seed {found.seed}: {ends['kill']} kills, {ends['cut']} power cuts, "
        f"{ends['stop']} orderly stops; the slowest start took {found.slowest_start_seconds:.1f} s"
    )
    if not found.rows:
        out.print(f"[red]{found.failed}")
        return
    table = Table("acknowledged", "how many", "lost when the process dies", "lost when power fails")
    lost = bool(set(found.broken) & {"lost", "changed", "gaps"})
    for kind, row in found.rows.items():
        cut = f"{row.lost_to_cuts:,}" if row.lost_to_cuts else "none" if ends["cut"] else "not tried"
        if lost:
            cut = "see below" if ends["cut"] else cut
        table.add_row(KINDS[kind], f"{row.acknowledged:,}", "see below" if lost else "none", cut)
    out.print(table)
    taken = sum(row.lost_to_cuts for row in found.rows.values())
    promises = Table("promise", "held")
    for rule, text in RULES.items():
        times = found.broken.get(rule, 0)
        promises.add_row(
            text,
            f"[red]broken {counted(times, 'time')}: {found.examples[rule]}"
            if times
            else f"except for {counted(taken, 'message')} that power cuts took, as ASYNC_FLUSH allows"
            if taken and rule == "lost"
            else "yes",
        )
    out.print(promises)
    if found.settings.get("flushDiskType") == "ASYNC_FLUSH" and ends["cut"] and not lost:
        out.print(
            "[bold]Can be lost:[/bold] with ASYNC_FLUSH a power cut takes what was acknowledged and not "
            "flushed yet. "
            f"Here at most {found.most_lost:,} messages of the last {found.most_lost_ms / 1000:.1f} s, when "
            f"{found.most_at_risk_bytes:,} bytes were not on the disk. flushDiskType=SYNC_FLUSH loses none."
        )
    elif ends["cut"] and found.is_kept:
        out.print("[bold]Cannot be lost:[/bold] with SYNC_FLUSH nothing that was acknowledged.")
    if found.simulated is not None:
        _print_simulated(out, found.simulated)
    if found.failed:
        out.print(f"[red]{found.failed}")


def _print_simulated(out: Console, found: Simulated) -> None:
    lost = (
        f", except for {counted(found.lost_to_power_cuts, 'message')} that power cuts took, as ASYNC_FLUSH "
        "allows"
        if found.lost_to_power_cuts
        else ""
    )
    kept = f"{found.promises_kept:,} promises kept{lost}"
    out.print(f"{found.seeds:,} simulated runs, from seed {found.first}: {kept}")
    for seed, broken in found.failed.items():
        out.print(f"[red]seed {seed}: {'; '.join(broken)}[/red]; again: {found.again} {seed}")
