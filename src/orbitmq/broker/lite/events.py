"""Events: for each client the names of light queues that have something for it.

One member of each group is told of a message. If it does not fetch it in time, another one is told. A client
for which too many names wait is told of the rest as soon as it has fetched these.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from orbitmq.broker.lite.groups import most_events
from orbitmq.broker.lite.options import LiteOptions
from orbitmq.broker.lite.subscriptions import LiteClient, LiteSubscriptions
from orbitmq.broker.metadata.groups import GroupTable
from orbitmq.broker.offset.offsets import OffsetTable
from orbitmq.broker.pop.polling import HeldCalls
from orbitmq.protocol.lite_topics import lite_queue


class LmqStore(Protocol):
    """The light queues of a store."""

    def max_offset(self, topic: str, queue_id: int) -> int: ...
    def lmqs(self, begin: str) -> list[str]: ...


@dataclass(slots=True)
class _Events:
    """Those of one client."""

    names: dict[str, None] = field(default_factory=dict)
    """The oldest first."""
    fetched_ms: int = 0
    has_more: bool = False
    """There was no room for others."""


def held_key(client_id: str) -> tuple[str, str, int]:
    """The key under which pops of a client are held: they wait for its events."""
    return (lite_queue("", client_id), "", -1)


@dataclass(eq=False, repr=False)
class LiteEvents:
    """The events of all clients."""

    _settings: LiteOptions
    _subscriptions: LiteSubscriptions
    _groups: GroupTable
    _offsets: OffsetTable
    _held: HeldCalls
    _store: LmqStore

    def __post_init__(self) -> None:
        self._by_client: dict[str, _Events] = {}
        self._turn = 0

    def __len__(self) -> int:
        return len(self._by_client)

    def arrived(self, arrivals: Iterable[tuple[str, int, int, int]], now: int) -> None:
        """Tells clients of messages (queue, queue id, offset behind it, tags code)."""
        for lmq in {arrival[0] for arrival in arrivals}:
            self.tell(lmq, now)

    def tell(self, lmq: str, now: int, group: str | None = None, besides: LiteClient | None = None) -> None:
        """Tells one member of each group, or of one of them, that a queue has something."""
        by_group: dict[str, list[LiteClient]] = {}
        for client in self._subscriptions.of(lmq, group):
            if client is not besides and lmq not in client.taken_over:
                by_group.setdefault(client.group, []).append(client)
        for members in by_group.values():
            self._tell_one(members, lmq, now)

    def _tell_one(self, members: list[LiteClient], lmq: str, now: int) -> None:
        if any(lmq in self._events(client, now).names for client in members):
            return
        self._turn += 1
        # First one that waits for anything, else one that has fetched lately, the others in turn.
        first = self._turn % len(members)
        members = members[first:] + members[:first]
        if len(members) > 1:
            late = now - self._settings.lite_event_check_interval
            members.sort(
                key=lambda one: (not self._held.of(*_held(one)), self._events(one, now).fetched_ms <= late)
            )
        for client in members:
            if self.give(client, lmq, now):
                return
        self._events(members[0], now).has_more = True

    def give(self, client: LiteClient, lmq: str, now: int) -> bool:
        """Tells a client of a queue; False where too many wait for it."""
        events = self._events(client, now)
        most = most_events(self._groups.get(client.group), self._settings.max_client_event_count)
        if lmq not in events.names and len(events.names) >= most:
            events.has_more = True
            return False
        events.names[lmq] = None
        key = held_key(client.client_id)
        self._held.wake(key[0], key[1], None)
        return True

    def take(self, client: LiteClient, now: int) -> list[str]:
        """All names that wait for a client, the oldest first. Give back those that are not read."""
        events = self._events(client, now)
        events.fetched_ms = now
        if not events.names and events.has_more:
            events.has_more = False
            self.tell_all(client, now)
        names, events.names = list(events.names), {}
        return names

    def give_back(self, client: LiteClient, names: Iterable[str], now: int) -> None:
        """Has names wait again, before those that came meanwhile."""
        events = self._events(client, now)
        events.names = {**dict.fromkeys(names), **events.names}

    def has_some(self, client_id: str) -> bool:
        """True if something waits for a client."""
        events = self._by_client.get(client_id)
        return events is not None and bool(events.names or events.has_more)

    def tell_all(self, client: LiteClient, now: int) -> None:
        """Tells a client of all its queues that have something which its group has not consumed."""
        lmqs = self._store.lmqs(lite_queue(client.topic, "")) if client.is_wildcard else client.lmqs
        for lmq in lmqs:
            if self.has_unread(client.group, lmq) and lmq not in client.taken_over:
                if client.is_wildcard:
                    self.tell(lmq, now, client.group)
                elif not self.give(client, lmq, now):
                    return

    def has_unread(self, group: str, lmq: str) -> bool:
        """True if a group has not consumed all of a queue."""
        return max(0, self._offsets.get(group, lmq, 0)) < self._store.max_offset(lmq, 0)

    def dropped(self, client: LiteClient, now: int) -> None:
        """Gives what waits for a client that is gone to others."""
        events = self._by_client.pop(client.client_id, None)
        for lmq in {*client.lmqs, *(() if events is None else events.names)}:
            if self.has_unread(client.group, lmq):
                self.tell(lmq, now, client.group, besides=client)

    def forget(self, client: LiteClient, lmq: str) -> None:
        """Takes back what a client was told of a queue."""
        events = self._by_client.get(client.client_id)
        if events is not None:
            events.names.pop(lmq, None)

    def scan(self, now: int) -> None:
        """Gives what clients did not fetch in time to other members, where there are some."""
        late = now - self._settings.lite_event_check_interval
        unfetched: list[tuple[LiteClient, str]] = []
        for client_id, events in list(self._by_client.items()):
            client = self._subscriptions.clients.get(client_id)
            if client is None:
                del self._by_client[client_id]
            elif events.names and events.fetched_ms <= late and not self._held.of(*_held(client)):
                unfetched += [(client, lmq) for lmq in events.names]
        for client, lmq in unfetched:
            others = [one for one in self._subscriptions.of(lmq, client.group) if one is not client]
            if any(self.give(other, lmq, now) for other in others):
                self.forget(client, lmq)

    def _events(self, client: LiteClient, now: int) -> _Events:
        events = self._by_client.get(client.client_id)
        if events is None:
            events = self._by_client[client.client_id] = _Events(fetched_ms=now)
        return events


def _held(client: LiteClient) -> tuple[str, str, int]:
    return held_key(client.client_id)
