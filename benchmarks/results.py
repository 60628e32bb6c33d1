"""The results file: one JSON object a line, appended as soon as it is known, so that a run can go on.

Lines of `kind` run open a run and name its settings; start and round hold figures; end closes it.
"""

from __future__ import annotations

import json
import os
import statistics
import uuid
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any


@dataclass(slots=True)
class Run:
    """One run, finished or not."""

    id: str
    settings: dict[str, Any]
    facts: dict[str, Any]
    """Of the machine and the programs."""
    starts: dict[str, list[float]] = field(default_factory=dict)
    """Seconds from exec to the first accepted send, by broker."""
    idle_bytes: dict[str, list[int]] = field(default_factory=dict)
    """Anonymous memory of a broker that has just started, by broker."""
    rounds: dict[tuple[str, int], dict[str, dict[str, Any]]] = field(default_factory=dict)
    """By row and round: the figures of each broker."""
    finished: bool = False

    def only(self, names: Collection[str]) -> Run:
        """The same run with the figures of these rows alone."""
        rounds = {key: figures for key, figures in self.rounds.items() if key[0] in names}
        return replace(self, rounds=rounds)

    def median(self, row: str, broker: str, key: str) -> float | None:
        """The median of a figure over the rounds; None where nothing was measured."""
        values = [
            figures[broker][key]
            for (name, _), figures in self.rounds.items()
            if name == row and figures.get(broker, {}).get(key) is not None
        ]
        return statistics.median(values) if values else None

    def errors(self, row: str, broker: str) -> int:
        """Sends that were not accepted, over all rounds."""
        return sum(
            figures[broker].get("errors", 0)
            for (name, _), figures in self.rounds.items()
            if name == row and broker in figures
        )


def _take_start(run: Run, entry: dict[str, Any]) -> None:
    run.starts.setdefault(entry["broker"], []).append(entry["seconds"])
    run.idle_bytes.setdefault(entry["broker"], []).append(entry["idle_bytes"])


class Results:
    """Appends to, and reads, one results file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def open_run(self, settings: dict[str, Any], facts: dict[str, Any], *, fresh: bool) -> tuple[Run, bool]:
        """The last run if it has the same settings and no end, else a new one; and whether it goes on."""
        runs = list(self.read())
        if runs and not fresh:
            last = runs[-1]
            if not last.finished and last.settings == settings and last.facts == facts:
                return last, True
        run = Run(uuid.uuid4().hex[:12], settings, facts)
        self._append({"kind": "run", "run": run.id, "settings": settings, "facts": facts})
        return run, False

    def add_start(self, run: Run, broker: str, seconds: float, idle_bytes: int) -> None:
        """Notes a cold start."""
        entry = {
            "kind": "start",
            "run": run.id,
            "broker": broker,
            "seconds": seconds,
            "idle_bytes": idle_bytes,
        }
        _take_start(run, entry)
        self._append(entry)

    def add_round(self, run: Run, row: str, number: int, figures: dict[str, dict[str, Any]]) -> None:
        """Notes one round of a row: both brokers at once, as they are only comparable together."""
        run.rounds[row, number] = figures
        self._append({"kind": "round", "run": run.id, "row": row, "round": number, "figures": figures})

    def close_run(self, run: Run) -> None:
        """Marks a run as complete."""
        run.finished = True
        self._append({"kind": "end", "run": run.id})

    def read(self) -> Iterable[Run]:
        """Every run of the file in order; a line torn by a crash is left out."""
        runs: dict[str, Run] = {}
        if not self.path.exists():
            return []
        for line in self.path.read_text().splitlines():
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            if entry["kind"] == "run":
                runs[entry["run"]] = Run(entry["run"], entry["settings"], entry["facts"])
                continue
            run = runs[entry["run"]]
            if entry["kind"] == "start" and "idle_bytes" in entry:
                _take_start(run, entry)
            elif entry["kind"] == "round":
                run.rounds[entry["row"], entry["round"]] = entry["figures"]
            elif entry["kind"] == "end":
                run.finished = True
        return list(runs.values())

    def _append(self, entry: dict[str, Any]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab+") as out:
            if out.tell():
                out.seek(-1, os.SEEK_END)
                if out.read(1) != b"\n":  # a line torn by a crash must not take this one with it
                    out.write(b"\n")
            out.write(json.dumps(entry, separators=(",", ":")).encode() + b"\n")
