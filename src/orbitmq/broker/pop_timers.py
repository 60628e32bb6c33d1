"""How a record of POP becomes a timer message: it waits in the timer topic until it is due."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from orbitmq.protocol.names import REAL_QUEUE_ID, REAL_TOPIC, TIMER_DELIVER_MS, TIMER_OUT_MS, TIMER_TOPIC

TICK_MS = 1000


@dataclass(slots=True, frozen=True)
class Waiting:
    """Where a record waits, and its properties there."""

    topic: str
    queue_id: int
    properties: dict[str, str]
    tags_code: int | None = None


class TimerQueue:
    """Puts records into the timer topic."""

    def put_aside(self, topic: str, queue_id: int, properties: Mapping[str, str], now: int) -> Waiting | None:
        """Where a record waits until the tick before its TIMER_DELIVER_MS; None if that has passed."""
        deliver_ms = int(properties[TIMER_DELIVER_MS])
        due_ms = (deliver_ms - 1) // TICK_MS * TICK_MS
        if deliver_ms <= now:
            return None
        waiting = {
            **properties,
            TIMER_OUT_MS: str(due_ms),
            REAL_TOPIC: topic,
            REAL_QUEUE_ID: str(queue_id),
        }
        return Waiting(TIMER_TOPIC, 0, waiting)
