"""Acknowledgements of popped messages, and changes of their invisible time (section 10)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from orbitmq.broker.handlers import handlers
from orbitmq.broker.pop import LONGEST_INVISIBLE_MS
from orbitmq.broker.pop_acks import PopAcks, read_handle
from orbitmq.broker.pop_polling import HeldCalls
from orbitmq.protocol.bodies.pop import BatchAck
from orbitmq.protocol.call import Call, Durable, Outcome, Result, Wait
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.declare import Reply, Void
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.pop import TYPE_RETRY_V2, PopHandle, real_topic
from orbitmq.protocol.requests.pop import (
    AckMessage,
    BatchAckMessage,
    ChangeMessageInvisibletime,
    InvisibletimeReply,
)

MOST_BITS = 1 << 16
"""An acknowledgement of several messages names none further from its check point's start than this."""


class AckSettings(Protocol):
    """What the broker's options say about acknowledgements."""

    @property
    def sync_flush_timeout(self) -> int: ...


@dataclass(slots=True)
class PopAckTables:
    """What acknowledgements change."""

    settings: AckSettings
    pop_acks: PopAcks
    held_pops: HeldCalls
    held_notices: HeldCalls
    sync_flush: bool


@handlers(AckMessage)
def ack_message(tables: PopAckTables, call: Call[AckMessage], now: int) -> Result:
    """A popped message was handled."""
    request = call.request
    tables.pop_acks.check_queue(request.topic, request.queue_id)
    handle = _handle(request.extra_info, request.queue_id)
    end_offset = tables.pop_acks.acknowledge(
        request.consumer_group, request.topic, request.offset, handle, now
    )
    _wake_freed(tables)
    return _after_flush(tables, Void(), end_offset, now)


@handlers(BatchAckMessage)
def batch_ack_message(tables: PopAckTables, call: Call[BatchAckMessage], now: int) -> Result:
    """Several popped messages were handled."""
    body = call.request.body
    if not body.acks:
        raise Refused(ResponseCode.NO_MESSAGE, "the request acknowledges nothing")
    end_offset = 0
    for ack in body.acks:
        end_offset = max(end_offset, _batch_ack(tables, body.broker_name, ack, now))
    _wake_freed(tables)
    return _after_flush(tables, Void(), end_offset, now)


def _batch_ack(tables: PopAckTables, broker_name: str, ack: BatchAck, now: int) -> int:
    kind = int(ack.retry) if ack.retry.isdigit() else -1
    if not 0 <= kind <= TYPE_RETRY_V2:
        raise Refused(ResponseCode.SYSTEM_ERROR, f"retry[{ack.retry}] is none of 0, 1, 2")
    bits = ack.bit_set or b""
    if len(bits) * 8 > MOST_BITS:
        raise Refused(ResponseCode.SYSTEM_ERROR, f"more than {MOST_BITS} messages in one acknowledgement")
    handle = PopHandle(
        ack.start_offset,
        ack.pop_time,
        ack.invisible_time,
        ack.revive_queue_id,
        kind,
        broker_name,
        ack.queue_id,
    )
    offsets = [
        ack.start_offset + place * 8 + bit
        for place, byte in enumerate(bits)
        if byte
        for bit in range(8)
        if byte >> bit & 1
    ]
    topic = real_topic(ack.topic, ack.consumer_group, kind)
    return tables.pop_acks.acknowledge_many(ack.consumer_group, topic, offsets, handle, now)


@handlers(ChangeMessageInvisibletime)
def change_message_invisibletime(
    tables: PopAckTables, call: Call[ChangeMessageInvisibletime], now: int
) -> Result:
    """Keeps a popped message hidden for another while, from now on."""
    request = call.request
    if not 0 <= request.invisible_time <= LONGEST_INVISIBLE_MS:
        raise Refused(
            ResponseCode.INVALID_PARAMETER,
            f"invisibleTime[{request.invisible_time}] is not within 0 ms and {LONGEST_INVISIBLE_MS} ms",
        )
    tables.pop_acks.check_queue(request.topic, request.queue_id)
    handle = _handle(request.extra_info, request.queue_id)
    hidden = tables.pop_acks.hide(
        request.consumer_group, request.topic, request.offset, request.invisible_time, handle, now
    )
    if hidden is None:
        return Void()
    reply = InvisibletimeReply(
        pop_time=hidden.pop_time, invisible_time=hidden.invisible_ms, revive_qid=hidden.revive_queue_id
    )
    return _after_flush(tables, reply, hidden.end_offset, now)


def _handle(text: str, queue_id: int) -> PopHandle:
    """The handle of a request; the queue is the one that the request names."""
    handle = read_handle(text)
    if handle.queue_id != queue_id:
        raise Refused(
            ResponseCode.MESSAGE_ILLEGAL,
            f"queueId[{queue_id}] is illegal, the message was popped from queue {handle.queue_id}",
        )
    return handle


def _wake_freed(tables: PopAckTables) -> None:
    """Calls that wait for queues which an ordered acknowledgement has unblocked look again."""
    for topic, group, queue_id in tables.pop_acks.take_freed():
        tables.held_pops.wake(topic, group, queue_id)
        tables.held_notices.wake(topic, group, queue_id)


def _after_flush(tables: PopAckTables, reply: Reply, end_offset: int, now: int) -> Result:
    """The reply, under SYNC_FLUSH held until what it promises is on the disk."""
    if not tables.sync_flush or not end_offset:
        return reply

    def flushed(outcome: Outcome, later: int) -> Result:
        return reply

    return Wait((Durable(end_offset),), now + tables.settings.sync_flush_timeout, flushed)
