"""Leases of members that are not master any more, and may answer as masters yet: a new one waits for them."""

from __future__ import annotations

ANYBODY = 0
"""The holder of a lease that the leader before has promised."""


class OpenLeases:
    """The end of each such lease, by group and member."""

    def __init__(self) -> None:
        self._until_ms: dict[str, dict[int, int]] = {}

    def open(self, group: str, until_ms: int, broker_id: int = ANYBODY) -> None:
        """Notes that a lease may hold until then."""
        leases = self._until_ms.setdefault(group, {})
        leases[broker_id] = max(until_ms, leases.get(broker_id, 0))

    def ended(self, group: str, broker_id: int) -> bool:
        """Notes that a member has given up its lease, or has ended; true if it was known to have one."""
        return self._until_ms.get(group, {}).pop(broker_id, None) is not None

    def left_ms(self, group: str, now: int) -> int:
        """Time until the last lease of a group is over; 0 without one."""
        left_ms = max(self._until_ms.get(group, {}).values(), default=now) - now
        if left_ms <= 0:
            self._until_ms.pop(group, None)
            return 0
        return left_ms

    def forget(self, group: str) -> None:
        self._until_ms.pop(group, None)

    def clear(self) -> None:
        self._until_ms.clear()
