"""Messages of a delay service beside a cluster: its calendar, a search, moves and cancels by name."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

import msgspec

from orbitmq.client.delays import AsyncDelayClient, DelayedMessage, DelayOutcome
from orbitmq.console.api.endpoint import Call, endpoint
from orbitmq.console.api.problems import ApiError
from orbitmq.console.api.waiting import Slot
from orbitmq.console.security.roles import Role

MOST_ON_A_PAGE = 200
LAST_MS = 2**62


class ScheduledQuery(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """The topic to look at; empty: all."""

    topic: str = ""


class Scheduled(msgspec.Struct, rename="camel"):
    """The calendar of a delay service."""

    is_there: bool
    """False if the console knows of none for this cluster: see its flag --delay."""
    role: str
    """The part of the instance that answers: alone, holder or follower."""
    slots: list[Slot]
    """Numbers of pending messages by the hour in which they are due."""
    topics: dict[str, int]
    """Numbers of pending messages by target."""


class ScheduledSearch(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """Messages to look for."""

    topic: str = ""
    prefix: str = ""
    """Beginning of the name."""
    from_ms: Annotated[int, msgspec.Meta(ge=0)] = 0
    to_ms: Annotated[int, msgspec.Meta(ge=0)] = LAST_MS
    """Listed are messages due before this time."""
    cursor: str = ""


class ScheduledMessage(msgspec.Struct, rename="camel"):
    """One message that is pending."""

    id: str
    source: str
    """The cluster of the delay service to which the name belongs."""
    target: str
    due_ms: int
    occurrence: int
    size_bytes: int
    owner: str
    repeats: bool


class ScheduledMessages(msgspec.Struct, rename="camel"):
    """Messages by target, then by time."""

    messages: list[ScheduledMessage]
    cursor: str
    """Place to continue at; empty at the end."""


class Named(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """The message to cancel."""

    source: str
    id: Annotated[str, msgspec.Meta(min_length=1)]


class Moved(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """The message to move."""

    source: str
    id: Annotated[str, msgspec.Meta(min_length=1)]
    due_ms: Annotated[int, msgspec.Meta(ge=0)]


@endpoint("GET", "/api/clusters/{cluster}/scheduled", Role.VIEWER, rows=("slots",))
async def get_scheduled(call: Call[ScheduledQuery, None]) -> Scheduled:
    """Numbers of messages that a delay service holds, by hour and by target."""
    delays = call.cluster.delays
    if delays is None:
        return Scheduled(False, "", [], {})
    stats, calendar = await delays.stats(), await delays.calendar(call.query.topic)
    slots: Counter[int] = Counter()
    for hours in calendar.values():
        for at, count in hours:
            slots[at] += count
    topics = {target: sum(count for _, count in hours) for target, hours in sorted(calendar.items())}
    return Scheduled(True, stats.get("role", "alone"), [Slot(*one) for one in sorted(slots.items())], topics)


@endpoint("GET", "/api/clusters/{cluster}/scheduled/messages", Role.VIEWER, rows=("messages",))
async def find_scheduled(call: Call[ScheduledSearch, None]) -> ScheduledMessages:
    """Pending messages of a delay service by topic, time and beginning of the name."""
    query = call.query
    found, cursor = await _delays(call.cluster.delays).page(
        topic=query.topic,
        since=query.from_ms,
        until=query.to_ms - 1 if query.to_ms < LAST_MS else None,
        prefix=query.prefix,
        limit=MOST_ON_A_PAGE,
        cursor=query.cursor,
    )
    return ScheduledMessages([_message(one) for one in found], cursor)


@endpoint("POST", "/api/clusters/{cluster}/scheduled/cancel", Role.OPERATOR)
async def cancel_scheduled(call: Call[None, Named]) -> None:
    """Cancel a pending message of a delay service: it is never delivered."""
    body, delays = call.body, _delays(call.cluster.delays)
    found = await _pending(delays, body.source, body.id)
    call.before, call.after = msgspec.to_builtins(_message(found)), msgspec.to_builtins(body)
    _check(await delays.cancel(body.id, cluster=body.source, owner=found.owner or None))


@endpoint("POST", "/api/clusters/{cluster}/scheduled/move", Role.OPERATOR)
async def move_scheduled(call: Call[None, Moved]) -> None:
    """Move a pending message of a delay service to another time."""
    body, delays = call.body, _delays(call.cluster.delays)
    found = await _pending(delays, body.source, body.id)
    call.before, call.after = msgspec.to_builtins(_message(found)), msgspec.to_builtins(body)
    _check(await delays.move(body.id, at=body.due_ms, cluster=body.source, owner=found.owner or None))


def _delays(delays: AsyncDelayClient | None) -> AsyncDelayClient:
    if delays is None:
        raise ApiError(
            404,
            "NO_DELAY_SERVICE",
            "this cluster has no delay service",
            "Start the console with --delay URL.",
        )
    return delays


async def _pending(delays: AsyncDelayClient, source: str, id: str) -> DelayedMessage:
    found = await delays.get(id, cluster=source)
    if found is None:
        raise ApiError(404, "NOT_PENDING", f"no message of the name {id} is pending", "It may have left.")
    return found


def _check(outcome: DelayOutcome) -> None:
    if not outcome.in_time:
        code = outcome.outcome.upper().replace("-", "_")
        text = f"{outcome.id}: {outcome.reason or outcome.outcome}"
        raise ApiError(409, code, text, "Look at the list again: the message may have left meanwhile.")


def _message(one: DelayedMessage) -> ScheduledMessage:
    return ScheduledMessage(
        *(one.id, one.cluster, one.target, one.due_ms, one.occurrence, one.size_bytes, one.owner),
        repeats=one.repeat is not None,
    )
