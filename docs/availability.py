"""Tables and chart of trust/availability.md, from findings of `orbitmq prove --cluster` in availability.json.

`python docs/availability.py FINDINGS.json ... [--losses-only FINDINGS.json ...]` takes over new findings: the
outputs of `--json`. Times of the latter are left out: the machine was busy. `make docs` writes the tables.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any
from xml.sax.saxutils import escape

HERE = Path(__file__).parent
DATA = HERE / "availability.json"
CHART = HERE / "trust" / "availability.svg"
YEAR_S = 365.25 * 86_400
NONE, TWO = "none", "two at once"
LEAST_OUTAGE_S = 1.0
"""A shorter gap is no outage: a send waits for it, and nobody notices."""

RATES: dict[str, tuple[float, str]] = {
    "kill master": (12, "once a month"),
    "pause master": (12, "once a month"),
    "cut clients from master": (4, "four times a year"),
    "cut master from name servers": (4, "four times a year"),
    "cut master from all but clients": (4, "four times a year"),
    "kill slave": (12, "once a month"),
    "pause slave": (12, "once a month"),
    "cut slave from master": (4, "four times a year"),
    "one-way link to slave": (1, "once a year"),
    "slow link to slave": (12, "once a month"),
    "lossy link to clients": (12, "once a month"),
    "lossy link to slave": (12, "once a month"),
    "broken connections to clients": (4, "four times a year"),
    "broken connections to slave": (4, "four times a year"),
    "full disk of master": (1, "once a year"),
    "full disk of slave": (1, "once a year"),
    "kill name server": (12, "once a month"),
    "pause name server": (12, "once a month"),
    "kill controller": (12, "once a month"),
    "pause controller": (12, "once a month"),
    "kill etcd": (12, "once a month"),
    "pause etcd": (12, "once a month"),
    "elect another master": (12, "once a month"),
}
"""Assumed faults a year of one broker group, for each kind."""


@dataclass(frozen=True, slots=True)
class Trial:
    """The findings of one trial."""

    found: dict[str, Any]

    @property
    def name(self) -> str:
        """The mode, in words."""
        cluster = self.found["cluster"]
        how = "controllers" if cluster["failover"] else "fixed roles"
        return f"{cluster['mode']}, {cluster['flush']} flush, {how}"

    @property
    def shape(self) -> str:
        """The cluster, in words."""
        cluster = self.found["cluster"]
        groups = f"{cluster['masters']} group of {1 + cluster['slavesOfEach']}"
        return f"{groups}, {cluster['nameServers']} name servers"

    def rows(self) -> Iterator[dict[str, Any]]:
        """The faults, without the time to compare with."""
        return (row for row in self.found["rows"] if row["fault"] != NONE)

    def control(self) -> dict[str, Any] | None:
        """The time in which nothing was done."""
        return next((row for row in self.found["rows"] if row["fault"] == NONE), None)


def trials() -> list[Trial]:
    """All findings that were taken over."""
    return [Trial(found) for found in json.loads(DATA.read_text())]


def timed() -> list[Trial]:
    """Those whose times count; trials of one mode, each with kinds of its own, are put together."""
    by_mode: dict[str, list[Trial]] = {}
    for trial in trials():
        if trial.found.get("each"):
            by_mode.setdefault(trial.name, []).append(trial)
    return [_together(of_mode) for of_mode in by_mode.values()]


def _together(of_mode: list[Trial]) -> Trial:
    each = [one for trial in of_mode for one in trial.found["each"]]
    kinds = sorted({one["fault"] for one in each})
    return Trial({**of_mode[0].found, "each": each, "rows": [_row(kind, each) for kind in kinds]})


def _row(kind: str, each: list[dict[str, Any]]) -> dict[str, Any]:
    found = [one for one in each if one["fault"] == kind]
    spreads = {
        side: {"median": median(one[side] for one in found), "longest": max(one[side] for one in found)}
        for side in ("held", "producer", "consumer")
    }
    return {
        "fault": kind,
        "times": len(found),
        "heldSeconds": spreads["held"],
        "producerWithoutServiceSeconds": spreads["producer"],
        "consumerWithoutServiceSeconds": spreads["consumer"],
    }


def conditions() -> str:
    """The trials and their conditions, a row each."""
    lines = [
        "| mode | cluster | faults | messages acknowledged | lost | given twice | load average | seed "
        "| times below |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for trial in trials():
        found = trial.found
        lines.append(
            f"| {trial.name} | {trial.shape} | {found['faults']} | {found['acknowledged']:,} "
            f"| {found['lost']:,} | {found['duplicated']:,} | {found['machine']['loadAverage']} "
            f"| {found['seed']} | {'yes' if found.get('each') else 'no'} |"
        )
    return "\n".join(lines)


def faults() -> str:
    """Time without service per fault and mode."""
    parts = []
    for trial in timed():
        lines = [
            f"**{trial.name}**",
            "",
            "| fault | times | held, median | producer, median | producer, longest | consumer, median "
            "| consumer, longest |",
            "| --- | --- | --- | --- | --- | --- | --- |",
        ]
        control = trial.control()
        for row in [*([control] if control else []), *trial.rows()]:
            held = row["heldSeconds"]["median"] if row["fault"] != NONE else ""
            name = "none, to compare" if row["fault"] == NONE else row["fault"]
            sides = (row["producerWithoutServiceSeconds"], row["consumerWithoutServiceSeconds"])
            cells = " | ".join(f"{side['median']:.2f} | {side['longest']:.2f}" for side in sides)
            lines.append(f"| {name} | {row['times']} | {_seconds(held)} | {cells} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _seconds(value: float | str) -> str:
    return "" if value == "" else f"{value:.1f}"


def nines() -> str:
    """Availability that follows from the stated rates."""
    lines = [
        "| mode | side | outages a year | time without service a year | MTBF | MTTR | availability | nines |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for trial in timed():
        for side in ("producer", "consumer"):
            lines.append(f"| {trial.name} | {side} | {_year(trial, side)} |")
    return "\n".join(lines)


def _year(trial: Trial, side: str) -> str:
    down = outages = 0.0
    for row in trial.rows():
        if row["fault"] not in RATES:
            continue
        rate = RATES[row["fault"]][0]
        gaps = [one[side] for one in trial.found["each"] if one["fault"] == row["fault"]]
        lasting = [gap for gap in gaps if gap >= LEAST_OUTAGE_S]
        outages += rate * len(lasting) / len(gaps)
        down += rate * sum(lasting) / len(gaps)
    if not outages:
        return "none seen | 0 s | | | |"
    share = 1 - down / YEAR_S
    return (
        f"{outages:.0f} | {down:.0f} s | {YEAR_S / outages / 86_400:.1f} days | {down / outages:.1f} s "
        f"| {share * 100:.5f} % | {-math.log10(1 - share):.1f}"
    )


def rates() -> str:
    """The assumed rates."""
    by_rate: dict[str, list[str]] = {}
    for kind, (_, text) in RATES.items():
        by_rate.setdefault(text, []).append(kind)
    return "\n".join(f"- {text}: {', '.join(kinds)}" for text, kinds in by_rate.items())


def draw() -> str:
    """Bars of the producers' median time without service, per fault and mode."""
    found = timed()
    kinds = [kind for kind in RATES if any(row["fault"] == kind for trial in found for row in trial.rows())]
    colours = ("#3b6ea5", "#e08a3c", "#6aa56a", "#a05a8c")
    left, width, bar, gap = 230, 430, 11, 8
    medians = [row["producerWithoutServiceSeconds"]["median"] for trial in found for row in trial.rows()]
    longest = max(medians, default=1.0)
    parts, y = [], 30 + 18 * len(found)
    for number, trial in enumerate(found):
        place = f'x="{left}" y="{10 + 18 * number}" width="12" height="12"'
        parts.append(f'<rect {place} fill="{colours[number % 4]}"/>')
        parts.append(f'<text x="{left + 18}" y="{20 + 18 * number}">{escape(trial.name)}</text>')
    for kind in kinds:
        parts.append(f'<text x="{left - 8}" y="{y + bar}" text-anchor="end">{escape(kind)}</text>')
        for number, trial in enumerate(found):
            row = next((one for one in trial.rows() if one["fault"] == kind), None)
            if row is None:
                continue
            value = row["producerWithoutServiceSeconds"]["median"]
            length = max(1.0, value / longest * width)
            place = f'x="{left}" y="{y}" width="{length:.1f}" height="{bar}"'
            parts.append(f'<rect {place} fill="{colours[number % 4]}"/>')
            place = f'x="{left + length + 5:.1f}" y="{y + bar - 2}"'
            parts.append(f'<text {place} font-size="10">{value:.2f} s</text>')
            y += bar + 1
        y += gap
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 740 {y + 10}" font-family="sans-serif" '
        f'font-size="12" fill="#333">\n<rect width="740" height="{y + 10}" fill="#fff"/>\n{body}\n</svg>\n'
    )


def take_over(paths: list[Path], losses_only: list[Path]) -> None:
    """Keeps findings, with the figures that the tables need, and draws the chart anew."""
    found = [json.loads(path.read_text()) for path in paths]
    for path in losses_only:
        found.append({**json.loads(path.read_text()), "rows": [], "each": []})
    DATA.write_text(json.dumps(found, indent=1) + "\n")
    CHART.write_text(draw())


if __name__ == "__main__":
    given = sys.argv[1:]
    at = given.index("--losses-only") if "--losses-only" in given else len(given)
    take_over([Path(argument) for argument in given[:at]], [Path(argument) for argument in given[at + 1 :]])
