"""A store in memory: for tests, and for programs whose effects are in the same memory."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from orbitmq.client import InvalidArgument
from orbitmq.idempotence.contract import (
    CLAIMED,
    DEFAULT_RETENTION_HOURS,
    IN_FLIGHT,
    AsyncOf,
    Claim,
    State,
)
from orbitmq.idempotence.keys import Entry


@dataclass(slots=True)
class _Row:
    entry: Entry
    result: str | None = None
    done_at_ms: int | None = None


class MemoryStore:
    """Keys in this process alone: they end with it, and other processes do not see them.

    For plain and async handlers. `max_entries` bounds the memory: the oldest keys go first.
    """

    def __init__(
        self, *, retention_hours: float = DEFAULT_RETENTION_HOURS, max_entries: int = 1_000_000
    ) -> None:
        if max_entries < 1:
            raise InvalidArgument(f"MemoryStore: max_entries has to be 1 or more, not {max_entries}")
        self.retention_hours = retention_hours
        self._max_entries = max_entries
        self._rows: dict[str, _Row] = {}
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def unit(self) -> Iterator[_Unit]:
        """A unit of work; a handler that fails leaves nothing behind."""
        unit = _Unit(self._rows, self._lock)
        try:
            yield unit
        except BaseException:
            unit.end(done=False)
            raise
        unit.end(done=True)
        self._trim()

    @contextlib.asynccontextmanager
    async def async_unit(self) -> AsyncIterator[AsyncOf]:
        """The same for async handlers."""
        with self.unit() as unit:
            yield AsyncOf(unit, _at_once)

    def _trim(self) -> None:
        with self._lock:
            while len(self._rows) > self._max_entries:
                oldest = next((one for one, row in self._rows.items() if row.done_at_ms is not None), None)
                if oldest is None:
                    return
                del self._rows[oldest]

    def purge(self, now_ms: int) -> int:
        """Delete keys past their retention."""
        limit_ms = now_ms - self.retention_hours * 3_600_000
        with self._lock:
            old = [
                one
                for one, row in self._rows.items()
                if row.done_at_ms is not None and row.done_at_ms < limit_ms
            ]
            for one in old:
                del self._rows[one]
        return len(old)

    async def async_purge(self, now_ms: int) -> int:
        """Delete keys past their retention."""
        return self.purge(now_ms)

    def count(self) -> int:
        """Number of keys."""
        return len(self._rows)

    async def async_count(self) -> int:
        """Number of keys."""
        return len(self._rows)


class _Unit:
    arguments: tuple[()] = ()

    def __init__(self, rows: dict[str, _Row], lock: threading.Lock) -> None:
        self._rows = rows
        self._lock = lock
        self._claimed: dict[str, _Row] = {}

    def claim(self, entries: Sequence[Entry]) -> list[Claim]:
        with self._lock:
            return [self._claim(entry) for entry in entries]

    def _claim(self, entry: Entry) -> Claim:
        row = self._rows.get(entry.id)
        if row is None:
            row = self._rows[entry.id] = self._claimed[entry.id] = _Row(entry)
            return CLAIMED
        if row.done_at_ms is None:
            return IN_FLIGHT
        return Claim(State.DONE, row.entry.message_id, row.entry.fingerprint, row.result)

    def keep(self, entry: Entry, result: str) -> None:
        self._claimed[entry.id].result = result

    def release(self, entries: Sequence[Entry]) -> None:
        with self._lock:
            for entry in entries:
                del self._claimed[entry.id]
                del self._rows[entry.id]

    def end(self, *, done: bool) -> None:
        now_ms = time.time_ns() // 1_000_000
        with self._lock:
            for one, row in self._claimed.items():
                if done:
                    row.done_at_ms = now_ms
                else:
                    del self._rows[one]


async def _at_once(work: Callable[..., Any], *arguments: Any) -> Any:
    return work(*arguments)
