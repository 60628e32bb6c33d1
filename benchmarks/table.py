"""A run as tables: figures of a row, beside each other, for a terminal and for Markdown."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.results import Run
from benchmarks.rows import ROWS, Row


@dataclass(frozen=True, slots=True)
class Column:
    """One figure of both brokers."""

    key: str
    title: str
    scale: float
    form: str
    ratio: bool = False
    """True if OrbitMQ ÷ Apache is shown as well."""


COLUMNS = (
    Column("rate", "msg/s", 1, ",.0f", ratio=True),
    Column("cpu_us", "CPU µs", 1, ".1f", ratio=True),
    Column("p50_us", "p50 ms", 1e3, ".2f"),
    Column("p99_us", "p99 ms", 1e3, ".1f"),
    Column("p999_us", "p99.9 ms", 1e3, ".1f"),
    Column("max_us", "max ms", 1e3, ".0f"),
    Column("memory_bytes", "MB", 1e6, ",.0f"),
    Column("disk_bytes", "disk B", 1, ",.0f"),
)
OF_SLAVES = (
    Column("slave_cpu_us", "slave's CPU µs", 1, ".1f"),
    Column("p99_us_before", "p99 ms before", 1e3, ".2f"),
)
"""Shown where a slave took part."""
BROKERS = ("orbitmq", "apache")


def measured(run: Run) -> list[Row]:
    """The rows of a run that have figures, in the order of the table."""
    names = {name for name, _ in run.rounds}
    return [row for row in ROWS if row.name in names]


def pair(run: Run, row: Row, column: Column) -> tuple[str, str]:
    """The medians of both brokers, as text."""
    ours, theirs = (run.median(row.name, broker, column.key) for broker in BROKERS)
    return number(ours, column), number(theirs, column)


def ratio(run: Run, row: str, key: str) -> float | None:
    """OrbitMQ ÷ Apache: the median over rounds, each of which has both brokers right after each other."""
    ratios = [
        figures["orbitmq"][key] / figures["apache"][key]
        for (name, _), figures in run.rounds.items()
        if name == row and all(figures.get(broker, {}).get(key) for broker in BROKERS)
    ]
    return statistics.median(ratios) if ratios else None


def number(value: float | None, column: Column) -> str:
    """A figure as it is shown."""
    return "-" if value is None else format(value / column.scale, column.form)


def times(value: float | None) -> str:
    """A ratio as it is shown."""
    return "-" if value is None else f"{value:.2f} x"


def errors(run: Run, row: Row) -> str:
    """Sends that were not accepted, of both brokers; empty without any."""
    counts = [run.errors(row.name, broker) for broker in BROKERS]
    return "{} / {}".format(*counts) if any(counts) else ""


def start_lines(run: Run) -> list[str]:
    """Start, memory, and start after kill -9, in words."""
    lines = []
    for what, values, scale, form, unit in (
        ("From exec to the first accepted send", run.starts, 1, ".2f", "s"),
        ("Anonymous memory right after a start", run.idle_bytes, 1e6, ",.0f", "MB"),
        ("Anonymous memory under load, the most of all rows", most_memory(run), 1e6, ",.0f", "MB"),
        ("From exec to the first accepted send after kill -9", recoveries(run), 1, ".2f", "s"),
    ):
        found = {broker: statistics.median(values[broker]) for broker in BROKERS if values.get(broker)}
        if found:
            text = " against ".join(f"{value / scale:{form}} {unit}" for value in found.values())
            if len(found) == 2:
                text += f" ({times(found['orbitmq'] / found['apache'])})"
            lines.append(f"{what}: {text}")
    return lines


def most_memory(run: Run) -> dict[str, list[int]]:
    """The most memory that each broker held at the end of a window."""
    return {
        broker: [max(seen)]
        for broker in BROKERS
        if (seen := [figures[broker]["memory_bytes"] for figures in run.rounds.values() if broker in figures])
    }


def recoveries(run: Run) -> dict[str, list[float]]:
    """Seconds of the starts after kill -9, by broker."""
    return {
        broker: [
            figures[broker]["seconds"]
            for (name, _), figures in run.rounds.items()
            if name == "recovery" and broker in figures
        ]
        for broker in BROKERS
    }


def show(console: Console, run: Run) -> None:
    """Prints medians over the rounds, the ratio OrbitMQ ÷ Apache, and start times."""
    rounds = len({number for _, number in run.rounds})
    table = Table(
        title=f"OrbitMQ beside Apache RocketMQ 5.4.0: medians of up to {rounds} round{'s' * (rounds != 1)}",
        caption="O = OrbitMQ, A = Apache. CPU: utime + stime of the broker per message. "
        "Memory: RssAnon + RssShmem of the broker. Latency: as the client sees it.",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    table.add_column("load", no_wrap=True)
    for heading in ("msg/s O", "msg/s A", "ratio", "CPU µs O", "CPU µs A", "ratio", "MB O", "MB A"):
        table.add_column(heading, justify="right", no_wrap=True)
    for heading in ("p99 ms O", "p99 ms A", "errors O/A") if console.width >= 110 else ():
        table.add_column(heading, justify="right", no_wrap=True)
    columns = {column.key: column for column in COLUMNS}
    for row in measured(run):
        if row.op == "recovery":
            continue
        cells: list[str] = []
        for key in ("rate", "cpu_us"):
            cells += [*pair(run, row, columns[key]), times(ratio(run, row.name, key))]
        for key in ("memory_bytes", "p99_us"):
            cells += pair(run, row, columns[key])
        cells.append(errors(run, row))
        table.add_row(row.title, *cells[: len(table.columns) - 1])
    if table.row_count:
        console.print(table)
    for line in start_lines(run):
        console.print(line)
