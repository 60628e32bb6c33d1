"""Sends: single, batch and one-way, with either header. Those that came together are stored together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from orbitmq.broker.handlers import handlers
from orbitmq.broker.handlers.new_topics import SAVE_TIMEOUT_MS
from orbitmq.broker.handlers.send_rules import Incoming, accept
from orbitmq.broker.handlers.send_tables import (
    ORDERED,
    AnySend,
    Fixed,
    SendTables,
    extra_fields,
    fixed_parts,
    may_take,
)
from orbitmq.broker.send_cy import SEND_BATCH, ReplyTemplate, SetAside, plain_batch, plain_message
from orbitmq.broker.timer_records import recall_handle
from orbitmq.protocol.call import Call, Condition, Durable, Outcome, Peer, Result, Saved, Wait
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.command import Command
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.ids import offset_message_ids
from orbitmq.protocol.names import HALF_TOPIC, NO_SEND_TOPICS, TIMER_TOPIC
from orbitmq.protocol.requests.send import SendBatchMessage, SendMessage, SendMessageV2, SendReply
from orbitmq.store import Appended, PendingMessage, PutStatus
from orbitmq.store.consume_queue import UNIT_BYTES

ManyResult: TypeAlias = "Result | Exception | bytes"
"""What a send comes to; bytes are the whole frame of the answer."""

_REQUESTS: dict[int, type[AnySend]] = {
    kind.CODE: kind for kind in (SendMessage, SendMessageV2, SendBatchMessage)
}

_CODES = {
    PutStatus.MESSAGE_ILLEGAL: ResponseCode.MESSAGE_ILLEGAL,
    PutStatus.PROPERTIES_SIZE_EXCEEDED: ResponseCode.MESSAGE_ILLEGAL,
    PutStatus.SERVICE_NOT_AVAILABLE: ResponseCode.SERVICE_NOT_AVAILABLE,
    PutStatus.OS_PAGE_CACHE_BUSY: ResponseCode.SYSTEM_BUSY,
}


@handlers(SendMessage, SendMessageV2, SendBatchMessage)
def send(tables: SendTables, call: Call[AnySend], now: int) -> Result:
    """Stores one send that came by itself."""
    try:
        fixed = fixed_parts(tables)
        taken = accept(tables, call, fixed.own_properties, now)
    except Refused as refused:
        refused.extra = extra_fields(tables)
        raise
    (result,) = _results(tables, fixed, [call.command], [taken], [taken.message], now)
    if isinstance(result, Exception):
        raise result
    assert not isinstance(result, bytes)
    return result


def send_many(tables: SendTables, commands: Sequence[Command], peer: Peer, now: int) -> list[ManyResult]:
    """Stores the sends of one peer that came together, in order; one result each."""
    fixed = fixed_parts(tables)
    own = fixed.own_properties
    may_be_plain = _may_be_plain(tables, now)
    topics = tables.topics.by_name
    unsaved = tables.topics.unsaved_names
    host, own_host = peer.host, tables.identity.host
    messages: list[PendingMessage] = []
    accepted: list[Incoming | SetAside | bytes | Exception] = []
    delays_ms = None if tables.store.is_pressed else tables.levels.delay_ms
    takes_halves = not tables.settings.reject_transaction_message
    for command in commands:
        if may_be_plain and not unsaved:
            if command.code == SEND_BATCH:
                most = tables.settings.max_message_size
                batch = plain_batch(command, topics, NO_SEND_TOPICS, most, host, own_host)
                if batch is not None:
                    messages.append(batch[0])
                    accepted.append(batch[1])
                    continue
            plain = plain_message(
                command, topics, NO_SEND_TOPICS, own, host, own_host, delays_ms, takes_halves, now
            )
            if plain is not None:
                messages.append(plain[0])
                accepted.append(plain[1])
                continue
        try:
            call: Call[AnySend] = Call(_REQUESTS[command.code].from_command(command), command, peer)
            incoming = accept(tables, call, own, now)
        except Refused as refused:
            refused.extra = extra_fields(tables)
            accepted.append(refused)
        except Exception as error:
            accepted.append(error)
        else:
            accepted.append(incoming)
            messages.append(incoming.message)
    return _results(tables, fixed, commands, accepted, messages, now)


def _may_be_plain(tables: SendTables, now: int) -> bool:
    return not tables.sync_flush and may_take(tables.settings, now)


def _results(
    tables: SendTables,
    fixed: Fixed,
    commands: Sequence[Command],
    accepted: Sequence[Incoming | SetAside | bytes | Exception],
    messages: list[PendingMessage],
    now: int,
) -> list[ManyResult]:
    template = fixed.template
    results: list[ManyResult] = []
    put = tables.stats.put_fresh
    stored = tables.store.append_many(messages, now)
    at = 0
    for command, incoming in zip(commands, accepted, strict=True):
        if isinstance(incoming, bytes):
            one = stored[at]
            if one.status is not PutStatus.PUT_OK:
                tables.stats.put_failed()
                results.append(_refusal(tables, one.status))
            else:
                message = messages[at]
                put(message.topic, message.queue_id, len(one.units) // UNIT_BYTES or 1, one.size)
                if ORDERED in message.properties:
                    tables.stats.put_typed("fifo", message.topic, one.size)
                if one.units:
                    results.append(
                        template.batch_frame(
                            command.opaque, one.units, message.queue_id, one.queue_offset, incoming
                        )
                    )
                else:
                    results.append(
                        template.frame(
                            command.opaque, one.physical_offset, message.queue_id, one.queue_offset, incoming
                        )
                    )
            at += 1
        elif isinstance(incoming, SetAside):
            results.append(
                _set_aside_result(tables, template, command, incoming, messages[at], stored[at], now)
            )
            at += 1
        elif isinstance(incoming, Incoming):
            results.append(_result(tables, incoming, stored[at], now))
            at += 1
        else:
            results.append(incoming)
    return results


def _set_aside_result(
    tables: SendTables,
    template: ReplyTemplate,
    command: Command,
    aside: SetAside,
    message: PendingMessage,
    stored: Appended,
    now: int,
) -> ManyResult:
    if stored.status is not PutStatus.PUT_OK:
        tables.stats.put_failed()
        return _refusal(tables, stored.status)
    tables.stats.put_fresh(message.topic, message.queue_id, 1, stored.size)
    if message.topic == HALF_TOPIC:
        tables.transactions.stored_fresh(message, aside, stored, now)
    if ORDERED in message.properties:
        tables.stats.put_typed("fifo", message.topic, stored.size)
    return template.frame(
        command.opaque, stored.physical_offset, aside.queue_id, stored.queue_offset, aside.unique_id
    )


def _result(tables: SendTables, incoming: Incoming, stored: Appended, now: int) -> ManyResult:
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
    if message.topic == TIMER_TOPIC:
        reply.recall_handle = recall_handle(message, tables.identity.name, incoming.unique_id)
    conditions: list[Condition] = []
    if incoming.waits_for_disk:
        conditions.append(Durable(stored.end_offset))
    if incoming.is_topic_unsaved:
        conditions.append(Saved(tables.topics.NAME))
    if not conditions:
        return reply

    def settled(outcome: Outcome, later: int) -> Result:
        if outcome.timed_out:
            reply.code = ResponseCode.FLUSH_DISK_TIMEOUT
        return reply

    timeout_ms = tables.settings.sync_flush_timeout if incoming.waits_for_disk else SAVE_TIMEOUT_MS
    return Wait(tuple(conditions), now + timeout_ms, settled)


def _refusal(tables: SendTables, status: PutStatus) -> Refused:
    code = _CODES.get(status, ResponseCode.SYSTEM_ERROR)
    if code is ResponseCode.MESSAGE_ILLEGAL:
        remark = (
            "the message is illegal, maybe msg body or properties length not matched. msg body length limit "
            f"{tables.settings.max_message_size}B, msg properties length limit 32KB."
        )
    elif code is ResponseCode.SYSTEM_BUSY:
        remark = "[PC_SYNCHRONIZED]broker busy, start flow control for a while"
    elif code is ResponseCode.SERVICE_NOT_AVAILABLE:
        remark = "service not available now: the broker's disk is full, or its store stopped after an error"
    else:
        remark = status.name
    return Refused(code, remark, extra_fields(tables))
