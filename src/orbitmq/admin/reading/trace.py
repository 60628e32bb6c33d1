"""Records of the trace topic as clients write them: parsed, and found for one message."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from orbitmq.admin.admin import Admin
from orbitmq.admin.bodies import BodyBudget
from orbitmq.admin.messages import messages_by_key
from orbitmq.client.trace.records import END, FIELD, NOTHING, Handled
from orbitmq.protocol.errors import OrbitError, TopicNotExist
from orbitmq.protocol.names import TRACE_TOPIC
from orbitmq.protocol.records.ids import host_text
from orbitmq.protocol.records.message import StoredMessage
from orbitmq.protocol.records.properties import whole_number

MOST_CARRIERS = 64
"""Trace messages that are read for one message."""
MAX_CARRIER_BYTES = 4 << 20
"""Inflated bytes of one of them: clients end it at 128,000."""


@dataclass(frozen=True, slots=True)
class Traced:
    """One step of a message as a client reported it: `sent`, `delivered` to a consumer, or `handled` by
    it.
    """

    step: Literal["sent", "delivered", "handled"]
    at_ms: int
    group: str
    client: str
    """Address of the client that reported it."""
    retries: int | None = None
    """Times that it had been delivered again before."""
    cost_ms: int | None = None
    success: bool | None = None
    result: str = ""
    """Result of handling: `SUCCESS`, `EXCEPTION`, ..."""


async def traces_of(
    admin: Admin, unique_id: str, topic: str = TRACE_TOPIC, unreadable: list[str] | None = None
) -> list[Traced]:
    """Everything that clients reported on a message, the earliest first; nothing where none traces.

    `unreadable` gets a sentence on each trace message whose body cannot be inflated.
    """
    try:
        carriers = await messages_by_key(admin, topic, unique_id, max_count=MOST_CARRIERS)
    except TopicNotExist:
        return []
    return await asyncio.to_thread(_read, carriers, unique_id, [] if unreadable is None else unreadable)


def _read(carriers: list[StoredMessage], unique_id: str, unreadable: list[str]) -> list[Traced]:
    begun: dict[str, Traced] = {}
    found: set[Traced] = set()
    budget = BodyBudget(MAX_CARRIER_BYTES)
    for carrier in carriers:
        client = _host(carrier.born_host)
        try:
            text = bytes(budget.plain(carrier).body).decode("utf-8", "replace")
        except OrbitError as error:
            unreadable.append(f"trace message {carrier.offset_id} was not read: {error}")
            continue
        found.update(_parse(text, unique_id, client, carrier.store_timestamp, begun))
    return sorted(found, key=lambda one: (one.at_ms, one.step == "handled"))


def _parse(
    text: str, unique_id: str, client: str, stored_ms: int, begun: dict[str, Traced]
) -> Iterator[Traced]:
    """The records about one message. A `SubAfter` of an old client names no group and no time: those of its
    `SubBefore` are taken.
    """
    for record in text.split(END):
        kind, *fields = record.split(FIELD)
        if kind == "Pub" and len(fields) >= 13 and fields[4] == unique_id:
            at_ms, cost_ms = whole_number(fields[0]) or stored_ms, whole_number(fields[9])
            yield Traced("sent", at_ms, _plain(fields[2]), client, None, cost_ms, fields[-1] == "true")
        elif kind == "SubBefore" and len(fields) >= 6 and fields[4] == unique_id:
            at_ms = whole_number(fields[0]) or stored_ms
            begun[fields[3]] = Traced("delivered", at_ms, _plain(fields[2]), client, whole_number(fields[5]))
            yield begun[fields[3]]
        elif kind == "SubAfter" and len(fields) >= 4 and fields[1] == unique_id:
            before = begun.get(fields[0])
            cost_ms = whole_number(fields[2]) or 0
            at_ms = (whole_number(fields[6]) if len(fields) > 6 else None) or (
                stored_ms if before is None else before.at_ms + cost_ms
            )
            group = _plain(fields[7]) if len(fields) > 7 else "" if before is None else before.group
            code = whole_number(fields[5]) if len(fields) > 5 else None
            known = code is not None and 0 <= code < len(Handled)
            success = fields[3] == "true"
            result = Handled(code).name if known and code is not None else "SUCCESS" if success else "FAILED"
            yield Traced("handled", at_ms, group, client, None, cost_ms, success, result)


def _plain(text: str) -> str:
    return "" if text == NOTHING else text


def _host(packed: bytes) -> str:
    return host_text(packed).rpartition(":")[0]
