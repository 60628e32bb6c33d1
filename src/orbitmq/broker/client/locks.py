"""Queue locks of ordered consumers: one client of a group owns a queue for 60 s, and longer by relocking.

An expired lock may be taken by anybody; until somebody does, its owner may renew it. Clients renew every
20 s, and trust a lock for 30 s themselves: that of a client whose connection is gone may be taken then, so
that a queue whose consumer died is not without an owner for longer than it has to be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

LOCK_LIVE_MS = 60_000
"""Time that a lock lives without being renewed (rocketmq.broker.rebalance.lockMaxLiveTime)."""

TRUSTED_MS = 30_000
"""Time that clients handle messages of a queue without a renewal of its lock."""

Queue = tuple[str, str, int]
"""Topic, broker name, queue id: the lock is about the queue as the client names it."""


@dataclass(slots=True)
class QueueLock:
    """Holder of a queue, and the time of its last renewal."""

    client_id: str
    renewed_ms: int

    def is_live(self, now: int) -> bool:
        return now - self.renewed_ms <= LOCK_LIVE_MS


class QueueLocks:
    """The locks of all groups."""

    def __init__(self) -> None:
        self._by_group: dict[str, dict[Queue, QueueLock]] = {}

    def lock(
        self,
        group: str,
        client_id: str,
        queues: Iterable[Queue],
        now: int,
        is_gone: Callable[[str], bool] = lambda client_id: False,
    ) -> list[Queue]:
        """Locks what can be had for `client_id`; gives the queues that it holds now.

        `is_gone` says of an owner whether it is connected no more.
        """
        locks = self._by_group.setdefault(group, {})
        held = []
        for queue in queues:
            lock = locks.get(queue)
            if (
                lock is None
                or lock.client_id == client_id
                or not lock.is_live(now)
                or (now - lock.renewed_ms > TRUSTED_MS and is_gone(lock.client_id))
            ):
                locks[queue] = QueueLock(client_id, now)
                held.append(queue)
        return held

    def unlock(self, group: str, client_id: str, queues: Iterable[Queue]) -> None:
        """Gives up what `client_id` holds of `queues`; locks of others stay."""
        locks = self._by_group.get(group)
        if locks is None:
            return
        for queue in queues:
            lock = locks.get(queue)
            if lock is not None and lock.client_id == client_id:
                del locks[queue]
        if not locks:
            del self._by_group[group]

    def group_holds(self, group: str, now: int) -> bool:
        """True if any client of the group holds a live lock, which makes it a group of ordered consumers."""
        locks = self._by_group.get(group)
        return locks is not None and any(lock.is_live(now) for lock in locks.values())

    def remove_topic(self, topic: str) -> None:
        for group in list(self._by_group):
            locks = self._by_group[group]
            for queue in [queue for queue in locks if queue[0] == topic]:
                del locks[queue]
            if not locks:
                del self._by_group[group]

    def expire(self, now: int) -> None:
        """Forgets locks that expired, so that vanished clients cost nothing."""
        for group in list(self._by_group):
            locks = self._by_group[group]
            for queue in [queue for queue, lock in locks.items() if not lock.is_live(now)]:
                del locks[queue]
            if not locks:
                del self._by_group[group]
