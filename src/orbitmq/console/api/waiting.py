"""Messages that wait: delays by level, timers and their recall, half messages of transactions."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator
from typing import Annotated

import msgspec

from orbitmq.admin.waiting.delays import SLOT_MS, broker_delays
from orbitmq.admin.waiting.timers import PendingTimer, TimerScan, recall
from orbitmq.admin.waiting.transactions import HalfMessage, check_again, transactions
from orbitmq.console.api.endpoint import Call, endpoint
from orbitmq.console.api.looking import EVENT_SECONDS
from orbitmq.console.api.messages import SHOWN_BYTES, FoundMessage, found_messages
from orbitmq.console.api.problems import Invalid
from orbitmq.console.security.roles import Role

MOST_TIMERS = 200
MOST_HALVES = 200


class LevelDelay(msgspec.Struct, rename="camel"):
    """Messages of one delay level, of all brokers."""

    level: int
    delay_ms: int
    pending: int
    next_due_ms: int | None
    brokers: dict[str, int]
    """Pending messages by broker."""


class TopicTimers(msgspec.Struct, rename="camel"):
    """Pending timers of one topic, as brokers count them."""

    topic: str
    pending: int


class Slot(msgspec.Struct, rename="camel"):
    """A quarter of an hour of the calendar."""

    at_ms: int
    count: int


class Delays(msgspec.Struct, rename="camel"):
    """Everything that waits for its time."""

    slot_ms: int
    levels: list[LevelDelay]
    level_slots: list[Slot]
    """Messages of delay levels by the time at which they are due."""
    topics: list[TopicTimers]
    timer_behind_seconds: int | None
    without_timers: list[str]
    """Brokers that have no timers: older than 5.0, or with timerWheelEnable=false."""
    may_recall: bool
    """False where a broker has recallMessageEnable=false."""
    errors: list[str]


class TimerQuery(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """Timers to look for."""

    topic: str = ""
    from_ms: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Listed are timers due at this time or later,"""
    to_ms: Annotated[int, msgspec.Meta(ge=0)] = 2**62
    """and before this time. The calendar has all."""
    budget: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 50_000
    """Records of the timer topic that are read at most."""


class TimerEvent(msgspec.Struct, rename="camel"):
    """The pending timers as far as was read."""

    scanned: int
    total: int
    done: bool
    complete: bool
    """False where the budget or an error ended it."""
    pending: int
    slots: list[Slot]
    timers: list[PendingTimer]
    """Those asked for, the soonest first, 200 at most."""
    errors: list[str]


class Recall(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """The timer to take back."""

    broker: str
    topic: str
    due_ms: int
    unique_id: str


class HalfState(msgspec.Struct, rename="camel"):
    """One half message."""

    broker: str
    topic: str
    group: str
    checks: int
    message: FoundMessage


class OpenTransactions(msgspec.Struct, rename="camel"):
    """Transactions without a decision."""

    at_ms: int
    open: list[HalfState]
    """The oldest first, 200 at most."""
    open_count: int
    given_up: list[HalfState]
    """Half messages that brokers no longer ask about, the newest first."""
    complete: bool
    """False where there is more than was read."""
    errors: list[str]


class CheckAgain(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """The half message to ask about."""

    broker: str
    message_id: str


@endpoint("GET", "/api/clusters/{cluster}/delays", Role.VIEWER, rows=("levels", "topics", "level_slots"))
async def get_delays(call: Call[None, None]) -> Delays:
    """Pending messages by delay level and by time, and timers by topic."""
    found = await broker_delays(call.cluster.reader)
    levels: dict[int, LevelDelay] = {}
    slots: Counter[int] = Counter()
    topics: Counter[str] = Counter()
    for one in found:
        slots.update(one.slots)
        topics.update(one.timers_by_topic)
        for state in one.levels:
            level = levels.setdefault(
                state.level, LevelDelay(state.level, state.delay_ms, 0, state.next_due_ms, {})
            )
            level.pending += state.pending
            level.brokers[one.broker] = state.pending
            if state.next_due_ms is not None:
                level.next_due_ms = min(level.next_due_ms or state.next_due_ms, state.next_due_ms)
    answered = [one for one in found if one.error is None]
    behind = [one.timer_behind_seconds for one in answered if one.timer_behind_seconds is not None]
    return Delays(
        SLOT_MS,
        [levels[level] for level in sorted(levels)],
        _slots(slots),
        [TopicTimers(topic, count) for topic, count in topics.most_common()],
        max(behind, default=None),
        [one.broker for one in answered if not one.has_timers],
        all(one.may_recall for one in answered if one.has_timers),
        [f"{one.broker}: {one.error}" for one in found if one.error],
    )


@endpoint("GET", "/api/clusters/{cluster}/timers", Role.VIEWER, rows=("timers",))
async def find_timers(call: Call[TimerQuery, None]) -> AsyncIterator[TimerEvent]:
    """Pending timers as a calendar and a list, as server-sent events; closing the stream ends the reading."""
    query = call.query
    scan = TimerScan(call.cluster.reader, query.topic, query.budget)

    def event(done: bool) -> TimerEvent:
        return TimerEvent(
            scan.scanned,
            scan.total,
            done,
            scan.is_complete,
            scan.count,
            _slots(scan.slots()),
            scan.soonest(MOST_TIMERS, query.from_ms, query.to_ms) if done else [],
            scan.errors,
        )

    last_event = 0.0
    async for _ in scan.run():
        if time.monotonic() - last_event >= EVENT_SECONDS:
            last_event = time.monotonic()
            yield event(done=False)
    yield event(done=True)


@endpoint("POST", "/api/clusters/{cluster}/timers/recall", Role.OPERATOR)
async def recall_timer(call: Call[None, Recall]) -> None:
    """Take a pending timer back: it is never delivered."""
    body = call.body
    call.after = msgspec.to_builtins(body)
    if not body.unique_id:
        raise Invalid(
            "a message without a unique id cannot be taken back", "Its client gave it none.", field="uniqueId"
        )
    await recall(call.cluster.admin, body.broker, body.topic, body.due_ms, body.unique_id)


@endpoint("GET", "/api/clusters/{cluster}/transactions", Role.VIEWER, rows=("open", "given_up"))
async def get_transactions(call: Call[None, None]) -> OpenTransactions:
    """Half messages without a decision, and those that brokers no longer ask about."""
    found = await transactions(call.cluster.reader)
    return OpenTransactions(
        time.time_ns() // 1_000_000,
        await _halves(call, found.open[:MOST_HALVES]),
        len(found.open),
        await _halves(call, found.given_up),
        found.is_complete,
        found.errors,
    )


@endpoint("POST", "/api/clusters/{cluster}/transactions/check", Role.OPERATOR)
async def check_transaction(call: Call[None, CheckAgain]) -> None:
    """Have the producers asked about a half message again, from the start."""
    call.after = msgspec.to_builtins(call.body)
    await check_again(call.cluster.admin, call.body.broker, call.body.message_id)


def _slots(counts: dict[int, int]) -> list[Slot]:
    return [Slot(at_ms, count) for at_ms, count in sorted(counts.items())]


async def _halves(call: Call[None, None], halves: list[HalfMessage]) -> list[HalfState]:
    shown = await found_messages(call, [(one.broker, one.message) for one in halves], SHOWN_BYTES)
    return [
        HalfState(one.broker, one.topic, one.group, one.checks, message)
        for one, message in zip(halves, shown, strict=True)
    ]
