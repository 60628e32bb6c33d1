"""A run as tables for people."""

from __future__ import annotations

import statistics

from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.results import Run
from benchmarks.rows import ROWS


def show(console: Console, run: Run) -> None:
    """Prints medians over the rounds, the ratio OrbitMQ ÷ Apache, and start times."""
    rounds = len({number for _, number in run.rounds})
    table = Table(
        title=f"OrbitMQ beside Apache RocketMQ 5.4.0: medians of {rounds} round{'s' if rounds > 1 else ''}",
        caption="O = OrbitMQ, A = Apache. CPU: utime + stime of the broker per message. "
        "Memory: RssAnon + RssShmem of the broker. Latency: as the client sees it.",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    table.add_column("load", no_wrap=True)
    wide = console.width >= 110
    for heading in ("msg/s O", "msg/s A", "ratio", "CPU µs O", "CPU µs A", "ratio", "MB O", "MB A"):
        table.add_column(heading, justify="right", no_wrap=True)
    for heading in ("p99 ms O", "p99 ms A", "errors O/A") if wide else ():
        table.add_column(heading, justify="right", no_wrap=True)
    measured = {name for name, _ in run.rounds}
    for row in ROWS:
        if row.name not in measured:
            continue
        figures: list[str] = []
        for key, scale, form in (("rate", 1.0, ",.0f"), ("cpu_us", 1.0, ",.1f")):
            ours = run.median(row.name, "orbitmq", key)
            theirs = run.median(row.name, "apache", key)
            figures += [_number(ours, scale, form), _number(theirs, scale, form)]
            figures.append(f"{ours / theirs:.2f} x" if ours is not None and theirs else "-")
        for key, scale, form in (("memory_bytes", 1e6, ",.0f"), ("p99_us", 1e3, ",.1f")):
            for broker in ("orbitmq", "apache"):
                figures.append(_number(run.median(row.name, broker, key), scale, form))
        figures.append(f"{run.errors(row.name, 'orbitmq')}/{run.errors(row.name, 'apache')}")
        table.add_row(row.title, *figures[: len(table.columns) - 1])
    if table.row_count:
        console.print(table)
    starts = {broker: statistics.median(values) for broker, values in run.starts.items() if values}
    if starts:
        text = ", ".join(f"{broker} {seconds:.2f} s" for broker, seconds in sorted(starts.items()))
        if len(starts) == 2:
            text += f"; ratio {starts['orbitmq'] / starts['apache']:.2f} x"
        console.print(f"Exec to first accepted send (median): {text}")


def _number(value: float | None, scale: float, form: str) -> str:
    return "-" if value is None else format(value / scale, form)
