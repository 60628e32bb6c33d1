"""`python -m benchmarks.scale`: curves of memory and time over connections, queues, groups and messages."""

from __future__ import annotations

import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import click

from benchmarks.results import Results, Run
from benchmarks.scale import cold, shards
from benchmarks.scale.axes import AXES, PROPERTIES, Axis
from benchmarks.scale.probe import Probe
from benchmarks.scale.report import write_report
from benchmarks.watched import watched
from orbitmq.compiled import hot_modules

HERE = Path(__file__).parent
WORK = HERE.parent.parent / "build" / "scale"
COLD_BYTES = 1 << 30
QUICK_COLD_BYTES = 64 << 20
SHARD_ROUNDS = 3
WHAT = (*(axis.name for axis in AXES), "cold", "shards")
Figures = dict[str, Any]


@click.command()
@click.argument("what", nargs=-1, type=click.Choice(WHAT))
@click.option("--quick", is_flag=True, help="The two smallest sizes of each: shows that it works.")
@click.option(
    "--seconds",
    type=click.FloatRange(0.5),
    default=12.0,
    show_default=True,
    help="Of quiet, and of load on shards.",
)
@click.option("--results", type=click.Path(path_type=Path), default=HERE / "results.jsonl")
@click.option("--work-dir", type=click.Path(path_type=Path), default=WORK)
@click.option("--fresh", is_flag=True, help="Begin a new run even if the last one was interrupted.")
@click.option(
    "--report", is_flag=True, help="Write the tables of docs/trust/measurements.md and measure nothing."
)
def main(
    what: tuple[str, ...],
    quick: bool,
    seconds: float,
    results: Path,
    work_dir: Path,
    fresh: bool,
    report: bool,
) -> None:
    """Measures WHAT, everything if nothing is named. The same command goes on with an interrupted run.

    Needs Linux, some 20,000 open files, and 5 GB of disk.
    """
    book = Results(results)
    if report:
        for path in write_report(list(book.read())):
            click.echo(f"wrote {path}")
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    settings: dict[str, Any] = {"what": list(what or WHAT), "quick": quick, "seconds": seconds}
    run, goes_on = book.open_run(settings, facts(), fresh=fresh)
    if goes_on:
        click.echo(f"going on with run {run.id}: {len(run.rounds)} points are there already")
    try:
        for row, size, measure in _points(settings["what"], quick, seconds):
            if (row, size) in run.rounds:
                continue
            _measure(book, run, work_dir, row, size, measure)
    except KeyboardInterrupt:
        click.echo("stopped; the same command goes on from here")
        sys.exit(130)
    book.close_run(run)


def facts() -> dict[str, Any]:
    """Facts that have to be the same for a run to be comparable: the machine and the programs."""
    commit = subprocess.run(
        ["git", "-C", str(HERE), "rev-parse", "--short", "HEAD"], capture_output=True, text=True
    ).stdout.strip()
    return {
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "commit": commit,
        "compiled": all(path is not None for path in hot_modules().values()),
    }


def _points(
    what: list[str], quick: bool, seconds: float
) -> Iterator[tuple[str, int, Callable[[Path], Figures]]]:
    """Row, number of the round, and what measures it over a folder."""
    for axis in AXES:
        if axis.name in what:
            for size in axis.sizes[: 2 if quick else None]:
                yield (
                    axis.name,
                    size,
                    partial(_point, axis, size, seconds),
                )
    if "cold" in what:
        size = QUICK_COLD_BYTES if quick else COLD_BYTES
        yield "cold", size, partial(cold.measure, size, {**PROPERTIES})
    if "shards" in what:
        for number in range(1 if quick else SHARD_ROUNDS):
            for count in shards.COUNTS:
                yield (
                    f"shards-{count}",
                    number,
                    partial(shards.measure, count, seconds),
                )


def _measure(
    book: Results, run: Run, work_dir: Path, row: str, size: int, measure: Callable[[Path], Figures]
) -> None:
    folder = work_dir / row
    shutil.rmtree(folder, ignore_errors=True)
    before, _, _ = os.getloadavg()
    try:
        figures = measure(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    book.add_round(run, row, size, {"orbitmq": figures | {"load": round(before, 1)}})
    shown = "  ".join(
        f"{name} {value:,.1f}" for name, value in figures.items() if not name.endswith(("_p99_us", "_bytes"))
    )
    click.echo(f"{row} {size:,}: {shown}  load {before:.1f}")


def _point(axis: Axis, size: int, seconds: float, folder: Path) -> Figures:
    with watched(folder, **{**PROPERTIES, **dict(axis.properties)}) as broker, ExitStack() as stack:
        probe = Probe(broker)
        stack.callback(probe.close)
        probe.prepare()
        before = broker.memory_bytes()
        broker.longest_turn()
        began = time.perf_counter()
        figures = axis.fill(broker, probe, size, stack)
        figures["fill_s"] = time.perf_counter() - began
        figures |= {f"fill_{name}": value for name, value in broker.longest_turn().items()}
        time.sleep(2.0)
        broker.longest_turn()
        # Work done every so many seconds, however many there are: saving, sampling, registering, writing
        # queues.
        time.sleep(seconds)
        figures |= {f"quiet_{name}": value for name, value in broker.longest_turn().items()}
        figures |= probe.measure(1000)
        figures |= broker.longest_turn()
        figures["memory_bytes"] = broker.memory_bytes()
        figures["unit_bytes"] = (figures["memory_bytes"] - before) / size
    return figures


if __name__ == "__main__":
    main()
