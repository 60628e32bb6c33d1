"""Topics that are looked through: a live tail, and a search for a text, both as server-sent events."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any

import msgspec

from orbitmq.admin.reading.search import search
from orbitmq.admin.reading.selection import MAX_TEXT, Selection
from orbitmq.admin.reading.tail import tail
from orbitmq.console.api.endpoint import Call, endpoint
from orbitmq.console.api.messages import SHOWN_BYTES, FoundMessage, found_messages, seen_by
from orbitmq.console.security.roles import Role
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.records.message import StoredMessage

EVENT_SECONDS = 0.5
MAX_BUDGET = 10_000_000

Text = Annotated[str, msgspec.Meta(max_length=MAX_TEXT)]


class TailQuery(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """Messages that are meant: all that is given has to hold."""

    tag: Text = ""
    sql: Text = ""
    """An SQL92 expression over properties."""
    text: Text = ""
    """A text in the body or in properties, in capitals or small letters."""
    rate: Annotated[int, msgspec.Meta(ge=1, le=100)] = 20
    """Messages a second; of more the newest are shown, the others are counted."""


class TailEvent(msgspec.Struct, rename="camel"):
    """A look at the topic, one a second; messages are the oldest first."""

    at_ms: int
    seen: int
    """Messages that came in since the event before."""
    left_out: int
    """Of those, messages beyond the rate."""
    messages: list[FoundMessage]
    unread: int = 0
    """Of those, messages whose bodies were not looked into for the text,"""
    unread_reason: str = ""
    """and why."""


class SearchQuery(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """A search."""

    text: Text = ""
    tag: Text = ""
    sql: Text = ""
    from_ms: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Stored at this time or later."""
    budget: Annotated[int, msgspec.Meta(ge=1, le=MAX_BUDGET)] = 100_000
    """Messages that are read at most."""
    max: Annotated[int, msgspec.Meta(ge=1, le=200)] = 100
    """Messages that are found at most."""


class SearchEvent(msgspec.Struct, rename="camel"):
    """Messages found since the event before."""

    scanned: int
    total: int
    done: bool
    end: str
    """The reason that it is over: `all`, `budget` (so many messages were read), `bytes` (so many bytes were
    inflated) or `enough`."""
    messages: list[FoundMessage]
    unread: int = 0
    """Messages so far whose bodies were not looked into for the text,"""
    unread_reason: str = ""
    """and why."""


@endpoint("GET", "/api/clusters/{cluster}/topics/{topic}/tail", Role.VIEWER)
async def tail_topic(call: Call[TailQuery, None]) -> AsyncIterator[TailEvent]:
    """Messages of a topic as they come in, as server-sent events."""
    query = call.query
    selection = Selection(query.tag, query.sql, query.text, seen=seen_by(call))
    most_body = call.console.settings.max_inflated_body_bytes
    looks = tail(call.cluster.reader, call.path["topic"], selection, query.rate, max_body_bytes=most_body)
    async for look in looks:
        messages = await _shown(call, look.messages)
        yield TailEvent(
            time.time_ns() // 1_000_000, look.seen, look.left_out, messages, look.unread, look.reason
        )


@endpoint("GET", "/api/clusters/{cluster}/topics/{topic}/search", Role.VIEWER, rows=("messages",))
async def search_topic(call: Call[SearchQuery, None]) -> AsyncIterator[SearchEvent]:
    """Messages of a topic that hold a text, as server-sent events; closing the stream ends the search."""
    query = call.query
    selection = Selection(query.tag, query.sql, query.text, seen=seen_by(call))
    steps = search(
        call.cluster.reader,
        call.path["topic"],
        selection,
        from_ms=query.from_ms,
        budget=query.budget,
        most=query.max,
        max_body_bytes=call.console.settings.max_inflated_body_bytes,
    )
    found: list[FoundMessage] = []
    last_event = 0.0
    async for step in steps:
        found += await _shown(call, step.found)
        if step.end or time.monotonic() - last_event >= EVENT_SECONDS:
            last_event = time.monotonic()
            yield SearchEvent(
                step.scanned, step.total, bool(step.end), step.end, found, step.unread, step.reason
            )
            found = []


async def _shown(
    call: Call[Any, None], found: Sequence[tuple[MessageQueue, StoredMessage]]
) -> list[FoundMessage]:
    if not found:
        return []
    return await found_messages(call, [(queue.broker_name, one) for queue, one in found], SHOWN_BYTES)
