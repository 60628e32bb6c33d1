"""`python -m benchmarks`: OrbitMQ beside Apache RocketMQ, one client, one run, one table."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from dataclasses import replace
from pathlib import Path

import click
from rich.console import Console

from benchmarks.bench import Bench, in_turn
from benchmarks.brokers import NAMES, TITLES, Installed
from benchmarks.install import compiled, facts_of, install, without_compiled
from benchmarks.report import write_report
from benchmarks.results import Results, Run
from benchmarks.rows import QUICK, Row, Sizes, choose
from benchmarks.table import show

HERE = Path(__file__).parent
WORK = HERE.parent / "build" / "benchmarks"
FULL_RUN_BYTES = 150 << 30
"""Bytes that all rows leave in the stores of both brokers, together, on a fast machine."""
console = Console(width=None if sys.stdout.isatty() else 132, highlight=False)


@click.command()
@click.option(
    "--quick", is_flag=True, help="Shows in minutes that everything works; the figures say nothing."
)
@click.option(
    "--rows",
    multiple=True,
    help="Only rows whose names begin so: sync64, async-128 …; core: those with a goal.",
)
@click.option("--rounds", type=click.IntRange(1), help="Rounds of the core rows; the table shows medians.")
@click.option("--other-rounds", type=click.IntRange(1), help="Rounds of every other row.")
@click.option("--seconds", type=click.IntRange(1), help="Measured seconds of each send row and round.")
@click.option("--warm-up", type=click.IntRange(0), help="Seconds of load on each broker before round 1.")
@click.option("--fill", type=click.IntRange(1000), help="Messages in the topics that consume rows read.")
@click.option("--starts", type=click.IntRange(0), help="Cold starts of each broker.")
@click.option("--side", type=click.Choice([*NAMES, "both"]), default="both", help="Only one of the brokers.")
@click.option("--orbitmq", "command", help="The orbitmq command to measure. Default: beside this Python.")
@click.option("--log-mb", type=click.IntRange(1), help="Size of the log that a killed broker recovers.")
@click.option("--interpreted", is_flag=True, help="Measure OrbitMQ without its compiled modules.")
@click.option("--results", type=click.Path(path_type=Path), default=HERE / "results.jsonl")
@click.option("--work-dir", type=click.Path(path_type=Path), default=WORK, help="Jars, classes and stores.")
@click.option("--fresh", is_flag=True, help="Begin a new run even if the last one was interrupted.")
@click.option("--show-last", is_flag=True, help="Print the table of the last run and measure nothing.")
@click.option(
    "--report", is_flag=True, help="Write the tables of docs/trust/measurements.md and measure nothing."
)
def main(
    quick: bool,
    rows: tuple[str, ...],
    side: str,
    command: str | None,
    interpreted: bool,
    results: Path,
    work_dir: Path,
    fresh: bool,
    show_last: bool,
    report: bool,
    **given: int | None,
) -> None:
    """Measures OrbitMQ beside Apache RocketMQ 5.4.0, in turn, with Apache's own Java client.

    Needs Linux, a JDK 17 or newer, Maven for the download of Apache's jars, and up to 150 GB of disk for a
    full run. Every figure is appended to the results file at once; the same command goes on with an
    interrupted run. The exit code never depends on a figure.
    """
    book = Results(results)
    if show_last:
        runs = list(book.read())
        if not runs:
            raise click.ClickException(f"{results} holds no run")
        show(console, runs[-1])
        return
    if report:
        for path in write_report(list(book.read())):
            console.print(f"wrote {path}")
        return
    sizes = replace(QUICK if quick else Sizes(), **{k: v for k, v in given.items() if v is not None})
    brokers = list(NAMES) if side == "both" else [side]
    chosen = choose(rows)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what was started has to be stopped
    installed = install(work_dir, command)
    if interpreted:
        installed = replace(installed, source=without_compiled(installed.orbitmq, work_dir / "interpreted"))
    is_compiled = not interpreted and compiled(installed.orbitmq) if "orbitmq" in brokers else None
    settings = {"rows": [row.name for row in chosen], "brokers": brokers, "sizes": sizes.as_dict()}
    run, goes_on = book.open_run(settings, facts_of(installed, is_compiled), fresh=fresh)
    _say_before(run, goes_on, sizes, is_compiled, work_dir)
    try:
        _measure_all(run, book, installed, work_dir, chosen, brokers, sizes)
    except KeyboardInterrupt:
        console.print("\nStopped. The same command goes on from here.")
        show(console, run)
        sys.exit(130)
    book.close_run(run)
    show(console, run)
    console.print(f"Appended to {results} as run {run.id}.")


def _measure_all(
    run: Run,
    book: Results,
    installed: Installed,
    work_dir: Path,
    rows: list[Row],
    brokers: list[str],
    sizes: Sizes,
) -> None:
    bench = Bench(installed, work_dir, brokers, sizes, console)
    for number in range(sizes.starts):
        for name in in_turn(brokers, number):
            if len(run.starts.get(name, ())) <= number:
                seconds, idle_bytes = bench.start(name)
                book.add_start(run, name, seconds, idle_bytes)
                console.print(
                    f"start {number + 1}: {TITLES[name]} {seconds:.2f} s, {idle_bytes / 1e6:,.0f} MB idle"
                )
    rounds = max((sizes.rounds_of(row) for row in rows), default=0)
    todo = [
        (row, number)
        for number in range(rounds)
        for row in rows
        if number < sizes.rounds_of(row) and (row.name, number) not in run.rounds
    ]
    for row, number, figures in bench.measure(todo):
        book.add_round(run, row.name, number, figures)


def _say_before(run: Run, goes_on: bool, sizes: Sizes, is_compiled: bool | None, work_dir: Path) -> None:
    facts = run.facts
    console.print(f"{facts['cores']} cores, {facts['cpu']}, Linux {facts['kernel']}, {facts['java']}")
    if goes_on:
        console.print(f"Going on with run {run.id}: {len(run.rounds)} rounds are there already.")
    if is_compiled is False:
        console.print("[yellow]OrbitMQ runs interpreted here: its compiled modules are what users get.")
    if sizes.warm_up < 15:
        console.print("[yellow]A warm-up below 15 s: Apache's JIT compiler is not done; figures say nothing.")
    free_bytes = shutil.disk_usage(work_dir).free
    if free_bytes < FULL_RUN_BYTES:
        console.print(
            f"[yellow]{free_bytes >> 30} GiB of disk are free, and a full run takes more. On a disk that is "
            "full by three quarters Apache's broker cleans up under the test's hands. A run that is stopped "
            "and started again goes on with empty stores."
        )
    load, _, _ = os.getloadavg()
    if load > 0.5:
        console.print(f"[yellow]The machine is busy (load {load:.1f}): expect noise.")


if __name__ == "__main__":
    main()
