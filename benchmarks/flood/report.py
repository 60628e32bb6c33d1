"""The table of floods in docs/trust/measurements.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.flood.offenders import OFFENDERS
from benchmarks.report import PAGE, between
from benchmarks.results import Run
from benchmarks.scale.report import commit
from orbitmq.protocol.codes import ResponseCode


def write_report(runs: list[Run], page: Path = PAGE) -> Path:
    """Puts the newest figures of every flood into the page."""
    whole = [run for run in runs if not run.settings.get("quick")]
    size = "" if whole else " A tenth of each flood."
    runs = whole or runs
    facts = runs[-1].facts
    kind = "compiled modules" if facts.get("compiled") else "interpreted"
    lines = [
        f"{commit(runs[-1])}{facts['cores']} cores that broker, offender and client share, "
        f"Python {facts['python']}, {kind}.{size}",
        "",
        "| beside | took, s | sends, p50 ms | p99 | max | errors | MB before, at most, after | "
        "longest turn, CPU ms | what became of it |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name in ("alone", *OFFENDERS):
        figures = next(
            (run.rounds[name, 0]["orbitmq"] for run in reversed(runs) if (name, 0) in run.rounds), None
        )
        if figures is not None:
            lines.append(_row(name, figures))
    page.write_text(between(page.read_text(), "flood", "\n".join(lines)))
    return page


def _row(name: str, figures: dict[str, Any]) -> str:
    about = "nobody" if name == "alone" else (OFFENDERS[name].__doc__ or "").strip().rstrip(".")
    memory = ", ".join(f"{figures[f'{when}_bytes'] / 1e6:,.0f}" for when in ("before", "peak", "after"))
    return (
        f"| {about} | {figures['seconds']:.0f} | {figures['p50_ms']:.2f} | {figures['p99_ms']:.1f} | "
        f"{figures['max_ms']:.0f} | {figures['errors']} | {memory} | {figures['turn_cpu_ms']:.0f} | "
        f"{', '.join(f'{_said(text)}: {count:,}' for text, count in figures['outcome'].items())} |"
    )


def _said(text: str) -> str:
    if not text.isdigit():
        return text
    try:
        return ResponseCode(int(text)).name
    except ValueError:
        return f"code {text}"
