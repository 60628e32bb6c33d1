"""Delayed messages by level and by broker: how many wait, and when they are due."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from orbitmq.admin.admin import Admin, BrokerAt
from orbitmq.admin.brokers import broker_config, broker_status
from orbitmq.admin.messages import page
from orbitmq.protocol.bodies.metrics import TimerMetricsSerializeWrapper
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.delay_levels import DEFAULT_DELAY_LEVELS, delays_ms
from orbitmq.protocol.errors import BrokerRefused, Malformed, OrbitError
from orbitmq.protocol.names import SCHEDULE_TOPIC
from orbitmq.protocol.requests.admin import GetTimerMetrics
from orbitmq.protocol.requests.offset import SearchOffsetByTimestamp
from orbitmq.protocol.requests.topic import GetTopicStatsInfo

SLOT_MS = 900_000
"""Width of a calendar's slot: a quarter of an hour is a part of an hour in every time zone."""


@dataclass(frozen=True, slots=True)
class LevelState:
    """Messages of one delay level on one broker."""

    level: int
    delay_ms: int
    pending: int
    next_due_ms: int | None
    """Due time of the first one; None without any, or where it cannot be read."""


@dataclass(frozen=True, slots=True)
class BrokerDelays:
    """Everything that waits for its time on one broker. `error` says why nothing is known."""

    broker: str
    levels: list[LevelState] = field(default_factory=list)
    """Levels with messages."""
    slots: Mapping[int, int] = field(default_factory=dict)
    """Messages of levels by the start of the slot (ms since 1970) in which they are due."""
    has_timers: bool = False
    """False from brokers before 5.0, and with timerWheelEnable=false."""
    timers_by_topic: Mapping[str, int] = field(default_factory=dict)
    timer_behind_seconds: int | None = None
    """Time by which the broker is late in taking timers up."""
    may_recall: bool = False
    """The broker's recallMessageEnable."""
    error: str | None = None


async def broker_delays(admin: Admin) -> list[BrokerDelays]:
    """Delays of all masters. A broker that does not answer has an `error`."""

    async def ask(one: BrokerAt) -> BrokerDelays:
        try:
            return await _delays_of(admin, one)
        except OrbitError as error:
            return BrokerDelays(one.name, error=str(error))

    return await admin.each(await admin.masters(), ask)


async def _delays_of(admin: Admin, one: BrokerAt) -> BrokerDelays:
    info = await broker_status(admin, one.address)
    config = await broker_config(admin, one.address)
    delays = _level_delays(config)
    ends = {
        queue.queue_id: (offsets.min_offset, offsets.max_offset)
        for queue, offsets in (
            await admin.call(one.address, GetTopicStatsInfo(SCHEDULE_TOPIC))
        ).body.offset_table.items()
    }
    levels: list[LevelState] = []
    slots: Counter[int] = Counter()
    for level, delay_ms in enumerate(delays, start=1):
        # A broker reports nothing on a level that it has not read yet: all of it waits.
        position, end = _position(info.get(f"scheduleMessageOffset_{level}")) or ends.get(level - 1, (0, 0))
        if position < end:
            queue = MessageQueue(SCHEDULE_TOPIC, one.name, level - 1)
            first, _ = await page(admin, one.address, queue, position, 1)
            due = first[0].store_timestamp + delay_ms if first else None
            levels.append(LevelState(level, delay_ms, end - position, due))
            slots.update(await _slots_of(admin, one, queue, delay_ms, position, end))
    has_timers = config.get("timerWheelEnable") == "true"
    behind = info.get("timerReadBehind", "")
    return BrokerDelays(
        one.name,
        levels,
        slots,
        has_timers,
        await _timers_by_topic(admin, one) if has_timers else {},
        int(behind) if has_timers and behind.isdigit() else None,
        config.get("recallMessageEnable") == "true",
    )


def _level_delays(config: Mapping[str, str]) -> tuple[int, ...]:
    try:
        return delays_ms(config.get("messageDelayLevel", DEFAULT_DELAY_LEVELS))
    except ValueError:
        return delays_ms(DEFAULT_DELAY_LEVELS)


def _position(text: str | None) -> tuple[int, int] | None:
    """Offsets of the next delivery and of the end, from a line `12,15` of the runtime info."""
    position, _, end = (text or "").partition(",")
    return (int(position), int(end)) if position.isdigit() and end.isdigit() else None


async def _slots_of(
    admin: Admin, one: BrokerAt, queue: MessageQueue, delay_ms: int, position: int, end: int
) -> dict[int, int]:
    """Messages by slot. Within a level messages are due in the order of their offsets, so counts follow
    from offsets, and nothing is read.
    """
    slots = {}
    slot = time.time_ns() // 1_000_000 // SLOT_MS * SLOT_MS
    while position < end:
        request = SearchOffsetByTimestamp(queue.topic, queue.queue_id, slot + SLOT_MS - delay_ms)
        following = min(end, max(position, (await admin.call(one.address, request)).offset))
        if slot - delay_ms > time.time_ns() // 1_000_000:
            following = end  # a clock that was set back
        if following > position:
            slots[slot] = following - position
        position, slot = following, slot + SLOT_MS
    return slots


async def _timers_by_topic(admin: Admin, one: BrokerAt) -> dict[str, int]:
    try:
        body = (await admin.call(one.address, GetTimerMetrics())).body
        wrapper = TimerMetricsSerializeWrapper.from_json(bytes(body or b"{}").decode("utf-8", "replace"))
    except (BrokerRefused, Malformed):
        return {}
    return {topic: metric.count for topic, metric in sorted(wrapper.timing_count.items()) if metric.count > 0}
