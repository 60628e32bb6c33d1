"""Subscriptions: the clients of lite groups, and the light queues that each of them has asked for.

A client id stands for one client of one group and one parent. A client of a wildcard group has no queues of
its own: it gets those of its parent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from orbitmq.protocol.lite_topics import lite_parts


@dataclass(slots=True, eq=False)
class LiteClient:
    """One client."""

    client_id: str
    group: str
    topic: str
    """The parent."""
    connection_id: int
    """The connection on which it was last told what it subscribes to."""
    updated_ms: int
    is_wildcard: bool = False
    lmqs: set[str] = field(default_factory=set)
    taken_over: set[str] = field(default_factory=set)
    """Queues that another member of an exclusive group has got since."""


class LiteSubscriptions:
    """All clients; each is found by its id, and by the queues that it has asked for."""

    def __init__(self) -> None:
        self.clients: dict[str, LiteClient] = {}
        self._by_lmq: dict[str, tuple[LiteClient, ...]] = {}
        """A tuple each: mostly of one client, and there may be a hundred thousand."""
        self._wildcards: dict[str, dict[str, list[LiteClient]]] = {}
        """Parent -> group -> members."""
        self.count = 0
        """Number of queues that all clients together have asked for."""

    def __contains__(self, queue: object) -> bool:
        """True if somebody has asked for a queue (name, queue id)."""
        if not isinstance(queue, tuple):
            return False
        name = queue[0]
        if name in self._by_lmq:
            return True
        parts = lite_parts(name) if self._wildcards else None
        return parts is not None and parts[0] in self._wildcards

    def join(
        self,
        client_id: str,
        group: str,
        topic: str,
        connection_id: int,
        now: int,
        *,
        is_wildcard: bool = False,
    ) -> LiteClient:
        """A client that says what it subscribes to. Its group and parent are those it came with."""
        client = self.clients.get(client_id)
        if client is None:
            client = self.clients[client_id] = LiteClient(client_id, group, topic, connection_id, now)
        if is_wildcard and not client.is_wildcard:
            client.is_wildcard = True
            self._wildcards.setdefault(client.topic, {}).setdefault(client.group, []).append(client)
        client.connection_id, client.updated_ms = connection_id, now
        return client

    def add(self, client: LiteClient, lmq: str) -> bool:
        """Has a client get a queue; False if it has it."""
        if lmq in client.lmqs:
            return False
        client.lmqs.add(lmq)
        self._by_lmq[lmq] = (*self._by_lmq.get(lmq, ()), client)
        self.count += 1
        return True

    def remove(self, client: LiteClient, lmq: str) -> bool:
        """Takes a queue from a client; False if it does not have it."""
        if lmq not in client.lmqs:
            return False
        client.lmqs.remove(lmq)
        left = tuple(other for other in self._by_lmq[lmq] if other is not client)
        if left:
            self._by_lmq[lmq] = left
        else:
            del self._by_lmq[lmq]
        self.count -= 1
        return True

    def drop(self, client_id: str) -> LiteClient | None:
        """Forgets a client."""
        client = self.clients.pop(client_id, None)
        if client is None:
            return None
        for lmq in tuple(client.lmqs):
            self.remove(client, lmq)
        if client.is_wildcard:
            groups = self._wildcards[client.topic]
            groups[client.group].remove(client)
            if not groups[client.group]:
                del groups[client.group]
            if not groups:
                del self._wildcards[client.topic]
        return client

    def forget_queue(self, lmq: str) -> None:
        """Takes a queue that is gone from all clients."""
        for client in self._by_lmq.get(lmq, ()):
            self.remove(client, lmq)

    def of(self, lmq: str, group: str | None = None) -> Iterable[LiteClient]:
        """The clients that get a queue; only of one group, if it is given."""
        named = self._by_lmq.get(lmq, ())
        parts = lite_parts(lmq) if self._wildcards else None
        found = [*named, *self._wildcard_members(parts[0])] if parts is not None else named
        return found if group is None else [client for client in found if client.group == group]

    def _wildcard_members(self, topic: str) -> Iterator[LiteClient]:
        for members in self._wildcards.get(topic, {}).values():
            yield from members

    def members(self, group: str) -> list[LiteClient]:
        """The clients of a group."""
        return [client for client in self.clients.values() if client.group == group]

    def silent_since(self, time_ms: int) -> list[LiteClient]:
        """The clients that have not said for so long what they subscribe to."""
        return [client for client in self.clients.values() if client.updated_ms < time_ms]
