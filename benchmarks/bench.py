"""Measuring: which brokers are up, who stands still meanwhile, and what a round of a row is."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import click
from rich.console import Console

from benchmarks.brokers import TITLES, Installed, Place, Running, running, slave
from benchmarks.load import FILLED_QUEUES, Load, filled_topic, load_generator
from benchmarks.probe import log_end
from benchmarks.processes import anonymous_bytes
from benchmarks.rows import ALONE, Row, Sizes

Figures: TypeAlias = dict[str, Any]
Todo: TypeAlias = Sequence[tuple[Row, int]]
"""Rows and the number of the round."""

IDLE_SECONDS = 5
"""After a start, until memory counts as that of an idle broker."""
RECORD_BYTES = 1024 + 200
"""About what a message of 1 KiB takes in the log."""


def in_turn(brokers: list[str], number: int) -> list[str]:
    """The first place changes with every round, so that no one always inherits a busy disk."""
    return brokers if number % 2 == 0 else brokers[::-1]


class Bench:
    """Runs rows on all brokers in turn."""

    def __init__(
        self, installed: Installed, work_dir: Path, brokers: list[str], sizes: Sizes, console: Console
    ) -> None:
        self._installed = installed
        self._work_dir = work_dir
        self._brokers = brokers
        self._sizes = sizes
        self._console = console

    def start(self, name: str) -> tuple[float, int]:
        """Starts a broker with an empty store: seconds to the first accepted send, and its idle memory."""
        with self._place(name) as place, running(name, self._installed, place) as broker:
            time.sleep(min(IDLE_SECONDS, self._sizes.warm_up))
            return broker.first_send_s, anonymous_bytes(broker.broker_pid)

    def measure(self, todo: Todo) -> Iterator[tuple[Row, int, dict[str, Figures]]]:
        """All rounds of all rows; what each broker did, as soon as all have done it."""
        if not todo:
            return
        alone_of = {"recovery": self._recovery, "catch-up": self._catch_up}
        classes, folder = self._work_dir / "classes", self._work_dir / "load"
        with load_generator(self._installed.java, classes, self._installed.jars, folder) as load:
            live = [(row, number) for row, number in todo if row.op not in ALONE and not row.cold]
            for setup in sorted({_setup_of(row) for row, _ in live}):
                yield from self._live(load, setup, [one for one in live if _setup_of(one[0]) == setup])
            for row, number in todo:
                if row.cold or row.op in ALONE:
                    figures = {}
                    for name in in_turn(self._brokers, number):
                        with self._place(name) as place:
                            alone = self._cold if row.cold else alone_of[row.op]
                            figures[name] = alone(load, row, number, name, place)
                        self._say(row, number, name, figures[name])
                    yield row, number, figures

    @contextlib.contextmanager
    def _place(self, name: str, setup: Setup | None = None) -> Iterator[Place]:
        place = Place.fresh(self._work_dir / "stores" / name, *(setup or Setup()))
        try:
            yield place
        finally:
            shutil.rmtree(place.folder, ignore_errors=True)

    def _live(self, load: Load, setup: Setup, todo: Todo) -> Iterator[tuple[Row, int, dict[str, Figures]]]:
        """Rows that share brokers which stay up; only one of these works at a time."""
        sizes = self._sizes
        with contextlib.ExitStack() as stack:
            live: dict[str, Running] = {}
            for name in self._brokers:
                place = stack.enter_context(self._place(name, setup))
                live[name] = stack.enter_context(running(name, self._installed, place))
            for broker in live.values():
                stack.callback(load.forget, broker)
            for broker in live.values():
                with _alone(broker, live.values()):
                    how = " ".join(
                        filter(None, (setup.flush, setup.protection, "replicated" * setup.replicated))
                    )
                    self._console.print(f"warm-up: {TITLES[broker.name]}, {sizes.warm_up} s, {how}")
                    load.warm_up(broker, sizes.warm_up)
            filled: set[tuple[int, int]] = set()
            for row, number in todo:
                figures = {}
                # Anew for each round: far behind the end of the log both brokers answer with eight messages.
                to_fill = row.consumes and (row.size, number) not in filled
                for name in in_turn(self._brokers, number):
                    with _alone(live[name], live.values()):
                        if to_fill:
                            self._fill(load, row, number, live[name])
                        figures[name] = load.measure(row, number, live[name], sizes)
                    self._say(row, number, name, figures[name])
                if row.consumes:
                    filled.add((row.size, number))
                yield row, number, figures

    def _fill(self, load: Load, row: Row, number: int, broker: Running) -> None:
        topic = filled_topic(row.size, number)
        load.fill(broker, row.size, self._sizes.filled(row.size), topic, FILLED_QUEUES)

    def _cold(self, load: Load, row: Row, number: int, name: str, place: Place) -> Figures:
        """Fills a store, stops, drops its pages, starts anew, and reads."""
        with running(name, self._installed, place) as broker:
            self._fill(load, row, number, broker)
            load.forget(broker)
        place.forget_caches()
        with running(name, self._installed, place) as broker:
            figures = load.measure(row, number, broker, self._sizes)
            load.forget(broker)
        return figures

    def _recovery(self, load: Load, row: Row, number: int, name: str, place: Place) -> Figures:
        """Fills a log, kills the broker, and takes the time until its successor accepts a message."""
        with running(name, self._installed, place) as broker:
            load.fill(broker, row.size, (self._sizes.log_mb << 20) // RECORD_BYTES, "bench_lost")
            load.forget(broker)
            broker.kill()
        with running(name, self._installed, place) as broker:
            return {
                "rate": None,
                "cpu_us": None,
                "memory_bytes": anonymous_bytes(broker.broker_pid),
                "seconds": broker.first_send_s,
                "errors": 0,
            }

    def _catch_up(self, load: Load, row: Row, number: int, name: str, place: Place) -> Figures:
        """A slave that followed for a moment is stopped, its master goes on without it, and it comes back:
        how fast it takes over what it lacks, and the latency of sends before and meanwhile.
        """
        port, sends = place.slave_port, replace(row, op="sync")
        with running(name, self._installed, place) as broker:
            load.warm_up(broker, self._sizes.warm_up)
            with slave(name, self._installed, place):
                load.fill(broker, row.size, 1000, "bench_followed")
                _wait_until(lambda: log_end(port) >= log_end(place.broker_port) > 0)
            load.fill(broker, row.size, (self._sizes.log_mb << 20) // RECORD_BYTES, "bench_missed")
            before = load.measure(sends, number, broker, self._sizes)
            took: list[tuple[int, float]] = []
            with slave(name, self._installed, place) as pid:
                watching = threading.Thread(target=lambda: took.append(_followed(port, place.broker_port)))
                watching.start()
                broker.slave_pid = pid
                figures = load.measure(sends, number, broker, self._sizes)
                watching.join()
            load.forget(broker)
        size, seconds = took[0]
        return {
            **figures,
            "rate": size / seconds / RECORD_BYTES,
            "bytes_per_second": size / seconds,
            "p99_us_before": before["p99_us"],
        }

    def _say(self, row: Row, number: int, name: str, figures: Figures) -> None:
        text = f"round {number + 1}  {row.title:<44} {TITLES[name]:<22} "
        if figures["rate"] is None:
            text += f"{figures['seconds']:.2f} s"
        else:
            cpu = "-" if figures["cpu_us"] is None else f"{figures['cpu_us']:.1f}"
            text += (
                f"{figures['rate']:>10,.0f} msg/s  {cpu:>6} µs CPU  {figures['memory_bytes'] / 1e6:>6,.0f} MB"
            )
        if figures["errors"]:
            text += f"  {figures['errors']} errors: {figures.get('first_error')}"
        load, _, _ = os.getloadavg()
        self._console.print(f"{text}  load {load:.1f}")


class Setup(NamedTuple):
    """Brokers are kept for all rows that ask for the same."""

    flush: str = "ASYNC_FLUSH"
    protection: str = ""
    replicated: bool = False


def _setup_of(row: Row) -> Setup:
    return Setup(row.flush, row.protection, row.replicated)


def _followed(slave_port: int, master_port: int) -> tuple[int, float]:
    """Bytes that a slave takes over until it has what its master had when the first of them came, and the
    seconds from then on.
    """
    _wait_until(lambda: log_end(slave_port) > 0)
    first = log_end(slave_port)
    _wait_until(lambda: log_end(slave_port) > first)
    began, end = time.monotonic(), log_end(master_port)
    _wait_until(lambda: log_end(slave_port) >= end)
    return end - first, time.monotonic() - began


def _wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 600
    while not is_so():
        if time.monotonic() > deadline:
            raise click.ClickException("the slave did not take over its master's log within ten minutes")
        time.sleep(0.02)


@contextlib.contextmanager
def _alone(broker: Running, live: Iterable[Running]) -> Iterator[None]:
    """Only `broker` works in the block; the others stand still."""
    with contextlib.ExitStack() as stack:
        for other in live:
            if other is not broker:
                stack.enter_context(other.paused())
        yield
