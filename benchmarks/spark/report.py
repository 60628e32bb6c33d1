"""The figures of a run, for the terminal and for docs/trust/measurements.md."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import click

from benchmarks.report import PAGE, between, missed
from benchmarks.rows import size_text
from benchmarks.spark import chart
from benchmarks.spark.jobs import JOBS, SOURCES, TITLES

GOALS = {
    ("online", "count"): 1.5, ("online", "noop"): 1.5, ("online", "parquet"): 1.2,
    ("offline", "count"): 3.0, ("offline", "noop"): 3.0, ("offline", "parquet"): 1.5,
    ("offline", "archive"): 3.0,
}  # fmt: skip
"""Records per second that were aimed at, as ratios to Kafka's."""
BROKER_GOAL = 0.5
"""CPU of the broker per record that was aimed at, as a ratio to Kafka's."""


def _median(entries: list[dict[str, Any]], key: str, **where: object) -> float | None:
    values = [e[key] for e in entries if all(e.get(name) == value for name, value in where.items())]
    return statistics.median(values) if values else None


def markdown(entries: list[dict[str, Any]]) -> list[str]:
    """The lines of the tables."""
    run, rounds = entries[0], [e for e in entries if e["kind"] == "round"]
    facts = run["facts"]
    count = 1 + max((e["round"] for e in rounds), default=0)
    lines = [
        f"{facts['cores']} cores ({facts['cpu']}), Linux {facts['kernel']}, Python {facts['python']}; "
        f"Kafka 4.1, heap 1 GiB; {'one round' if count == 1 else f'medians of {count} rounds'}. "
        f"Commit {facts['commit']}.",
        "",
        "| records | job | source | rec/s | of Kafka's | goal | Spark CPU µs | broker CPU µs | of Kafka's "
        "| goal |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for size, count in run["records"].items():
        for job in JOBS:
            for source in SOURCES:
                where = {"size": int(size), "job": job.name}
                rate = _median(rounds, "rate", source=source, **where)
                if rate is None:
                    continue
                kafka = _median(rounds, "rate", source="kafka", **where)
                broker, beside = (
                    _median(rounds, "broker_us", source=of, **where) for of in (source, "kafka")
                )
                goal = GOALS.get((source, job.name.removeprefix("stream-")))
                ours = source != "kafka"
                faster = rate / kafka if ours and kafka else None
                cheaper = broker / beside if source == "online" and broker and beside else None
                cells = [
                    f"{count:,} of {size_text(int(size))}",
                    job.what,
                    TITLES[source],
                    f"{rate:,.0f}",
                    f"{faster:.2f} x" if faster else "",
                    f"≥ {goal}{missed(faster is not None and faster < goal)}" if goal else "",
                    f"{_median(rounds, 'spark_us', source=source, **where) or 0:.1f}",
                    "none" if source == "offline" else f"{broker or 0:.2f}",
                    f"{cheaper:.2f} x" if cheaper else "",
                    f"≤ {BROKER_GOAL}{missed(cheaper is not None and cheaper > BROKER_GOAL)}"
                    if source == "online"
                    else "",
                ]
                lines.append(f"| {' | '.join(cells)} |")
    return [*lines, *_starts(rounds), *_scale(entries)]


def _starts(rounds: list[dict[str, Any]]) -> list[str]:
    """Waits that a short stream notices and a long one does not."""
    streams = [e for e in rounds if "start_s" in e]
    told = [
        f"{TITLES[source]} {took:.2f} s"
        for source in SOURCES
        if (took := _median(streams, "start_s", source=source)) is not None
    ]
    if not told:
        return []
    return [
        "",
        f"Time of an available-now query in which no micro-batch ran: {', '.join(told)}. Spark starts a "
        "Python process for each query of a Python source.",
    ]


def _scale(entries: list[dict[str, Any]]) -> list[str]:
    found = [e for e in entries if e["kind"] == "scale"]
    if not found:
        return []
    partitions = sorted({e["partitions"] for e in found})
    lines = [
        "",
        "Seconds of the noop job over the small records on a standalone cluster of one-core workers, "
        "by partitions:",
        "",
        "| executors | source | " + " | ".join(map(str, partitions)) + " |",
        "| --- | --- |" + " --- |" * len(partitions),
    ]
    for executors in sorted({e["executors"] for e in found}):
        for source in SOURCES:
            cells = [
                f"{_median(found, 'seconds', executors=executors, source=source, partitions=n) or 0:.2f}"
                for n in partitions
            ]
            lines.append(f"| {executors} | {TITLES[source]} | {' | '.join(cells)} |")
    return lines


def show(entries: list[dict[str, Any]]) -> None:
    """Prints the tables."""
    click.echo("\n".join(markdown(entries)))


def write_report(entries: list[dict[str, Any]], page: Path = PAGE) -> None:
    """Puts them into the documentation, with charts beside it."""
    lines = markdown(entries)
    for name, about, drawn in (
        ("performance-spark.svg", "Records per second by job and source", chart.rates(entries)),
        ("performance-spark-scale.svg", "Time against partitions and executors", chart.scale(entries)),
    ):
        if drawn:
            page.with_name(name).write_text(drawn)
            lines += ["", f"![{about}]({name})"]
    page.write_text(between(page.read_text(), "spark", "\n".join(lines)))
