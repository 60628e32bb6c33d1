"""Pops and notifications that are held until there is something for them.

They are held by topic, group and queue (-1: any queue), the oldest first. An arrival wakes one call of each
group; a call that found more than it could take wakes the next. So a message wakes no crowd, and no message
waits while a call does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from orbitmq.broker.pop.options import PopOptions
from orbitmq.handling.call import Signal
from orbitmq.protocol.handles.pop import pop_retry_topic

Key = tuple[str, str, int]
"""Topic, group, queue id."""

Wants = Callable[[int, int, int], bool]
"""True if a message (queue id, queue offset, tags code) of the call's topic is wanted."""


@dataclass(slots=True, eq=False)
class Held:
    """One held call."""

    key: Key
    connection_id: int
    wants: Wants | None
    signal: Signal = field(default_factory=Signal)


class HeldCalls:
    """The held calls of one kind (pops or notifications)."""

    def __init__(self, settings: PopOptions) -> None:
        self._settings = settings
        self._by_group: dict[tuple[str, str], dict[int, dict[Held, None]]] = {}
        """(topic, group) -> queue id -> calls, the oldest first."""
        self._watched: dict[str, dict[tuple[str, str, int], int]] = {}
        """Topic -> who waits for it (topic, group, kind of topic), with the number of their calls."""
        self._by_connection: dict[int, dict[Held, None]] = {}
        self.woken: list[Signal] = []
        """The signals of those woken since the last `drain_woken`."""
        self.count = 0
        """Calls held now."""

    def __contains__(self, queue: object) -> bool:
        """True if somebody waits for a message of a queue (topic, queue id)."""
        return isinstance(queue, tuple) and queue[0] in self._watched

    def hold(self, key: Key, connection_id: int, wants: Wants | None = None) -> Held | None:
        """Notes a call that is held; None if there are too many already."""
        settings = self._settings
        topic, group, queue_id = key
        queues = self._by_group.setdefault((topic, group), {})
        calls = queues.setdefault(queue_id, {})
        if self.count >= settings.max_pop_polling_size or len(calls) >= settings.pop_polling_size:
            self._drop_empty(topic, group, queue_id)
            return None
        held = Held(key, connection_id, wants)
        calls[held] = None
        self._by_connection.setdefault(connection_id, {})[held] = None
        for name, kind in _watched_topics(topic, group):
            watchers = self._watched.setdefault(name, {})
            watcher = (topic, group, kind)
            watchers[watcher] = watchers.get(watcher, 0) + 1
        self.count += 1
        return held

    def release(self, held: Held) -> None:
        """Forgets a call: it was woken, its time is over, or its peer is gone."""
        topic, group, queue_id = held.key
        queues = self._by_group.get((topic, group), {})
        calls = queues.get(queue_id, {})
        if held not in calls:
            return
        del calls[held]
        self._drop_empty(topic, group, queue_id)
        mine = self._by_connection.get(held.connection_id)
        if mine is not None:
            mine.pop(held, None)
            if not mine:
                del self._by_connection[held.connection_id]
        for name, kind in _watched_topics(topic, group):
            watchers = self._watched[name]
            watcher = (topic, group, kind)
            watchers[watcher] -= 1
            if not watchers[watcher]:
                del watchers[watcher]
                if not watchers:
                    del self._watched[name]
        self.count -= 1

    def _drop_empty(self, topic: str, group: str, queue_id: int) -> None:
        queues = self._by_group[topic, group]
        if not queues[queue_id]:
            del queues[queue_id]
        if not queues:
            del self._by_group[topic, group]

    def connection_closed(self, connection_id: int) -> None:
        """Forgets the calls of a peer that is gone."""
        for held in tuple(self._by_connection.get(connection_id, ())):
            self.release(held)

    def of(self, topic: str, group: str, queue_id: int) -> int:
        return len(self._by_group.get((topic, group), {}).get(queue_id, ()))

    def arrived(self, arrivals: Iterable[tuple[str, int, int, int]]) -> None:
        """Wakes one call of each group for these messages (topic, queue id, offset behind it, tags code)."""
        if not self._watched:
            return
        interval = self._settings.pop_long_polling_force_notify_interval
        for topic, queue_id, end_offset, tags_code in arrivals:
            watchers = self._watched.get(topic)
            if watchers is None:
                continue
            queue_offset = end_offset - 1
            # Now and then somebody looks whatever it wants, so that offsets pass unwanted messages.
            is_forced = interval > 0 and queue_offset % interval == 0
            for name, group, kind in tuple(watchers):
                if kind == _RETRY:
                    self.wake(name, group, None)
                elif is_forced:
                    self.wake(name, group, queue_id)
                else:
                    self._wake_for(name, group, queue_id, queue_offset, tags_code)

    def wake(self, topic: str, group: str, queue_id: int | None) -> None:
        """Wakes the oldest call that looks at the queue; None: at whichever queue."""
        queues = self._by_group.get((topic, group), {})
        for number in tuple(queues) if queue_id is None else (-1, queue_id):
            for held in queues.get(number, ()):
                self._wake(held)
                return

    def _wake_for(self, topic: str, group: str, queue_id: int, queue_offset: int, tags_code: int) -> None:
        """Wakes the oldest call that wants the message."""
        queues = self._by_group.get((topic, group), {})
        for number in (-1, queue_id):
            for held in queues.get(number, ()):
                if held.wants is None or held.wants(queue_id, queue_offset, tags_code):
                    self._wake(held)
                    return

    def _wake(self, held: Held) -> None:
        self.release(held)
        self.woken.append(held.signal)

    def signals(self) -> list[Signal]:
        return [held.signal for mine in self._by_connection.values() for held in mine]

    def drain_woken(self) -> list[Signal]:
        """The signals of those woken since the last call."""
        woken, self.woken = self.woken, []
        return woken


_NORMAL = 0
_RETRY = 1


def _watched_topics(topic: str, group: str) -> Iterator[tuple[str, int]]:
    yield topic, _NORMAL
    yield pop_retry_topic(topic, group), _RETRY
    yield pop_retry_topic(topic, group, v2=True), _RETRY
