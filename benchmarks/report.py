"""The tables of docs/trust/measurements.md, written between markers from the results file, and its charts."""

from __future__ import annotations

from html import escape
from pathlib import Path

from benchmarks.results import Run
from benchmarks.rows import ROWS, Row
from benchmarks.table import (
    BROKERS,
    COLUMNS,
    OF_SLAVES,
    errors,
    measured,
    number,
    pair,
    ratio,
    start_lines,
    times,
)

DOCS = Path(__file__).parent.parent / "docs"
PAGE = DOCS / "trust" / "measurements.md"
COMPILED, INTERPRETED, PROTECTED, REPLICATED = "compiled", "interpreted", "protected", "replicated"
COLORS = {"orbitmq": "#2563eb", "apache": "#9ca3af"}
GOALS: dict[str, tuple[float | None, float | None]] = {
    "sync1": (2.0, 1 / 3), "sync16": (2.2, 1 / 4), "sync64": (2.5, 1 / 4), "async": (2.5, 1 / 4),
    "batch": (1.5, 1 / 2), "push": (1.6, 1 / 3), "orderly": (1.3, 1 / 2), "ordered": (2.0, 1 / 4),
    "transaction": (2.0, 1 / 4), "delay": (2.0, 1 / 4), "pop": (4.0, 1 / 5), "raw": (6.0, 1 / 6),
    "syncflush": (1.0, 1 / 3), "latency2000": (None, 1 / 4),
    "replicated-sync16": (2.0, 1 / 3), "replicated-sync64": (2.0, 1 / 3), "replicated-async": (2.0, 1 / 3),
    "catch-up": (3.0, None),
}  # fmt: skip
"""By the name of a row without its size: the least throughput and the most CPU per message that were aimed
at, OrbitMQ ÷ Apache."""


def write_report(runs: list[Run], page: Path = PAGE) -> list[Path]:
    """Puts the last figures of every row into the page, compiled and interpreted; gives what was written."""
    text = page.read_text()
    written = [page]
    for name in (COMPILED, INTERPRETED):
        merged = _merged([run for run in runs if run.facts.get("compiled") is (name == COMPILED)])
        if merged is None:
            continue
        lines = [*_facts(merged), "", *markdown(merged)]
        if name == COMPILED:
            for table in (PROTECTED, REPLICATED):
                apart = _merged([run for run in runs if run.facts.get("compiled") is True], table)
                if apart is not None:
                    text = between(text, table, "\n".join([*_facts(apart), "", *markdown(apart)]))
            chart = page.parent / "performance-cpu.svg"
            chart.write_text(bars(merged))
            written.append(chart)
            lines += ["", f"![CPU per message, OrbitMQ beside Apache RocketMQ]({chart.name})"]
        text = between(text, name, "\n".join(lines))
    page.write_text(text)
    return written


def _table_of(row: Row) -> str:
    """The table that a row is in, of those that are apart; empty for the main one."""
    if row.protection:
        return PROTECTED
    return REPLICATED if row.replicated or row.op == "catch-up" else ""


def _merged(runs: list[Run], table: str = "") -> Run | None:
    """One run with the newest figures of each row: a row is never mixed from several runs."""
    names = {row.name for row in ROWS if _table_of(row) == table}
    runs = [run.only(names) for run in runs]
    runs = [run for run in runs if run.rounds or (run.starts and not table)]
    if not runs:
        return None
    last = runs[-1]
    merged = Run(last.id, last.settings, dict(last.facts))
    owners: dict[str, Run] = {}
    for run in runs:
        owners |= {name: run for name, _ in run.rounds}
        again = {name for name, _ in run.rounds}
        for key in [key for key in merged.rounds if key[0] in again]:
            del merged.rounds[key]
        merged.rounds.update(run.rounds)
        if run.starts:
            merged.starts, merged.idle_bytes = run.starts, run.idle_bytes
    seconds = sorted({run.settings.get("sizes", {}).get("seconds", 0) for run in owners.values()})
    commits = dict.fromkeys(run.facts["commit"] for run in runs if run in owners.values())
    merged.facts |= {"seconds": " or ".join(map(str, seconds)), "commit": ", ".join(commits)}
    return merged


