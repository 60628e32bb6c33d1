"""`orbitmq prove --cluster`: nodes and links of a cluster fail, and the findings are a table."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median

import click

from orbitmq.cli.exits import ExitCode
from orbitmq.options import from_assignments, read_file
from orbitmq.plurals import counted
from orbitmq.testing.prove.cluster_trial import ClusterFindings, ClusterPlan, ClusterTrial
from orbitmq.testing.prove.service import CONTROL, RULES

NOT_THE_USERS = {
    "listenPort", "namesrvAddr", "brokerName", "brokerId", "brokerIP1", "brokerIP2", "haListenPort",
    "bindAddress", "storePathRootDir", "storePathCommitLog", "haMasterAddress", "controllerAddr",
    "advertisedPort", "brokerRole", "flushDiskType", "inSyncReplicas", "enableControllerMode",
    "metricsExporterType", "healthPort",
}  # fmt: skip
"""Options that the trial gives each broker by itself."""


def options_of(config: Path | None, assignments: Sequence[str]) -> dict[str, str]:
    """The user's options of brokers, without those that differ from broker to broker or follow from flags."""
    layers = [read_file(config).for_broker()] if config is not None else []
    layers.append(from_assignments(assignments).for_broker())
    given = {name: str(value) for layer in layers for name, value in layer.values.items()}
    return {name: value for name, value in given.items() if name not in NOT_THE_USERS}


def prove_cluster(
    plan: ClusterPlan, seed: int, show: Callable[[float, str], None], as_json: bool
) -> ExitCode:
    """Runs the trial and prints its findings; gives the exit code."""
    # Clients log each failure of a request. Here these are the matter itself, and counted.
    logging.getLogger("orbitmq.client").setLevel(logging.CRITICAL)
    found = asyncio.run(ClusterTrial(plan, seed, show).run())
    if as_json:
        click.echo(json.dumps(found.to_value(), indent=2))
    else:
        print_findings(found)
    return ExitCode.DONE if found.is_kept else ExitCode.FAILED


def print_findings(found: ClusterFindings) -> None:
    """Prints the findings as a table."""
    from rich.console import Console
    from rich.table import Table

    out = Console(width=max(110, Console().width) if not sys.stdout.isatty() else None, highlight=False)
    plan = found.plan
    kind = ", controllers" if plan.failover else ""
    shape = f"{counted(plan.masters, 'broker group')} of {1 + plan.slaves}{kind}"
    names = counted(plan.name_servers, "name server")
    out.print(f"\n[bold]{shape}, {names}, {plan.mode}, {plan.flush} flush[/bold]")
    out.print(
        f"{found.seconds:.0f} s, seed {found.seed}: {counted(found.faults, 'fault')}, "
        f"{found.acknowledged:,} messages acknowledged, {found.failed_sends:,} sends failed; "
        f"load average {found.load:.1f}"
    )
    table = Table("fault", "times", "held (s)", "producer waited (s)", "consumer waited (s)", "lost", "twice")
    for column in table.columns[1:]:
        column.justify = "right"
    for row in found.rows:
        table.add_row(
            "none, to compare" if row.kind == CONTROL else row.kind,
            str(row.times),
            f"{median(row.held):.1f}",
            _spread(row.producer),
            _spread(row.consumer),
            f"[red]{row.lost:,}" if row.lost else "0",
            f"{row.twice:,}",
        )
    out.print(table)
    out.print(
        "Waited: the longest time without an acknowledgement, or a delivery, of a fault: median, longest."
    )
    if plan.may_lose:
        out.print(
            f"Lost with their master, as it had reported beforehand: {found.lost_as_reported:,}. The oldest "
            f"message without a replica had waited for {found.most_unreplicated_seconds:.1f} s at most."
        )
    _print_promises(out.print, found.broken, found.examples)
    if found.failed:
        out.print(f"[red]{found.failed}")
    elif not found.broken and found.lost_as_reported:
        out.print(
            "Nothing else that was acknowledged is lost, nothing else was taken back, and order was kept."
        )
    elif not found.broken:
        out.print("Nothing that was acknowledged is lost, nothing was taken back, and order was kept.")


def _print_promises(
    out: Callable[[str], None], broken: Mapping[str, int], examples: Mapping[str, Sequence[str]]
) -> None:
    for rule, times in broken.items():
        out(f"[red]broken {counted(times, 'time')}: {RULES[rule]}: {'; '.join(examples[rule])}")


def _spread(values: Sequence[float]) -> str:
    return f"{median(values):.2f}, {max(values):.2f}"
