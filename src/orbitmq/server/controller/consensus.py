"""The contract with a consensus store: linearizable transactions, leases, watches; and what can go wrong.

Any store that keeps this contract can hold the decisions of controllers. Keys are relative to their prefix.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from orbitmq.protocol.errors import OrbitError


class ConsensusError(OrbitError):
    """The consensus store cannot be used at this time. Nothing is decided meanwhile."""


class StoreUnreachable(ConsensusError):
    """No member of the store could be reached."""


class NoMajority(ConsensusError):
    """A member of the store answers, but has no majority behind it, or is too slow."""


class StoreRefused(ConsensusError):
    """The store knows neither this certificate nor this user, or does not allow what was asked."""


class StoreUntrusted(ConsensusError):
    """The certificate of the store, or ours, was not accepted."""


class StoreWiped(ConsensusError):
    """The store has lost what controllers wrote."""


class ForeignStore(ConsensusError):
    """The store, or the prefix in it, belongs to somebody else."""


class LeaseLost(ConsensusError):
    """The store does not know this controller's lease any more."""


@dataclass(frozen=True, slots=True)
class WriteGuard:
    """A key that hangs on its owner's lease, and the last change that was made under it."""

    key: str
    lease: int
    revision: int
    """The store's number of the key's creation, or of the last change under the guard."""


class Lease(NamedTuple):
    """A lease in the store, and the time for which its holder may count on it.

    The time begins when the grant, or a renewal that succeeds within it, is asked for.
    """

    id: int
    holds_ms: int


Changes = Mapping[str, str | None]
"""Texts by key; None deletes a key."""


def parts(changes: Changes, most: int, most_bytes: int) -> Iterator[dict[str, str | None]]:
    """The changes in order, in parts of up to `most` changes and about `most_bytes`."""
    part: dict[str, str | None] = {}
    size = 0
    for key, text in changes.items():
        added = len(key.encode()) + len((text or "").encode())
        if part and (len(part) == most or size + added > most_bytes):
            yield part
            part, size = {}, 0
        part[key] = text
        size += added
    if part:
        yield part


class ConsensusStore(Protocol):
    """A store with a majority's word on every read and write. Each method raises ConsensusError."""

    async def open(self) -> None:
        """Checks that the store is there, has a majority, and is the one that the controllers began with."""

    async def read(self, prefix: str = "") -> dict[str, str]:
        """All keys below a prefix with their texts; no older than the call."""

    async def grant(self, seconds: int) -> Lease:
        """A new lease of about so many seconds. It never ends before its holder stops counting on it."""

    async def renew(self, lease: int) -> None:
        """Renews a lease. Raises LeaseLost, too."""

    async def revoke(self, lease: int) -> None:
        """Ends a lease, and with it the keys that hang on it."""

    async def put(self, key: str, text: str, lease: int) -> None:
        """Writes a key that goes with its lease."""

    async def create(self, key: str, text: str, lease: int) -> WriteGuard | None:
        """Writes a key that goes with its lease; None if it is there already."""

    async def commit(self, changes: Changes, guard: WriteGuard) -> WriteGuard | None:
        """All changes or none, and only while the guard's key is its owner's; None deletes a key.

        Gives the guard for the next changes; None if the key is not the owner's any more, and then nothing
        was written. Many changes go in parts, one after another, each under the guard.

        A call that fails may have made its changes, and the store may still make them, until the same
        changes are committed again under the same guard. After that the store refuses what is left of the
        first call: it cannot take back what comes later.
        """

    def watch(self, prefix: str) -> AsyncGenerator[None]:
        """One item as soon as the watch holds, and one after every change below a prefix."""

    async def close(self) -> None:
        """Ends all connections."""
