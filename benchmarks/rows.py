"""What is measured: the rows of the table, and the sizes of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import click


@dataclass(frozen=True, slots=True)
class Row:
    """One kind of load."""

    name: str
    op: str
    """What the load generator is asked to do: sync, async, batch or consume."""
    size: int
    """Body size in bytes."""
    threads: int = 1
    batch: int = 32
    in_flight: int = 1000

    @property
    def title(self) -> str:
        """How the row is called in the table."""
        what = {
            "sync": f"sync send, {self.threads} thread{'s' if self.threads > 1 else ''}",
            "async": f"async send, {self.in_flight:,} open",
            "batch": f"batches of {self.batch}, {self.threads} threads",
            "consume": "push consume",
        }[self.op]
        return f"{what}, {'128 B' if self.size == 128 else '1 KiB'}"


def _rows() -> list[Row]:
    rows: list[Row] = []
    for size in (128, 1024):
        for threads in (1, 16, 64):
            rows.append(Row(f"sync{threads}-{size}", "sync", size, threads))
        rows.append(Row(f"async-{size}", "async", size))
        rows.append(Row(f"batch-{size}", "batch", size, threads=16))
        rows.append(Row(f"consume-{size}", "consume", size))
    return rows


ROWS = _rows()


def choose(patterns: Sequence[str]) -> list[Row]:
    """The rows whose names begin with one of `patterns`; all of them without patterns."""
    if not patterns:
        return list(ROWS)
    for pattern in patterns:
        if not any(row.name.startswith(pattern) for row in ROWS):
            names = ", ".join(row.name for row in ROWS)
            raise click.BadParameter(f"no row begins with {pattern!r}; rows: {names}", param_hint="--rows")
    return [row for row in ROWS if row.name.startswith(tuple(patterns))]


@dataclass(frozen=True, slots=True)
class Sizes:
    """How long and how often. Runs are resumed, and compared, only with equal sizes."""

    rounds: int = 3
    seconds: int = 10
    """Length of the measured window of a send row."""
    ramp: int = 2
    """Seconds of the same load right before the window."""
    warm_up: int = 20
    """Seconds of mixed load on each broker before the first round; a JIT compiler needs 15 or more."""
    fill: int = 400_000
    """Messages of the topic that the consume rows read."""
    starts: int = 3
    """Cold starts of each broker."""

    def as_dict(self) -> dict[str, int]:
        """For the results file."""
        return asdict(self)


QUICK = Sizes(rounds=1, seconds=2, ramp=1, warm_up=3, fill=40_000, starts=1)
"""Shows that everything works; its figures say nothing."""
