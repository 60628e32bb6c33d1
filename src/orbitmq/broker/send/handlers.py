"""Sends: single, batch and one-way, with either header. Those that came together are stored together."""

from __future__ import annotations

from collections.abc import Sequence

from orbitmq.broker.delay.timer_records import recall_handle
from orbitmq.broker.registry import handlers
from orbitmq.broker.send.rules import Incoming, accept, illegal
from orbitmq.broker.send.tables import (
    ORDERED,
    AnySend,
    SendTables,
    extra_fields,
    fixed_parts,
)
from orbitmq.handling.call import Call, Condition, Durable, Outcome, Peer, Result, Saved, Wait
from orbitmq.handling.saving import SAVE_TIMEOUT_MS
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.names import HALF_TOPIC, TIMER_TOPIC
from orbitmq.protocol.records.ids import offset_message_ids
from orbitmq.protocol.remoting.command import Command
from orbitmq.protocol.requests.send import SendBatchMessage, SendMessage, SendMessageV2, SendReply
from orbitmq.store import Appended, PutStatus
from orbitmq.store.queue.consume_queue import UNIT_BYTES

_REQUESTS: dict[int, type[AnySend]] = {
    kind.CODE: kind for kind in (SendMessage, SendMessageV2, SendBatchMessage)
}

_CODES = {
    PutStatus.MESSAGE_ILLEGAL: ResponseCode.MESSAGE_ILLEGAL,
    PutStatus.PROPERTIES_SIZE_EXCEEDED: ResponseCode.MESSAGE_ILLEGAL,
    PutStatus.SERVICE_NOT_AVAILABLE: ResponseCode.SERVICE_NOT_AVAILABLE,
    PutStatus.OS_PAGE_CACHE_BUSY: ResponseCode.SYSTEM_BUSY,
    PutStatus.LMQ_CONSUME_QUEUE_NUM_EXCEEDED: ResponseCode.LMQ_QUOTA_EXCEEDED,
}


@handlers(SendMessage, SendMessageV2, SendBatchMessage)
def send(tables: SendTables, call: Call[AnySend], now: int) -> Result:
    """Stores one send that came by itself."""
    incoming = _accept(tables, call, fixed_parts(tables).own_properties, now)
    (result,) = _results(tables, [incoming], now)
    if isinstance(result, Exception):
        raise result
    return result


def send_many(
    tables: SendTables, commands: Sequence[Command], peer: Peer, now: int
) -> list[Result | Exception]:
    """Stores the sends of one peer that came together, in order; one result each."""
    own = fixed_parts(tables).own_properties
    accepted: list[Incoming | Exception] = []
    for command in commands:
        try:
            call: Call[AnySend] = Call(_REQUESTS[command.code].from_command(command), command, peer)
            accepted.append(_accept(tables, call, own, now))
        except Exception as error:
            accepted.append(error)
    return _results(tables, accepted, now)


def _accept(tables: SendTables, call: Call[AnySend], own: bytes, now: int) -> Incoming:
    """Accepts a send. Its refusal has the fields of answers to sends, as that of its header has not."""
    try:
        return accept(tables, call, own, now)
    except Refused as refused:
        refused.extra = extra_fields(tables)
        raise


def _results(
    tables: SendTables, accepted: Sequence[Incoming | Exception], now: int
) -> list[Result | Exception]:
    """Stores what was accepted, with one call of the store."""
    messages = [one.message for one in accepted if isinstance(one, Incoming)]
    stored = iter(tables.store.append_many(messages, now))
    return [_result(tables, one, next(stored), now) if isinstance(one, Incoming) else one for one in accepted]


def _result(tables: SendTables, incoming: Incoming, stored: Appended, now: int) -> Result | Exception:
    if stored.status is not PutStatus.PUT_OK:
        tables.stats.put_failed()
        return _refusal(tables, stored.status)
    message = incoming.message
    tables.stats.put_fresh(message.topic, message.queue_id, len(stored.units) // UNIT_BYTES or 1, stored.size)
    if message.topic == HALF_TOPIC:
        tables.transactions.stored(message, stored, now)
    if ORDERED in message.properties:
        tables.stats.put_typed("fifo", message.topic, stored.size)
    reply = SendReply(
        msg_id=offset_message_ids(tables.identity.host, stored.parts or (stored.physical_offset,)),
        queue_id=incoming.queue_id,
        queue_offset=stored.queue_offset,
        transaction_id=incoming.unique_id,
        extra=extra_fields(tables),
    )
    if incoming.led is not None:
        reply.queue_id = incoming.led.global_id
        if message.topic in tables.topics.static.by_topic:
            reply.queue_offset = incoming.led.static_offset(stored.queue_offset)
    if message.topic == TIMER_TOPIC:
        reply.recall_handle = recall_handle(message, tables.identity.name, incoming.unique_id)
    conditions: list[Condition] = []
    if incoming.waits_for_disk:
        conditions.append(Durable(stored.end_offset))
    if incoming.is_topic_dirty:
        conditions.append(Saved(tables.topics.NAME))
    if not conditions:
        return reply

    def then(outcome: Outcome, later: int) -> Result:
        if outcome.timed_out:
            late = incoming.waits_for_disk
            reply.code = (
                tables.promise.late_code(stored.end_offset) if late else ResponseCode.FLUSH_DISK_TIMEOUT
            )
        return reply

    timeout_ms = tables.promise.timeout_ms() if incoming.waits_for_disk else SAVE_TIMEOUT_MS
    return Wait(tuple(conditions), now + timeout_ms, then)


def _refusal(tables: SendTables, status: PutStatus) -> Refused:
    code = _CODES.get(status, ResponseCode.SYSTEM_ERROR)
    if code is ResponseCode.MESSAGE_ILLEGAL:
        return illegal(tables)
    if code is ResponseCode.SYSTEM_BUSY:
        remark = "[PC_SYNCHRONIZED]broker busy, start flow control for a while"
    elif code is ResponseCode.SERVICE_NOT_AVAILABLE:
        remark = "service not available now: the broker's disk is full, or its store stopped after an error"
    elif code is ResponseCode.LMQ_QUOTA_EXCEEDED:
        remark = "[LMQ_CONSUME_QUEUE_NUM_EXCEEDED]lmq consume queue num exceeded."
    else:
        remark = status.name
    return Refused(code, remark, extra_fields(tables))
