"""Brokers that answered slowly or not at all, and the time for which sends are better kept from them."""

from __future__ import annotations

STEPS: tuple[tuple[int, int], ...] = (
    (15_000, 30_000),
    (5_000, 10_000),
    (3_000, 6_000),
    (1_800, 5_000),
    (550, 2_000),
    (0, 0),
)
"""(latency from which, ms; then unavailable for so long, ms)."""
FAILED_MS = 10_000
"""A try that failed counts as one that took so long."""


def unavailable_ms(latency_ms: float) -> int:
    """Time that a broker is left alone after an answer that took so long."""
    return next(pause for from_ms, pause in STEPS if latency_ms >= from_ms)


class LatencyTable:
    """Brokers by name, with the time (ms, any steady clock) until which they are left alone."""

    def __init__(self) -> None:
        self._unavailable_until: dict[str, float] = {}
        self._unreachable: set[str] = set()

    def answered(self, broker_name: str, latency_ms: float, now_ms: float) -> None:
        """A try ended with an answer."""
        self._unreachable.discard(broker_name)
        pause = unavailable_ms(latency_ms)
        if pause:
            self._unavailable_until[broker_name] = now_ms + pause
        elif self._unavailable_until:
            self._unavailable_until.pop(broker_name, None)

    def failed(self, broker_name: str, now_ms: float, *, reachable: bool) -> None:
        """A try failed; `reachable` where the broker answered, if only with an error."""
        self._unavailable_until[broker_name] = now_ms + unavailable_ms(FAILED_MS)
        if reachable:
            self._unreachable.discard(broker_name)
        else:
            self._unreachable.add(broker_name)

    def is_available(self, broker_name: str, now_ms: float) -> bool:
        """True if it answered in time lately, or has been left alone for long enough."""
        return self._unavailable_until.get(broker_name, 0) <= now_ms

    def is_reachable(self, broker_name: str) -> bool:
        """True if the last try got an answer of any kind."""
        return broker_name not in self._unreachable
