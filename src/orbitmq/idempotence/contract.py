"""The contract between `once` and a store: what a claim can be, and what a store offers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol, runtime_checkable

from orbitmq.idempotence.keys import Entry

DEFAULT_RETENTION_HOURS = 168.0
"""A week; brokers keep dead letters for three days unless they are told otherwise."""
PURGE_BATCH = 500
"""The most rows that one transaction of a clean-up deletes."""


class State(Enum):
    """The state in which a claim found its entry."""

    CLAIMED = "claimed"
    """It was new, and is this delivery's to handle."""
    DONE = "done"
    """It was handled before."""
    IN_FLIGHT = "in flight"
    """Another delivery is being handled now."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Answer of a store to a delivery."""

    state: State
    message_id: str = ""
    """The message that was handled, if the state is DONE."""
    fingerprint: str = ""
    """The fingerprint of its body."""
    result: str | None = None
    """The result that was kept of it."""


CLAIMED = Claim(State.CLAIMED)
IN_FLIGHT = Claim(State.IN_FLIGHT)


class Unit(Protocol):
    """One unit of work: the claims and the handler's writes are committed together, or not at all."""

    @property
    def arguments(self) -> tuple[Any, ...]:
        """Further arguments of the handler: the session or connection of the transaction."""

    def claim(self, entries: Sequence[Entry]) -> list[Claim]:
        """Claim entries, each of another id, without waiting for any. Raises StoreUnavailable."""

    def keep(self, entry: Entry, result: str) -> None:
        """Keep the result of a claimed entry."""

    def release(self, entries: Sequence[Entry]) -> None:
        """Give claims up: their messages come again."""


class AsyncUnit(Protocol):
    """The same for async functions."""

    @property
    def arguments(self) -> tuple[Any, ...]:
        """Further arguments of the handler."""

    async def claim(self, entries: Sequence[Entry]) -> list[Claim]:
        """Claim entries."""

    async def keep(self, entry: Entry, result: str) -> None:
        """Keep a result."""

    async def release(self, entries: Sequence[Entry]) -> None:
        """Give claims up."""


class AsyncOf:
    """The async form of a unit, whose methods `run` calls with their arguments."""

    def __init__(self, unit: Unit, run: Callable[..., Awaitable[Any]]) -> None:
        self.arguments = unit.arguments
        self._unit = unit
        self._run = run

    async def claim(self, entries: Sequence[Entry]) -> list[Claim]:
        claims: list[Claim] = await self._run(self._unit.claim, entries)
        return claims

    async def keep(self, entry: Entry, result: str) -> None:
        await self._run(self._unit.keep, entry, result)

    async def release(self, entries: Sequence[Entry]) -> None:
        await self._run(self._unit.release, entries)


@runtime_checkable
class Store(Protocol):
    """A store for plain handlers, which run in threads."""

    retention_hours: float
    """The time for which keys are kept."""

    def unit(self) -> AbstractContextManager[Unit]:
        """A unit of work: committed at the end of the block, undone if the block raises."""

    def purge(self, now_ms: int) -> int:
        """Delete entries past their retention, in small batches; gives their number."""

    def count(self) -> int | None:
        """Number of entries; None if the store does not know it."""


@runtime_checkable
class AsyncStore(Protocol):
    """A store for async handlers."""

    retention_hours: float

    def async_unit(self) -> AbstractAsyncContextManager[AsyncUnit]:
        """A unit of work."""

    async def async_purge(self, now_ms: int) -> int:
        """Delete entries past their retention, in small batches; gives their number."""

    async def async_count(self) -> int | None:
        """Number of entries; None if the store does not know it."""
