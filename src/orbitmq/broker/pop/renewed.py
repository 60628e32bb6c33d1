"""Handles of messages that a proxy keeps invisible while a client works on them.

The client keeps the handle of its pop, and the proxy alone knows those that have replaced it. So the broker
remembers them, too: an acknowledgement through another proxy finds the message after the first one has died.
"""

from __future__ import annotations

from typing import TypeAlias

from orbitmq.protocol.handles.pop import PopHandle

MOST_RENEWED = 100_000
"""Messages whose handles are remembered; beyond that the one renewed longest ago is forgotten."""
_FORGOTTEN_AT_ONCE = 2
"""Messages that were not renewed in time and are forgotten with each one that is noted."""

Key: TypeAlias = tuple[str, str, int, int, int]
"""Group, topic, queue id, queue offset, pop time (ms)."""


class RenewedHandles:
    """The newest handle of each renewed message, since this start."""

    def __init__(self) -> None:
        self._newest: dict[Key, PopHandle] = {}
        """By the handle that the client holds."""
        self._given: dict[Key, Key] = {}
        """The handle that the client holds, by the newest one."""

    def __len__(self) -> int:
        return len(self._newest)

    def note(self, group: str, topic: str, before: PopHandle, newest: PopHandle, now: int) -> None:
        """Notes that a proxy has replaced a message's handle, which may be one of a renewal itself."""
        old = _key(group, topic, before)
        given = self._given.get(old, old)
        self._forget(given)
        self._newest[given] = newest
        self._given[_key(group, topic, newest)] = given
        oldest = list(zip(self._newest.items(), range(_FORGOTTEN_AT_ONCE), strict=False))
        for (key, handle), _ in oldest:
            if handle.visible_ms <= now or len(self._newest) > MOST_RENEWED:
                self._forget(key)

    def newest(self, group: str, topic: str, given: PopHandle, now: int) -> PopHandle | None:
        """The handle that counts for a message in place of its client's, as long as it is hidden by it."""
        handle = self._newest.get(_key(group, topic, given))
        return handle if handle is not None and handle.visible_ms > now else None

    def remove(self, group: str, topic: str, given: PopHandle) -> None:
        """Forgets a message by any of its handles: it is done, or its client has a new one."""
        key = _key(group, topic, given)
        self._forget(self._given.get(key, key))

    def _forget(self, given: Key) -> None:
        newest = self._newest.pop(given, None)
        if newest is not None:
            self._given.pop(_key(given[0], given[1], newest), None)


def _key(group: str, topic: str, handle: PopHandle) -> Key:
    return group, topic, handle.queue_id, handle.queue_offset, handle.pop_time
