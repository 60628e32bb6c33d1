"""Our client and Apache's Java client on OrbitMQ, aiokafka and confluent-kafka on Kafka: one core each.

The broker has core 0 and the client core 1; rows take turns, and the other broker stands still meanwhile.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from benchmarks.brokers import Place, running
from benchmarks.install import compile_java, fetch, install
from benchmarks.processes import process_tree
from benchmarks.spark.kafka import kafka

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ROWS = {
    "awaited": "awaited one by one",
    "concurrent": "64 at a time",
    "submitted": "submitted",
    "batch": "batches of 100",
    "consume": "consumed",
}
CLIENTS = {
    "orbitmq": "OrbitMQ",
    "java": "Apache's Java client",
    "aiokafka": "aiokafka",
    "confluent": "confluent-kafka",
}
LACKING = {("java", "submitted"), ("confluent", "batch")}
"""Java's client sends no batches of its own accord, confluent-kafka's sends no others."""
FILLED = 600_000


@click.command()
@click.option("--work-dir", type=click.Path(path_type=Path), default=ROOT / ".cache" / "benchmarks")
@click.option("--orbitmq", help="The orbitmq command to measure. [default: the one beside this Python]")
@click.option("--kafka-python", default=sys.executable, help="A Python with aiokafka and confluent-kafka.")
@click.option("--rounds", default=3, help="Rounds; the table shows medians.")
@click.option("--warm-up", default=2.0, help="Seconds before each window.")
@click.option("--seconds", default=4.0, help="Length of each window.")
def main(
    work_dir: Path, orbitmq: str | None, kafka_python: str, rounds: int, warm_up: float, seconds: float
) -> None:
    """Measure clients beside each other, and print a table in Markdown."""
    installed = install(work_dir, orbitmq)
    jars, classes = work_dir / "kafka", work_dir / "client-classes"
    fetch(HERE.parent / "spark" / "pom.xml", jars, "Kafka")
    compile_java([HERE / "java" / "ClientLoad.java"], installed.jars, classes)
    folder = work_dir / "clients"
    shutil.rmtree(folder, ignore_errors=True)
    place = Place.fresh(folder / "orbitmq")
    with (
        running("orbitmq", installed, place) as ours,
        kafka(installed.java, jars, folder / "kafka") as theirs,
    ):
        pids = {"ours": ours.broker_pid, "theirs": theirs.pid}
        for pid in pids.values():
            for one in process_tree(pid):
                subprocess.run(["taskset", "-acp", "0", str(one)], check=True, capture_output=True)
        java = [installed.java, "-cp", f"{classes}:{installed.jars}/*", "ClientLoad"]
        python = [sys.executable, "-m", "benchmarks.clients.orbitmq_load"]
        commands: dict[str, tuple[str, str, list[str]]] = {
            "orbitmq": ("ours", ours.namesrv, python),
            "java": ("ours", ours.namesrv, java),
            "aiokafka": ("theirs", theirs.address, [kafka_python, "-m", "benchmarks.clients.aiokafka_load"]),
            "confluent": (
                "theirs",
                theirs.address,
                [kafka_python, "-m", "benchmarks.clients.confluent_load"],
            ),
        }

        def load(client: str, row: str, topic: str, *more: object) -> str:
            _, address, command = commands[client]
            words = [*command, row, address, topic, str(warm_up), str(seconds), *map(str, more)]
            return _run(["taskset", "-c", "1", *words])

        for topic in ("sent", "filled"):
            load("confluent", "create", topic)
        for client in ("orbitmq", "confluent"):
            load(client, "fill", "filled", FILLED)
        results = _rounds(rounds, commands, pids, load)
    print(_table(results))


def _rounds(
    rounds: int,
    commands: dict[str, tuple[str, str, list[str]]],
    pids: dict[str, int],
    load: Callable[..., str],
) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Every row of every client, round by round; the order turns around each time."""
    results: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for number in range(rounds):
        for row in ROWS:
            for client in sorted(commands, reverse=bool(number % 2)):
                if (client, row) in LACKING:
                    continue
                which = commands[client][0]
                other = next(pid for name, pid in pids.items() if name != which)
                with _stopped(other):
                    if row == "consume":
                        told = load(client, row, "filled", FILLED)
                    else:
                        told = load(client, row, "sent")
                one = json.loads(told.splitlines()[-1])
                results.setdefault((row, client), []).append(one)
                print(f"{number + 1} {row} {client}: {one}", file=sys.stderr, flush=True)
    return results


@contextmanager
def _stopped(pid: int) -> Iterator[None]:
    """A broker that stands still: its idle work is in nobody's figures."""
    os.killpg(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.killpg(pid, signal.SIGCONT)


def _run(command: list[str]) -> str:
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=300, start_new_session=True
    )
    if done.returncode:
        raise click.ClickException(f"{command}: {done.stdout[-500:]}{done.stderr[-2000:]}")
    return done.stdout


def _table(results: dict[tuple[str, str], list[dict[str, Any]]]) -> str:
    """Medians of the rounds: messages a second, and CPU µs of the client per message."""
    lines = [
        "| msg/s (client's CPU µs per message) | " + " | ".join(CLIENTS.values()) + " |",
        "| --- |" + " ---: |" * len(CLIENTS),
    ]
    for row, title in ROWS.items():
        cells = []
        for client in CLIENTS:
            found = [one for one in results.get((row, client), ()) if one["messages"]]
            if not found:
                cells.append("-")
                continue
            rate = statistics.median(one["messages"] / one["seconds"] for one in found)
            cpu = statistics.median(one["cpu_seconds"] / one["messages"] * 1e6 for one in found)
            cells.append(f"{rate:,.0f} ({cpu:.1f})")
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
