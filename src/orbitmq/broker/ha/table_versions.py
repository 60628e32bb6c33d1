"""Changes of a master's tables, counted, and how many of them each of its slaves has taken over."""

from __future__ import annotations

from collections.abc import Iterable


class TableVersions:
    """Asked in controller mode, where any member of the in-sync set may be the next master.

    The count begins with the time of the start, in ms: a number that an earlier process gave out is below it.
    """

    def __init__(self, now: int) -> None:
        self.version = now
        """Number of the last change."""
        self._taken: dict[int, int] = {}

    def changed(self) -> int:
        """Counts a change; gives its number."""
        self.version += 1
        return self.version

    def taken(self, broker_id: int, version: int) -> None:
        """Notes that a slave has taken over all changes up to a number."""
        if version <= self.version:
            self._taken[broker_id] = max(version, self._taken.get(broker_id, 0))

    def are_taken(self, version: int, broker_ids: Iterable[int]) -> bool:
        """True if none of these slaves lacks the change. One that has never said anything counts as none:
        Apache's brokers do not say how far they are.
        """
        return all(self._taken.get(broker_id, version) >= version for broker_id in broker_ids)

    def forget(self) -> None:
        """Forgets the slaves of an earlier time as master."""
        self._taken.clear()
