"""`python -m benchmarks`: OrbitMQ beside Apache RocketMQ, one client, one run, one table."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from benchmarks.bench import Bench, in_turn
from benchmarks.brokers import NAMES, TITLES, Installed
from benchmarks.report import write_report
from benchmarks.results import Results, Run
from benchmarks.rows import QUICK, Row, Sizes, choose
from benchmarks.table import show

HERE = Path(__file__).parent
WORK = HERE.parent / "build" / "benchmarks"
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
@click.option("--report", is_flag=True, help="Write the tables of docs/performance.md and measure nothing.")
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

    Needs Linux, a JDK 17 or newer, Maven for the download of Apache's jars, and about 20 GB of disk for a
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
    installed = _install(work_dir, command)
    if interpreted:
        installed = replace(installed, source=_without_compiled(installed.orbitmq, work_dir / "interpreted"))
    compiled = not interpreted and _compiled(installed.orbitmq) if "orbitmq" in brokers else None
    settings = {"rows": [row.name for row in chosen], "brokers": brokers, "sizes": sizes.as_dict()}
    run, goes_on = book.open_run(settings, _facts(installed, compiled), fresh=fresh)
    _say_before(run, goes_on, sizes, compiled)
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


def _install(work_dir: Path, command: str | None) -> Installed:
    """Finds Java and OrbitMQ, fetches Apache's jars once and compiles the load generator."""
    if sys.platform != "linux":
        raise click.ClickException("the benchmark reads /proc and runs on Linux only")
    for tool in ("java", "javac", "mvn"):
        if shutil.which(tool) is None:
            raise click.ClickException(f"{tool} is not on PATH: a JDK 17 or newer and Maven are needed")
    orbitmq = command or str(Path(sys.executable).with_name("orbitmq"))
    if shutil.which(orbitmq) is None:
        raise click.ClickException(f"{orbitmq} is no command; run `make setup`, or name one with --orbitmq")
    work_dir.mkdir(parents=True, exist_ok=True)
    jars, classes = work_dir / "jars", work_dir / "classes"
    pom, sources = HERE / "pom.xml", sorted((HERE / "java").glob("*.java"))
    if _older(jars / ".done", pom):
        console.print("Fetching Apache RocketMQ 5.4.0 from Maven Central …")
        shutil.rmtree(jars, ignore_errors=True)
        _call("mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={jars}")
        (jars / ".done").touch()
    if any(_older(classes / ".done", source) for source in sources):
        _call("javac", "-nowarn", "-d", str(classes), "-cp", f"{jars}/*", *map(str, sources))
        (classes / ".done").touch()
    return Installed(jars, "java", orbitmq)


def _without_compiled(orbitmq: str, folder: Path) -> Path:
    """A copy of the installed modules without those that are compiled; the same files run interpreted."""
    python = Path(shutil.which(orbitmq) or orbitmq).with_name("python")
    find = "import orbitmq, pathlib; print(pathlib.Path(orbitmq.__file__).parent)"
    found = subprocess.run([str(python), "-c", find], capture_output=True, text=True, check=True, cwd="/")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(
        found.stdout.strip(),
        folder / "orbitmq",
        ignore=shutil.ignore_patterns("*.so", "*.pyd", "*.c", "__pycache__"),
    )
    return folder


def _older(made: Path, source: Path) -> bool:
    return not made.exists() or made.stat().st_mtime < source.stat().st_mtime


def _call(*command: str) -> None:
    try:
        subprocess.run(command, check=True)
    except subprocess.CalledProcessError as error:
        raise click.ClickException(f"{command[0]} failed with exit code {error.returncode}") from None


def _compiled(orbitmq: str) -> bool:
    """Whether the hot modules of the measured installation are compiled."""
    python = Path(shutil.which(orbitmq) or orbitmq).with_name("python")
    check = [str(python), "-m", "orbitmq.compiled", "--expect", "all"]
    return subprocess.run(check, capture_output=True, cwd="/").returncode == 0


def _facts(installed: Installed, compiled: bool | None) -> dict[str, Any]:
    java = subprocess.run([installed.java, "-version"], capture_output=True, text=True).stderr
    cpu = next(
        (
            line.split(":")[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    commit = subprocess.run(
        ["git", "-C", str(HERE), "rev-parse", "--short", "HEAD"], capture_output=True, text=True
    ).stdout.strip()
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "java": java.splitlines()[0] if java else "?",
        "python": platform.python_version(),
        "commit": commit,
        "compiled": compiled,
    }


def _say_before(run: Run, goes_on: bool, sizes: Sizes, compiled: bool | None) -> None:
    facts = run.facts
    console.print(f"{facts['cores']} cores, {facts['cpu']}, Linux {facts['kernel']}, {facts['java']}")
    if goes_on:
        console.print(f"Going on with run {run.id}: {len(run.rounds)} rounds are there already.")
    if compiled is False:
        console.print("[yellow]OrbitMQ runs interpreted here: its compiled modules are what users get.")
    if sizes.warm_up < 15:
        console.print("[yellow]A warm-up below 15 s: Apache's JIT compiler is not done; figures say nothing.")
    load, _, _ = os.getloadavg()
    if load > 0.5:
        console.print(f"[yellow]The machine is busy (load {load:.1f}): expect noise.")


if __name__ == "__main__":
    main()
