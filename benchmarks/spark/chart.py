"""Charts of a run: records per second by job, and time against partitions and executors. Plain SVG."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from html import escape
from typing import Any

from benchmarks.rows import size_text
from benchmarks.spark.jobs import JOBS, SOURCES, TITLES

COLORS = {"kafka": "#9ca3af", "online": "#2563eb", "offline": "#16a34a"}


def rates(entries: Sequence[dict[str, Any]]) -> str:
    """Bars: records per second of each job by source; empty where no job was timed."""
    rounds = [entry for entry in entries if entry["kind"] == "round"]
    rows = []
    for size in sorted({entry["size"] for entry in rounds}):
        for job in JOBS:
            values = {
                source: _median(rounds, "rate", size=size, job=job.name, source=source) for source in SOURCES
            }
            if any(values.values()):
                rows.append((f"{size_text(size)}, {job.what}", values))
    if not rows:
        return ""
    largest = max(value or 0.0 for _, values in rows for value in values.values())
    left, width, step = 230, 430, 48
    parts = _opened(left + width + 130, step * len(rows) + 44, "Records per second")
    for number, (title, values) in enumerate(rows):
        top = 36 + number * step
        parts.append(f'<text x="{left - 8}" y="{top + 23}" text-anchor="end">{escape(title)}</text>')
        for place, source in enumerate(SOURCES):
            value = values[source]
            if value is None:
                continue
            length, y = max(1.0, value / largest * width), top + place * 13
            beside = values["kafka"]
            times = f" ({value / beside:.1f} x)" if beside and source != "kafka" else ""
            parts.append(
                f'<rect x="{left}" y="{y}" width="{length:.1f}" height="11" fill="{COLORS[source]}"/>'
                f'<text x="{left + length + 4:.1f}" y="{y + 10}">{value:,.0f}{times}</text>'
            )
    return "\n".join([*parts, "</svg>"]) + "\n"


def scale(entries: Sequence[dict[str, Any]]) -> str:
    """Lines: seconds against partitions, a diagram for each number of executors; empty without figures."""
    found = [entry for entry in entries if entry["kind"] == "scale"]
    if not found:
        return ""
    executors = sorted({entry["executors"] for entry in found})
    partitions = sorted({entry["partitions"] for entry in found})
    width, height, left, top = 300, 190, 44, 48
    parts = _opened(20 + len(executors) * (width + 20), height + 110, "Seconds of the noop job")
    largest = max(
        _median(found, "seconds", executors=count, partitions=cut, source=source) or 0.0
        for count in executors
        for cut in partitions
        for source in SOURCES
    )
    for number, count in enumerate(executors):
        begin = 20 + number * (width + 20) + left
        across = width - left - 20
        parts.append(
            f'<rect x="{begin}" y="{top}" width="{across}" height="{height}" fill="none" stroke="#d1d5db"/>'
            f'<text x="{begin - 4}" y="{top + 10}" text-anchor="end">{largest:.1f}</text>'
            f'<text x="{begin - 4}" y="{top + height}" text-anchor="end">0</text>'
        )
        x_of = {
            cut: begin + (across * place / max(1, len(partitions) - 1))
            for place, cut in enumerate(partitions)
        }
        for cut, x in x_of.items():
            parts.append(f'<text x="{x:.0f}" y="{top + height + 15}" text-anchor="middle">{cut}</text>')
        word = "executor" if count == 1 else "executors"
        parts.append(f'<text x="{begin}" y="{top + height + 34}">partitions; {count} {word}</text>')
        for source in SOURCES:
            seconds = {
                cut: _median(found, "seconds", executors=count, partitions=cut, source=source)
                for cut in partitions
            }
            line = " ".join(
                f"{x_of[cut]:.1f},{top + height - value / largest * height:.1f}"
                for cut, value in seconds.items()
                if value is not None
            )
            parts.append(
                f'<polyline points="{line}" fill="none" stroke="{COLORS[source]}" stroke-width="2"/>'
            )
    return "\n".join([*parts, "</svg>"]) + "\n"


def _opened(width: int, height: int, title: str) -> list[str]:
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="11">',
        f'<text x="8" y="16">{escape(title)}</text>',
    ]
    for number, source in enumerate(SOURCES):
        x = 190 + number * 130
        parts.append(
            f'<rect x="{x}" y="8" width="10" height="10" fill="{COLORS[source]}"/>'
            f'<text x="{x + 14}" y="17">{escape(TITLES[source])}</text>'
        )
    return parts


def _median(entries: Sequence[dict[str, Any]], key: str, **where: object) -> float | None:
    values = [e[key] for e in entries if all(e.get(name) == value for name, value in where.items())]
    return statistics.median(values) if values else None
