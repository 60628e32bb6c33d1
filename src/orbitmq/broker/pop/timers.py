"""The timer message that a record of POP becomes: it waits in the timer topic until it is due."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from orbitmq.broker.delay.timer import Timers
from orbitmq.broker.delay.timer_due import rounded
from orbitmq.protocol.names import REAL_QUEUE_ID, REAL_TOPIC, TIMER_DELIVER_MS, TIMER_OUT_MS, TIMER_TOPIC
from orbitmq.store import MessageStore


@dataclass(slots=True, frozen=True)
class Waiting:
    """Topic and queue where a record waits, and its properties there."""

    topic: str
    queue_id: int
    properties: dict[str, str]
    tags_code: int | None = None


class TimerQueue:
    """Puts records into the timer topic, from where the broker's timers take them (see `timer`).

    Refusals that clients get do not matter here: a slot that is crowded, or a time far away.
    """

    def __init__(self, precision_ms: int) -> None:
        self._precision_ms = precision_ms

    def reroute(self, topic: str, queue_id: int, properties: Mapping[str, str], now: int) -> Waiting | None:
        """The place where a record waits until its TIMER_DELIVER_MS; None if that has passed."""
        deliver_ms = int(properties[TIMER_DELIVER_MS])
        if deliver_ms <= now:
            return None
        waiting = {
            **properties,
            TIMER_OUT_MS: str(self.waits_until(deliver_ms)),
            REAL_TOPIC: topic,
            REAL_QUEUE_ID: str(queue_id),
        }
        return Waiting(TIMER_TOPIC, 0, waiting)

    def waits_until(self, deliver_ms: int) -> int:
        """The time of the slot in which a record waits."""
        return rounded(deliver_ms, self._precision_ms)


class TimerProgress:
    """Up to when everything that was due has been delivered and is seen by readers.

    A message that is stored with a time in the past waits for nothing. So what was due until some moment is
    delivered once the timers have taken in what was stored until then, and have delivered the slots before.
    Under SYNC_FLUSH it is seen once it is on the disk.
    """

    def __init__(self, timers: Timers, store: MessageStore) -> None:
        self._timers = timers
        self._store = store
        self._end = 0
        self._marked_ms = 0
        self._taken_in_ms = 0
        self._delivered_ms = 0
        self._delivered_end = 0
        self._confirmed_ms = 0

    def forget(self) -> None:
        """Starts over, with timers that were opened again."""
        self._end = self._marked_ms = self._taken_in_ms = 0
        self._delivered_ms = self._delivered_end = self._confirmed_ms = 0

    def confirmed_ms(self, now: int) -> int:
        """The moment (ms). Without timers nothing waits, and it is now."""
        if self._store.timers is None:
            return now
        if self._timers.queue_offset >= self._end:
            self._taken_in_ms = self._marked_ms
            self._end, self._marked_ms = self._store.max_offset(TIMER_TOPIC, 0), now
            if self._timers.queue_offset >= self._end:
                self._taken_in_ms = now
        store = self._store
        if store.confirm_offset >= self._delivered_end:
            self._confirmed_ms = self._delivered_ms
            self._delivered_ms = min(self._timers.read_ms, self._taken_in_ms)
            self._delivered_end = store.max_physical
            if store.confirm_offset >= self._delivered_end:
                self._confirmed_ms = self._delivered_ms
        return self._confirmed_ms
