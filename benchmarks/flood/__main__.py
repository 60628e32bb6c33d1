"""`python -m benchmarks.flood`: a well-behaved client beside each kind of those that are not."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from benchmarks.flood.offenders import OFFENDERS, fill
from benchmarks.flood.report import write_report
from benchmarks.results import Results
from benchmarks.scale.__main__ import facts
from benchmarks.scale.axes import PROPERTIES
from benchmarks.scale.probe import send_request
from benchmarks.watched import Watched, watched
from orbitmq.net.blocking import BlockingConnection

HERE = Path(__file__).parent
WORK = HERE.parent.parent / "build" / "flood"
ALONE = "alone"
PAUSE_SECONDS = 0.002
AFTER_SECONDS = 1.0


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(list(OFFENDERS)))
@click.option("--quick", is_flag=True, help="A tenth of each flood: shows that it works.")
@click.option("--results", type=click.Path(path_type=Path), default=HERE / "results.jsonl")
@click.option("--work-dir", type=click.Path(path_type=Path), default=WORK)
@click.option("--fresh", is_flag=True, help="Begin a new run even if the last one was interrupted.")
@click.option(
    "--report", is_flag=True, help="Write the table of docs/trust/measurements.md and measure nothing."
)
def main(
    names: tuple[str, ...], quick: bool, results: Path, work_dir: Path, fresh: bool, report: bool
) -> None:
    """Measures the floods NAMES, all if none is named. The same command goes on with an interrupted run."""
    book = Results(results)
    if report:
        click.echo(f"wrote {write_report(list(book.read()))}")
        return
    share = 0.1 if quick else 1.0
    wanted = [ALONE, *(names or OFFENDERS)]
    run, _ = book.open_run({"names": wanted, "quick": quick}, facts(), fresh=fresh)
    for name in wanted:
        if (name, 0) in run.rounds:
            continue
        shutil.rmtree(work_dir, ignore_errors=True)
        try:
            figures = _measure(name, work_dir, share)
        finally:
            shutil.rmtree(work_dir, ignore_errors=True)
        book.add_round(run, name, 0, {"orbitmq": figures})
        click.echo(f"{name}: {figures}")
    book.close_run(run)


def _measure(name: str, folder: Path, share: float) -> dict[str, Any]:
    with watched(folder, **PROPERTIES) as broker:
        fill(broker.broker, share)
        client = WellBehaved(broker)
        client.run_for(lambda: time.sleep(1.0))
        client.forget()
        broker.longest_turn()
        before = broker.memory_bytes()
        outcome: dict[str, int] = {}

        def offend() -> None:
            if name == ALONE:
                time.sleep(5.0)
                return
            command = [sys.executable, "-m", "benchmarks.flood.offenders", name, broker.broker, str(share)]
            said = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
            outcome.update(json.loads(said))

        began = time.perf_counter()
        client.run_for(offend)
        seconds = time.perf_counter() - began
        figures = client.figures() | broker.longest_turn()
        client.run_for(lambda: time.sleep(AFTER_SECONDS))
        return figures | {
            "seconds": seconds,
            "before_bytes": before,
            "peak_bytes": client.peak_bytes,
            "after_bytes": broker.memory_bytes(),
            "outcome": outcome,
        }


class WellBehaved:
    """Sends one message after the other, and looks at the broker's memory beside it."""

    def __init__(self, broker: Watched) -> None:
        self._broker = broker
        self._took: list[float] = []
        self.errors = 0
        self.peak_bytes = 0

    def forget(self) -> None:
        """Begins anew."""
        self._took.clear()
        self.peak_bytes = 0

    def run_for(self, work: Callable[[], object]) -> None:
        """Sends until `work` is done."""
        done = threading.Event()
        threads = [threading.Thread(target=part, args=(done,)) for part in (self._send, self._look)]
        for thread in threads:
            thread.start()
        try:
            work()
        finally:
            done.set()
            for thread in threads:
                thread.join()

    def _send(self, done: threading.Event) -> None:
        with BlockingConnection(self._broker.broker) as connection:
            while not done.is_set():
                before = time.perf_counter()
                try:
                    connection.call(send_request("FloodOthers"), 60_000)
                except Exception:
                    self.errors += 1
                    raise
                self._took.append(time.perf_counter() - before)
                time.sleep(PAUSE_SECONDS)

    def _look(self, done: threading.Event) -> None:
        while not done.wait(0.02):
            self.peak_bytes = max(self.peak_bytes, self._broker.memory_bytes())

    def figures(self) -> dict[str, float]:
        """Durations of sends, in ms."""
        took = sorted(self._took)
        count = len(took)
        return {
            "sends": count,
            "errors": self.errors,
            "p50_ms": took[count // 2] * 1000,
            "p99_ms": took[count * 99 // 100] * 1000,
            "max_ms": took[-1] * 1000,
        }


if __name__ == "__main__":
    main()
