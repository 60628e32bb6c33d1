"""Number of popped messages without acknowledgement, by topic, group and queue."""

from __future__ import annotations

from collections.abc import Callable

Key = tuple[str, str]
"""Topic, group."""


class InFlight:
    """Counts since this start: what was popped before it is not in them.

    `by_group` may be read directly: (topic, group) -> queue id -> messages.
    """

    def __init__(self, boot_ms: int) -> None:
        self.by_group: dict[Key, dict[int, int]] = {}
        self._boot_ms = boot_ms

    def add(self, topic: str, group: str, queue_id: int, count: int) -> None:
        """Notes messages that a group took."""
        if count > 0:
            queues = self.by_group.setdefault((topic, group), {})
            queues[queue_id] = queues.get(queue_id, 0) + count

    def subtract(self, topic: str, group: str, queue_id: int, pop_time: int, count: int = 1) -> None:
        """Notes messages that are not in flight any more; those popped before the start were not in."""
        if pop_time < self._boot_ms:
            return
        queues = self.by_group.get((topic, group))
        if queues is None or queue_id not in queues:
            return
        queues[queue_id] -= count
        if queues[queue_id] <= 0:
            self.clear(topic, group, queue_id)

    def clear(self, topic: str, group: str, queue_id: int) -> None:
        queues = self.by_group.get((topic, group))
        if queues is not None:
            queues.pop(queue_id, None)
            if not queues:
                del self.by_group[topic, group]

    def of(self, topic: str, group: str, queue_id: int | None = None) -> int:
        queues = self.by_group.get((topic, group), {})
        return sum(queues.values()) if queue_id is None else queues.get(queue_id, 0)

    def forget(self, now: int) -> None:
        """Starts over: pops until now are not counted."""
        self.by_group.clear()
        self._boot_ms = now

    def remove(self, is_gone: Callable[[str, str], bool]) -> None:
        """Forgets the topics and groups (topic, group) that are gone."""
        for key in [key for key in self.by_group if is_gone(*key)]:
            del self.by_group[key]
