"""Delay levels: how long each of them waits, and how a send of a delayed message is rerouted.

A message with property DELAY is stored in topic SCHEDULE_TOPIC_XXXX, queue level - 1; its tags code there is
the time at which it is due, its real topic and queue are in properties.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from orbitmq.broker.delay.timer_due import TIMER_PROPERTIES
from orbitmq.protocol.delay_levels import DEFAULT_DELAY_LEVELS, delays_ms
from orbitmq.protocol.names import SCHEDULE_TOPIC


class DelayLevels:
    """The delays by level, from 1; `1s 5s 10s` means level 1 is a second, 2 five, 3 ten."""

    def __init__(self, text: str = DEFAULT_DELAY_LEVELS) -> None:
        self.delay_ms = dict(enumerate(delays_ms(text), start=1))
        self.highest = len(self.delay_ms)

    def due(self, level: int, stored_ms: int) -> int:
        """Due time of a message of a level that was stored at `stored_ms`."""
        return stored_ms + self.delay_ms.get(level, 1_000)

    def reroute(self, topic: str, queue_id: int, properties: Mapping[str, str], now: int) -> Rerouted | None:
        """The place where a message waits first, with the properties to store; None if it is not delayed.

        A level above the highest counts as the highest; text that is no number as no delay.
        """
        try:
            level = int(properties.get("DELAY", "0"))
        except ValueError:
            return None
        if level <= 0:
            return None
        level = min(level, self.highest)
        # A level wins over a time.
        waiting = {name: value for name, value in properties.items() if name not in TIMER_PROPERTIES}
        waiting["DELAY"] = str(level)
        waiting["REAL_TOPIC"] = topic
        waiting["REAL_QID"] = str(queue_id)
        return Rerouted(SCHEDULE_TOPIC, level - 1, waiting, self.due(level, now))


class Rerouted(NamedTuple):
    """The queue in which a delayed message waits; `tags_code` is the time at which it is due, None for the
    hash of its tag.
    """

    topic: str
    queue_id: int
    properties: dict[str, str]
    tags_code: int | None
