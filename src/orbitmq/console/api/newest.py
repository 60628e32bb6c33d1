"""The newest messages of a topic, all or those that are meant, page by page backwards."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated

import msgspec

from orbitmq.admin.reading.newest import newest
from orbitmq.admin.reading.selection import Selection
from orbitmq.console.api.endpoint import Call, endpoint
from orbitmq.console.api.looking import Text
from orbitmq.console.api.messages import SHOWN_BYTES, FoundMessage, found_messages, seen_by
from orbitmq.console.api.problems import Invalid
from orbitmq.console.security.roles import Role
from orbitmq.protocol.bodies.queue import MessageQueue

Offset = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Place = tuple[str, Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)], Offset]
"""Broker, queue, and the offset before which the next page begins."""


class NewestQuery(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """A page: the newest of all, of those before a time, or the one after another page."""

    before_ms: Annotated[int, msgspec.Meta(ge=0)] | None = None
    after: Annotated[str, msgspec.Meta(max_length=64 << 10)] = ""
    """`next` of another page."""
    tag: Text = ""
    """All that is given has to hold. Several tags with `||` between."""
    key: Text = ""
    text: Text = ""
    """A text in the body or in properties, in capitals or small letters."""
    max: Annotated[int, msgspec.Meta(ge=1, le=64)] = 32


class NewestMessages(msgspec.Struct, rename="camel"):
    """One page, the newest first."""

    messages: list[FoundMessage]
    next: str
    """For `after`; empty on the last page."""
    left_out: int
    """Queues without a part in it: a page is made of the 64 with the newest messages."""
    scanned: int
    """Messages that were looked at: 2,000 at most, so a page of a filter may be short, and not the last."""
    back_to_ms: int
    """Store time of the oldest of them; 0 without one."""
    unread: int
    """Messages whose bodies were not looked into for the text,"""
    unread_reason: str
    """and why."""


@endpoint("GET", "/api/clusters/{cluster}/topics/{topic}/messages", Role.VIEWER, rows=("messages",))
async def list_newest(call: Call[NewestQuery, None]) -> NewestMessages:
    """The newest messages of a topic, and page by page the ones before them."""
    query, topic = call.query, call.path["topic"]
    before = _decoded(topic, query.after) if query.after else None
    page = await newest(
        call.cluster.reader,
        topic,
        query.max,
        before=before,
        before_ms=query.before_ms,
        selection=Selection(query.tag, text=query.text, key=query.key, seen=seen_by(call)),
        max_body_bytes=call.console.settings.max_inflated_body_bytes,
    )
    found = [(queue.broker_name, one) for queue, one in page.messages]
    messages = await found_messages(call, found, SHOWN_BYTES)
    return NewestMessages(
        messages,
        _encoded(page.ends),
        page.left_out,
        page.scanned,
        page.back_to_ms,
        page.unread,
        page.reason,
    )


def _encoded(ends: dict[MessageQueue, int]) -> str:
    if not ends:
        return ""
    places = [(queue.broker_name, queue.queue_id, end) for queue, end in ends.items()]
    return base64.urlsafe_b64encode(msgspec.json.encode(places)).decode()


def _decoded(topic: str, text: str) -> dict[MessageQueue, int]:
    try:
        places = msgspec.json.decode(base64.urlsafe_b64decode(text), type=list[Place])
    except (msgspec.MsgspecError, binascii.Error, ValueError):
        raise Invalid("no page", "Take `next` of the page before, or begin anew.", field="after") from None
    return {MessageQueue(topic, broker, queue_id): end for broker, queue_id, end in places}
