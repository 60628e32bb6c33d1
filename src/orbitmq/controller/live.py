"""Living brokers: who sent heartbeats, and how far each log is. Not stored: a new leader learns it again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

DEFAULT_TIMEOUT_MS = 10_000
"""A broker that does not say otherwise is taken for dead after this silence."""
LEAST_TIMEOUT_MS = 100
"""A broker that asks for less is taken for dead after this silence."""
MAX_TIMEOUT_MS = 60_000
"""No broker may ask for longer, or its group would stay without a master."""
MAX_HEARD = 10_000
"""Brokers whose heartbeats a controller notes that does not lead: it cannot tell which are members."""

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
    known_epoch: int = -1
    """The last epoch that it has heard of; its log may lack it."""
    set_epoch: int = -1
    """Number of the last change of the in-sync set that it has heard of in that epoch."""
    is_master: bool | None = None
    """True if it answers as master while its lease holds; None for brokers that have no lease (Apache's)."""
    peer: str = ""
    """Address that its heartbeats come from, `ip:port`."""


class LiveBrokers:
    """Living brokers by group and id."""

    def __init__(self) -> None:
        self._live: dict[Member, LiveBroker] = {}
        self._last: dict[Member, LiveBroker] = {}
        """The last sign of members that are gone: a group's loss and outage are counted from it."""
        self._heard: set[Member] = set()
        """Members that have sent a heartbeat since this controller leads."""
        self._ended: set[Member] = set()
        """Members of whose end a leader has been told, or has seen it."""
        self._lead_since_ms: int | None = None

    def heartbeat(self, member: Member, broker: LiveBroker) -> None:
        """Notes a sign of life."""
        if self._lead_since_ms is None and member not in self._live and len(self._live) >= MAX_HEARD:
            return
        self._live[member] = broker
        self._last.pop(member, None)
        self._ended.discard(member)
        if self._lead_since_ms is not None:
            self._heard.add(member)

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
        broker = self.of_connection(connection_id)
        return None if broker is None else broker.address

    def of_connection(self, connection_id: int) -> LiveBroker | None:
        """The living broker whose last heartbeat came over a connection."""
        return next((one for one in self._live.values() if one.connection_id == connection_id), None)

    def was_heard(self, member: Member) -> bool:
        """True if a living broker has sent a heartbeat since this controller leads."""
        return member in self._heard and member in self._live

    def has_ended(self, member: Member) -> bool:
        """True if this leader knows that a member is gone, and its lease with it."""
        return member in self._ended

    def forget(self, member: Member) -> None:
        self._live.pop(member, None)
        self._last.pop(member, None)
        self._ended.discard(member)
        self._heard.discard(member)

    def lead(self, now: int, is_member: Callable[[Member, LiveBroker], bool]) -> None:
        """Begins a reign: who is no member is forgotten, and so is who is gone. Only what the leader itself
        has seen counts as the end of a broker.
        """
        self._lead_since_ms = now
        self._last.clear()
        self._ended.clear()
        self._heard.clear()
        self._live = {member: one for member, one in self._live.items() if is_member(member, one)}

    def step_down(self) -> None:
        self._lead_since_ms = None
        self._last.clear()
        self._ended.clear()
        self._heard.clear()

    def expire(self, now: int, lease_ms: Callable[[Member], int] = lambda member: 0) -> list[Member]:
        """Drops brokers that were silent for too long, and gives them.

        A leader counts from the beginning of its reign: the one before may have answered a heartbeat that
        did not come here. `lease_ms` is for how long a member is waited for at least.
        """
        since = self._lead_since_ms or 0

        def is_over(member: Member, one: LiveBroker) -> bool:
            return now - max(one.last_ms, since) > max(one.timeout_ms, lease_ms(member))

        return self._drop([member for member, one in self._live.items() if is_over(member, one)])

    def connection_closed(self, connection_id: int) -> list[Member]:
        """Drops the brokers of a connection that ended, and gives them."""
        return self._drop([m for m, one in self._live.items() if one.connection_id == connection_id])

    def connection_lost(self, member: Member) -> None:
        """Drops one broker: its process has ended."""
        if self._lead_since_ms is not None:
            self._ended.add(member)
        self._drop([one for one in self._live if one == member])

    def _drop(self, members: list[Member]) -> list[Member]:
        for member in members:
            broker = self._live.pop(member)
            if self._lead_since_ms is not None:
                self._last[member] = broker
                self._ended.add(member)
        return members

    def __len__(self) -> int:
        return len(self._live)