def between(text: str, name: str, table: str) -> str:
    """The text with a table put between the markers of its name. Raises ValueError where there are none."""
    begin, end = f"<!-- benchmark {name}: begin -->", f"<!-- benchmark {name}: end -->"
    before, found, rest = text.partition(begin)
    _, found_end, after = rest.partition(end)
    if not found or not found_end:
        raise ValueError(f"the page has no lines {begin} and {end}")
    return f"{before}{begin}\n\n{table}\n\n{end}{after}"


def _facts(run: Run) -> list[str]:
    facts = run.facts
    return [
        f"{facts['cores']} cores ({facts['cpu']}), Linux {facts['kernel']}, {facts['java']}, "
        f"Python {facts['python']}; windows of {facts['seconds']} s. Commit {facts['commit']}."
    ]


def markdown(run: Run) -> list[str]:
    """The lines of the table, and of starts and memory."""
    rows = [row for row in measured(run) if row.op != "recovery"]
    lines = [
        "| load | rounds | msg/s | Apache | ratio | goal | CPU µs | Apache | ratio | goal "
        "| p50 ms | Apache | p99 ms | Apache | |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    more = [one for one in OF_SLAVES if any(run.median(row.name, "orbitmq", one.key) for row in rows)]
    lines[0] = lines[0][:-1] + "".join(f"{one.title} | Apache | " for one in more) + "|"
    lines[1] += " --- | --- |" * len(more)
    rate, cpu, *latencies = COLUMNS[:4]
    for row in rows:
        has_goal = row.core or _table_of(row) == REPLICATED
        least, most = GOALS.get(row.name.rpartition("-")[0], (None, None)) if has_goal else (None, None)
        rounds = sum(name == row.name for name, _ in run.rounds)
        problems = errors(run, row)
        faster, cheaper = ratio(run, row.name, "rate"), ratio(run, row.name, "cpu_us")
        cells = [
            row.title,
            str(rounds),
            *pair(run, row, rate),
            times(faster),
            "" if least is None else f"≥ {least:g}{missed(faster is not None and faster < least)}",
            *pair(run, row, cpu),
            times(cheaper),
            "" if most is None else f"≤ {most:.2f}{missed(cheaper is not None and cheaper > most)}",
            *(cell for column in (*latencies, *more) for cell in pair(run, row, column)),
            f"errors {problems}" if problems else "",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    if run.starts:
        lines += ["", *(f"- {line}." for line in start_lines(run))]
    return lines


def missed(is_missed: bool) -> str:
    """The word that follows a goal which the unrounded figure does not reach."""
    return ", missed" if is_missed else ""


def bars(run: Run, key: str = "cpu_us") -> str:
    """A chart: CPU per message of both brokers by row, as SVG."""
    column = next(column for column in COLUMNS if column.key == key)
    shown = [
        (row, [run.median(row.name, broker, key) or 0.0 for broker in BROKERS])
        for row in ROWS
        if row.core and run.median(row.name, "orbitmq", key) is not None
    ]
    largest = max((max(values) for _, values in shown), default=1.0)
    left, width, step = 260, 420, 34
    height = step * len(shown) + 40
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 90}" height="{height}" '
        'font-family="sans-serif" font-size="12">',
        '<text x="8" y="18">CPU µs per message: OrbitMQ (blue), Apache RocketMQ 5.4.0 (grey)</text>',
    ]
    for n, (row, values) in enumerate(shown):
        top = 32 + n * step
        parts.append(f'<text x="{left - 8}" y="{top + 17}" text-anchor="end">{escape(row.title)}</text>')
        for m, (broker, value) in enumerate(zip(BROKERS, values, strict=True)):
            length = max(1.0, value / largest * width)
            y = top + m * 13
            parts.append(
                f'<rect x="{left}" y="{y}" width="{length:.1f}" height="11" fill="{COLORS[broker]}"/>'
                f'<text x="{left + length + 4:.1f}" y="{y + 10}">{number(value, column)}</text>'
            )
    return "\n".join([*parts, "</svg>"]) + "\n"
