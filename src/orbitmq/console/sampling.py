"""One look at a cluster every few seconds, for all pages together: open pages cost the brokers nothing."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import KW_ONLY, dataclass, field

from orbitmq.admin import Admin
from orbitmq.admin.clusters import BrokerState, broker_states
from orbitmq.admin.dead_letters.counting import DeadLetters, dead_letters
from orbitmq.admin.progress import GroupSummary, group_summaries
from orbitmq.console.history import History
from orbitmq.console.history_file import HistoryFile, HistoryUnusable
from orbitmq.console.reader import Reader
from orbitmq.protocol.errors import OrbitError

log = logging.getLogger(__name__)

SERIES = ("inTps", "outTps", "lag", "deadLetters", "unflushedBytes", "diskRatio")
SHARE = 50
"""The pause after a look is at least so many times as long as the look: brokers of many groups are asked less
often."""
LONGEST_PAUSE_SECONDS = 60.0


@dataclass(slots=True)
class Sample:
    """Findings of one look. `errors` says what could not be found out."""

    at_ms: int = 0
    brokers: list[BrokerState] = field(default_factory=list)
    groups: list[GroupSummary] = field(default_factory=list)
    dead_letters: list[DeadLetters] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    asking_seconds: float = 0.0
    """Time that brokers were busy with it; waiting for one that does not answer does not count."""

    def values(self) -> dict[str, float | None]:
        """The sums over the cluster, by the names of SERIES; None where nothing is known."""
        masters = [one for one in self.brokers if one.at.is_master]
        return {
            "inTps": _total(one.in_tps for one in masters),
            "outTps": _total(one.out_tps for one in self.brokers),
            "lag": float(sum(one.lag for one in self.groups)) if not self.errors else None,
            "deadLetters": float(sum(one.count for one in self.dead_letters)) if not self.errors else None,
            "unflushedBytes": _total(one.unflushed_bytes for one in self.brokers),
            "diskRatio": max(
                (one.disk_ratio for one in self.brokers if one.disk_ratio is not None), default=None
            ),
        }


@dataclass(eq=False, repr=False)
class Sampler:
    """Looks at one cluster for as long as `run` runs; keeps the last sample and the history.

    `history_file` has the history of the cluster `name` over restarts.
    """

    _admin: Admin
    _reader: Reader
    _seconds: float
    _: KW_ONLY
    name: str = ""
    history_file: HistoryFile | None = None

    def __post_init__(self) -> None:
        self.sample = Sample()
        self.history = History(SERIES)
        self._changed = asyncio.Condition()

    async def run(self) -> None:
        """Looks again and again; ends by cancellation."""
        await self._restore()
        while True:
            try:
                sample = await look(self._admin, self._reader)
            except Exception:  # else the pages would show this sample for ever, without a reason
                log.exception("a look at %s failed", self.name)
                await asyncio.sleep(self._seconds)
                continue
            values = sample.values()
            if self.history_file is not None:
                # First, so that a page has never seen a point that the next start does not know.
                await self.history_file.add(self.name, sample.at_ms / 1000, values)
            self.history.add(sample.at_ms / 1000, values)
            async with self._changed:
                self.sample = sample
                self._changed.notify_all()
            pause = max(self._seconds, SHARE * sample.asking_seconds)
            await asyncio.sleep(min(LONGEST_PAUSE_SECONDS, pause))

    async def _restore(self) -> None:
        """Takes over the last day of the file."""
        if self.history_file is None:
            return
        try:
            points = await self.history_file.read(self.name)
        except HistoryUnusable as error:
            log.error("charts of %s begin anew: %s", self.name, error)
            return
        for at_seconds, values in points:
            self.history.add(at_seconds, values)
        if points:
            # The time without a console is a gap of the charts, and not a line.
            self.history.add(points[-1][0], {})

    async def first(self) -> Sample:
        """The last sample; waits for the first one."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.sample.at_ms)
        return self.sample

    async def samples(self) -> AsyncIterator[Sample]:
        """Every new sample from now on."""
        while True:
            async with self._changed:
                await self._changed.wait()
            yield self.sample


async def look(admin: Admin, reader: Reader) -> Sample:
    """One sample. An error of one part leaves the other parts, a broker that is down the other brokers."""
    sample = Sample(at_ms=time.time_ns() // 1_000_000)
    began = time.monotonic()
    with _noting(sample.errors):
        sample.brokers = await broker_states(admin)
    down = [one for one in sample.brokers if one.state == "down"]
    reader.silent = frozenset(one.at.address for one in down)
    if down:
        began = time.monotonic()
    if any(one.state == "active" for one in sample.brokers):
        with _noting(sample.errors):
            sample.groups = await group_summaries(reader)
        with _noting(sample.errors):
            sample.dead_letters = await dead_letters(reader)
        sample.errors += [f"{one.at.name} does not answer, and is left out: {one.error}" for one in down]
    elif not sample.errors:
        sample.errors = [one.error or f"{one.at.name} is {one.state}" for one in sample.brokers]
    sample.asking_seconds = time.monotonic() - began
    return sample


@contextlib.contextmanager
def _noting(errors: list[str]) -> Iterator[None]:
    try:
        yield
    except OrbitError as error:
        errors.append(str(error))


def _total(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(sum(known)) if known else None
