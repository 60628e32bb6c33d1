"""Living brokers: who sent heartbeats, and how far each log is. Not stored: a new leader learns it anew."""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_TIMEOUT_MS = 10_000
"""A broker that does not say otherwise is taken for dead after this silence."""
MAX_TIMEOUT_MS = 3_600_000
"""No broker may ask for longer, or its group would stay without a master."""

Member = tuple[str, int]
"""Broker name and id."""


@dataclass(slots=True)
class LiveBroker:
    """The last heartbeat of one broker."""

    address: str
    connection_id: int
    last_ms: int
    timeout_ms: int
    epoch: int = -1
    max_offset: int = -1
    confirm_offset: int = -1
    election_priority: int = 1 << 31
    """The smaller one is preferred among equals."""

    def is_expired(self, now: int) -> bool:
        """True if its last heartbeat is too long ago."""
        return now - self.last_ms > self.timeout_ms


class LiveBrokers:
    """Living brokers by group and id."""

    def __init__(self) -> None:
        self._live: dict[Member, LiveBroker] = {}
        self._last: dict[Member, LiveBroker] = {}
        """The last sign of brokers that are gone: a group's loss and outage are counted from it."""

    def heartbeat(self, member: Member, broker: LiveBroker) -> None:
        """Notes a sign of life."""
        self._live[member] = broker
        self._last.pop(member, None)

    def get(self, member: Member) -> LiveBroker | None:
        """The last heartbeat of a living broker."""
        return self._live.get(member)

    def last(self, member: Member) -> LiveBroker | None:
        """The last heartbeat of a broker, living or gone."""
        return self._live.get(member) or self._last.get(member)

    def of_group(self, name: str) -> dict[int, LiveBroker]:
        """The living members of a group by id."""
        return {broker_id: one for (group, broker_id), one in self._live.items() if group == name}

    def address_of(self, connection_id: int) -> str | None:
        """The address of the living broker whose last heartbeat came over a connection."""
        return next((one.address for one in self._live.values() if one.connection_id == connection_id), None)

    def forget(self, member: Member) -> None:
        """Drops a member for good."""
        self._live.pop(member, None)
        self._last.pop(member, None)

    def lead(self) -> None:
        """Forgets who is gone: only what the leader itself has seen counts as the end of a broker."""
        self._last.clear()

    def expire(self, now: int) -> list[Member]:
        """Drops brokers that were silent for too long, and gives them."""
        return self._drop([member for member, one in self._live.items() if one.is_expired(now)])

    def connection_closed(self, connection_id: int) -> list[Member]:
        """Drops the brokers of a connection that ended, and gives them."""
        return self._drop([m for m, one in self._live.items() if one.connection_id == connection_id])

    def connection_lost(self, member: Member) -> None:
        """Drops one broker: its process has ended."""
        self._drop([one for one in self._live if one == member])

    def _drop(self, members: list[Member]) -> list[Member]:
        for member in members:
            self._last[member] = self._live.pop(member)
        return members

    def __len__(self) -> int:
        return len(self._live)
