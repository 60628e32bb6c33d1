"""Rows to measure: the rows of the table, and the sizes of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import click

CONSUMING = frozenset({"push", "orderly", "pop", "pull"})
"""Loads that read a topic which was filled before."""
ALONE = frozenset({"recovery", "catch-up"})
"""Measurements by this program, on a broker that is started for them."""


@dataclass(frozen=True, slots=True)
class Row:
    """One kind of load."""

    name: str
    op: str
    """Operation of the load generator, or one of `ALONE`."""
    size: int
    """Body size in bytes."""
    what: str
    """Name of the load in the table."""
    threads: int = 1
    batch: int = 1
    in_flight: int = 1000
    groups: int = 1
    rate: int = 0
    """Messages per second where the rate is fixed."""
    flush: str = "ASYNC_FLUSH"
    protection: str = ""
    """`acl`: access is controlled, and every request signed; `tls`: connections are encrypted."""
    replicated: bool = False
    """SYNC_MASTER with one slave: a message is accepted once both have it."""
    cold: bool = False
    """Read from the disk: the broker has just started and its files are in no cache."""
    core: bool = False
    """One of the rows that get all rounds; the others get `Sizes.other_rounds`."""
    share: int = 1
    """Consume rows read this part of `Sizes.fill`."""

    @property
    def title(self) -> str:
        """The load and the size of its messages."""
        return f"{self.what}, {size_text(self.size)}"

    @property
    def consumes(self) -> bool:
        """True if it reads a topic that was filled before."""
        return self.op in CONSUMING


def size_text(size: int) -> str:
    """`128 B`, `1 KiB`, `1 MiB`."""
    for unit, bytes_ in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= bytes_:
            return f"{size // bytes_} {unit}"
    return f"{size} B"


def _sends(size: int) -> list[Row]:
    rows = [
        Row(f"sync{n}-{size}", "sync", size, f"sync send, {n} thread{'s' if n > 1 else ''}", n, core=n <= 64)
        for n in (1, 16, 64, 256)
    ]
    return [
        *rows,
        Row(f"async-{size}", "async", size, "async send, 1,000 open", core=True),
        Row(f"oneway-{size}", "oneway", size, "one-way send, 4 threads", 4),
        Row(f"batch-{size}", "batch", size, "batches of 32, 16 threads", 16, batch=32, core=True),
        Row(f"ordered-{size}", "ordered", size, "ordered send, 8 threads", 8, core=True),
        Row(f"transaction-{size}", "transaction", size, "transactions, 8 threads", 8, core=True),
        Row(f"delay-{size}", "delay", size, "delay level 1, 8 threads", 8, core=True),
        Row(f"raw-{size}", "raw", size, "pipelined raw loader, 4 connections", 4, in_flight=256, core=True),
        Row(f"rawbatch-{size}", "raw", size, "raw loader, batches of 32", 4, batch=32, in_flight=32),
        Row(
            f"syncflush-{size}", "sync", size, "SYNC_FLUSH, 64 threads", 64, flush="SYNC_FLUSH", core=True
        ),
        Row(f"mixed-{size}", "mixed", size, "8 threads send, a group consumes", 8),
    ]  # fmt: skip


def _consumes(size: int) -> list[Row]:
    return [
        Row(f"push-{size}", "push", size, "push consume", core=True),
        Row(f"orderly-{size}", "orderly", size, "orderly consume", core=True),
        Row(f"pop-{size}", "pop", size, "POP consume", core=True, share=10),
        *(
            Row(f"pull{n}-{size}", "pull", size, f"pull, {n} group{'s' if n > 1 else ''}", groups=n)
            for n in (1, 10, 100)
        ),
        Row(f"cold-{size}", "pull", size, "pull from the disk", cold=True),
    ]


PROTECTIONS = {"acl": "access control", "tls": "TLS"}
PROTECTED = ("sync1-", "sync16-", "sync64-", "async-", "batch-", "transaction-", "push-", "pop-")
"""Rows of 128 B that are measured with each protection as well."""


def _protected(rows: list[Row]) -> list[Row]:
    return [
        replace(
            row,
            name=f"{protection}-{row.name}",
            what=f"{row.what}, {title}",
            protection=protection,
            core=False,
        )
        for protection, title in PROTECTIONS.items()
        for row in rows
        if row.size == 128 and row.name.startswith(PROTECTED)
    ]


def _replicated() -> list[Row]:
    how = "SYNC_MASTER with a slave"
    return [
        *(
            Row(
                f"replicated-sync{n}-1024", "sync", 1024, f"sync send, {n} threads, {how}", n, replicated=True
            )
            for n in (16, 64)
        ),
        Row("replicated-async-1024", "async", 1024, f"async send, 1,000 open, {how}", replicated=True),
        Row(
            "replicated-latency-1024",
            "latency",
            1024,
            f"end to end, 2,000/s, {how}",
            rate=2000,
            replicated=True,
        ),
        Row("catch-up-1024", "catch-up", 1024, "a slave comes back, one thread sends"),
    ]


def _rows() -> list[Row]:
    rows = [row for size in (128, 1024) for row in (*_sends(size), *_consumes(size))]
    for size in (64 << 10, 1 << 20):
        rows += [
            Row(f"sync16-{size}", "sync", size, "sync send, 16 threads", 16),
            Row(f"async-{size}", "async", size, "async send, 64 open", in_flight=64),
            Row(f"push-{size}", "push", size, "push consume"),
        ]
    rows += [
        Row(f"latency{rate}-1024", "latency", 1024, f"end to end, {rate:,}/s", rate=rate, core=rate == 2000)
        for rate in (200, 2000, 10_000)
    ]  # fmt: skip
    rows.append(Row("recovery", "recovery", 1024, "start after kill -9", core=True))
    rows += _replicated()
    return rows + _protected(rows)


ROWS = _rows()


def choose(patterns: Sequence[str]) -> list[Row]:
    """The rows whose names begin with one of `patterns`, or all; `core` means those with a goal."""
    if not patterns:
        return list(ROWS)
    words = [word for pattern in patterns for word in pattern.split(",") if word]
    for word in words:
        if word != "core" and not any(row.name.startswith(word) for row in ROWS):
            names = ", ".join(row.name for row in ROWS)
            raise click.BadParameter(f"no row begins with {word!r}; rows: core, {names}", param_hint="--rows")
    return [row for row in ROWS if row.name.startswith(tuple(words)) or ("core" in words and row.core)]


@dataclass(frozen=True, slots=True)
class Sizes:
    """Durations and numbers of measurements. Runs are resumed, and compared, only with equal sizes."""

    rounds: int = 5
    """Of each row of the table of figures to reach (`Row.core`)."""
    other_rounds: int = 1
    """Of every other row."""
    seconds: int = 10
    """Length of the measured window of a send row."""
    ramp: int = 2
    """Seconds of the same load right before the window."""
    warm_up: int = 20
    """Seconds of mixed load on each broker before the first round; a JIT compiler needs 15 or more."""
    fill: int = 1_000_000
    """Messages of the topics that consume rows read; large ones are fewer, a KiB for each of these."""
    starts: int = 3
    """Cold starts of each broker."""
    log_mb: int = 2048
    """Size of the log that a killed broker recovers, or that a slave lacks."""

    def as_dict(self) -> dict[str, int]:
        """For the results file."""
        return asdict(self)

    def rounds_of(self, row: Row) -> int:
        """Number of measurements of a row."""
        return self.rounds if row.core else self.other_rounds

    def count_of(self, row: Row) -> int:
        """Number of messages that a consume row reads, all groups together."""
        return self.filled(row.size) // row.share

    def filled(self, size: int) -> int:
        """Messages in the filled topic of bodies of a size."""
        return max(20, min(self.fill, self.fill * 1024 // size))


QUICK = Sizes(
    rounds=1, other_rounds=1, seconds=2, ramp=1, warm_up=3, fill=40_000, starts=1, log_mb=64
)  # fmt: skip
"""Shows that everything works; its figures say nothing."""
