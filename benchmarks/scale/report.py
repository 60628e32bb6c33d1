"""The tables and the chart of the scale curves in docs/trust/measurements.md."""

from __future__ import annotations

import math
from html import escape
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.report import PAGE, between
from benchmarks.results import Run
from benchmarks.scale.axes import AXES, Axis
from benchmarks.scale.probe import OPERATIONS
from benchmarks.scale.shards import COUNTS, QUOTA

COLORS = dict(zip(OPERATIONS, ("#2563eb", "#dc2626", "#16a34a", "#9333ea", "#d97706"), strict=True))
NAMES = {"commit": "offset commit", "wake": "long poll woken"}
Points = dict[int, dict[str, Any]]


def write_report(runs: list[Run], page: Path = PAGE) -> list[Path]:
    """Puts the newest figures of every axis into the page; gives what was written."""
    runs = [run for run in runs if not run.settings.get("quick")]
    lines: list[str] = []
    curves = []
    for axis in AXES:
        found = _newest(runs, axis.name)
        if found is not None:
            run, points = found
            curves.append((axis, points))
            lines += [_said(run, points), "", *_table(axis, points), ""]
    lines += [*_cold(runs), *_shards(runs)]
    chart = page.parent / "performance-scale.svg"
    chart.write_text(_chart(curves))
    lines.append(f"![CPU time per operation over sizes]({chart.name})")
    page.write_text(between(page.read_text(), "scale", "\n".join(lines)))
    return [page, chart]


def commit(run: Run) -> str:
    """The measured commit, as the begin of a sentence; nothing where it was no checked-out repository."""
    return f"Commit {run.facts['commit']}, " if run.facts["commit"] else ""


def _newest(runs: list[Run], row: str) -> tuple[Run, Points] | None:
    for run in reversed(runs):
        points = {size: figures["orbitmq"] for (name, size), figures in run.rounds.items() if name == row}
        if points:
            return run, dict(sorted(points.items()))
    return None


def _said(run: Run, points: Points) -> str:
    kind = "compiled modules" if run.facts.get("compiled") else "interpreted"
    load = max(figures.get("load", 0) for figures in points.values())
    return (
        f"{commit(run)}{run.facts['cores']} cores, Python {run.facts['python']}, {kind}; "
        f"load of the machine before a point up to {load:g}."
    )


def _table(axis: Axis, points: Points) -> list[str]:
    """CPU time and median of each operation, memory, and the longest turns."""
    heads = [NAMES.get(name, name) for name in OPERATIONS]
    lines = [
        f"| {axis.title} | MB | bytes each | {' | '.join(heads)} | at rest, ms/s | longest turn, ms |",
        f"| --- | --- | --- |{' --- |' * len(heads)} --- | --- |",
    ]
    for size, figures in points.items():
        cells = [f"{figures[f'{name}_cpu_us']:.0f} / {figures[f'{name}_us']:.0f}" for name in OPERATIONS]
        turns = "; ".join(f"{figures[f'{prefix}turn_cpu_ms']:.0f}" for prefix in ("fill_", "quiet_", ""))
        lines.append(
            f"| {size:,} | {figures['memory_bytes'] / 1e6:,.0f} | {figures['unit_bytes']:,.0f} | "
            f"{' | '.join(cells)} | {figures['idle_ms_per_s']:.1f} | {turns} |"
        )
    return lines


def _cold(runs: list[Run]) -> list[str]:
    found = _newest(runs, "cold")
    if found is None:
        return []
    lines = [
        "| | took, s | longest turn, CPU ms | by the clock, ms | sends meanwhile, p99 ms | max ms |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for size, figures in found[1].items():
        for prefix, title in (("flush", "written and flushed"), ("cold", "read from the disk")):
            values = [
                figures[f"{prefix}_{name}"]
                for name in ("seconds", "turn_cpu_ms", "turn_ms", "send_p99_ms", "send_max_ms")
            ]
            cells = " | ".join(f"{value:.1f}" for value in values)
            lines.append(f"| {size >> 20:,} MiB {title} | {cells} |")
    return [*lines, ""]


def _shards(runs: list[Run]) -> list[str]:
    rows = {}
    for count in COUNTS:
        found = _newest(runs, f"shards-{count}")
        if found is not None:
            rows[count] = list(found[1].values())
    if not rows:
        return []
    lines = [
        f"| shards, {QUOTA:.0%} of a core each | rounds | msg/s | messages per CPU-second | to one shard |",
        "| --- | --- | --- | --- | --- |",
    ]
    one = median(figures["per_cpu_second"] for figures in rows.get(1, next(iter(rows.values()))))
    for count, rounds in rows.items():
        each = median(figures["per_cpu_second"] for figures in rounds)
        rate = median(figures["rate"] for figures in rounds)
        lines.append(f"| {count} | {len(rounds)} | {rate:,.0f} | {each:,.0f} | {each / one:.2f} |")
    return [*lines, ""]


def _chart(curves: list[tuple[Axis, Points]]) -> str:
    """CPU time of the broker per operation, a small diagram for each axis; both scales are logarithmic."""
    width, height, left, top = 300, 170, 52, 46
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{len(curves) * (width + 20) + 20}" '
        f'height="{height + 100}" font-family="sans-serif" font-size="11">',
        '<text x="8" y="16">CPU µs of the broker per operation</text>',
    ]
    for index, name in enumerate(OPERATIONS):
        x = 230 + index * 120
        parts.append(
            f'<rect x="{x}" y="8" width="10" height="10" fill="{COLORS[name]}"/>'
            f'<text x="{x + 14}" y="17">{escape(NAMES.get(name, name))}</text>'
        )
    values = [
        figures[f"{name}_cpu_us"]
        for _, points in curves
        for figures in points.values()
        for name in OPERATIONS
    ]
    low, high = 10.0, max([1000.0, *values])
    for number, (axis, points) in enumerate(curves):
        begin = 20 + number * (width + 20)
        sizes = list(points)
        span = max(1e-9, math.log10(sizes[-1] / sizes[0]))

        def x_of(size: int, begin: int = begin, first: int = sizes[0], span: float = span) -> float:
            return begin + left + math.log10(size / first) / span * (width - left - 20)

        def y_of(value: float) -> float:
            share = math.log10(max(low, value) / low) / math.log10(high / low)
            return top + height - share * height

        parts.append(
            f'<rect x="{begin + left}" y="{top}" width="{width - left - 20}" height="{height}" '
            'fill="none" stroke="#d1d5db"/>'
        )
        for mark in (10, 100, 1000):
            parts.append(
                f'<text x="{begin + left - 4}" y="{y_of(mark) + 4:.0f}" text-anchor="end">{mark:,}</text>'
            )
        for size in sizes:
            parts.append(
                f'<text x="{x_of(size):.0f}" y="{top + height + 15}" text-anchor="middle">{size:,}</text>'
            )
        parts.append(f'<text x="{begin + left}" y="{top + height + 34}">{escape(axis.title)}</text>')
        for name in OPERATIONS:
            line = " ".join(
                f"{x_of(size):.1f},{y_of(figures[f'{name}_cpu_us']):.1f}" for size, figures in points.items()
            )
            parts.append(f'<polyline points="{line}" fill="none" stroke="{COLORS[name]}" stroke-width="2"/>')
    return "\n".join([*parts, "</svg>"]) + "\n"
