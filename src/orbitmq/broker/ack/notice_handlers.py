"""Notices that a pop would find something: of a queue, or of any lite topic of a client."""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.broker.lite.events import LiteEvents, held_key
from orbitmq.broker.pop.handlers import PopTables, notify
from orbitmq.broker.pop.handlers import notification as notification_of_queue
from orbitmq.broker.pop.polling import HeldCalls
from orbitmq.broker.registry import handlers
from orbitmq.handling.call import Call, Result
from orbitmq.protocol.requests.pop import Notification


@dataclass(slots=True)
class NoticeTables(PopTables):
    """Tables of notices."""

    lite_events: LiteEvents
    held_lite: HeldCalls


@handlers(Notification)
def notification(tables: NoticeTables, call: Call[Notification], now: int) -> Result:
    """True if a pop would find something, now or until the poll time is over."""
    client_id = call.request.client_id
    if not call.request.is_lite_consumer or not client_id:
        return notification_of_queue(tables, call, now)
    key = held_key(client_id)

    def has_message(later: int) -> bool:
        found = tables.lite_events.has_some(client_id)
        if found:
            # A notice takes no message: the next call of the client, if one waits, may have it.
            tables.held_lite.wake(key[0], key[1], None)
        return found

    return notify(call, tables.held_lite, key, has_message, now)
