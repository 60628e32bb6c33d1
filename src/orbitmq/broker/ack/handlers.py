"""Acknowledgements of popped messages, and changes of their invisible time."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace

from orbitmq.broker.lite.pops import LitePops
from orbitmq.broker.metadata.identity import BrokerIdentity
from orbitmq.broker.pop.acks import PopAcks, read_handle
from orbitmq.broker.pop.acks_cy import handle_acks
from orbitmq.broker.pop.options import PopOptions
from orbitmq.broker.pop.polling import HeldCalls
from orbitmq.broker.pop.pops import LONGEST_INVISIBLE_MS
from orbitmq.broker.registry import handlers
from orbitmq.broker.role.promise import Promise
from orbitmq.handling.call import Call, Durable, HandledFrames, Outcome, Peer, Result, Wait, in_turns
from orbitmq.protocol.bodies.pop import BatchAck
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.handles.pop import TYPE_RETRY_V2, PopHandle, real_topic
from orbitmq.protocol.remoting.command import LANGUAGE_CODES, LANGUAGE_OTHER, Command
from orbitmq.protocol.remoting.header_cy import encode_success
from orbitmq.protocol.requests.pop import (
    RENEWED,
    AckMessage,
    BatchAckMessage,
    ChangeMessageInvisibletime,
    InvisibletimeReply,
)
from orbitmq.protocol.schema.declare import Reply, Void
from orbitmq.store import MessageStore

ACK_BEGINS = b'{"code":200051,'
"""Beginning of an acknowledgement's header as Java, Go and C++ peers write it."""

MOST_BITS = 1 << 16
"""An acknowledgement of several messages names none further from its check point's start than this."""


@dataclass(slots=True)
class PopAckTables:
    """Tables of acknowledgements."""

    identity: BrokerIdentity
    settings: PopOptions
    pop_acks: PopAcks
    lite_pops: LitePops
    held_pops: HeldCalls
    held_notices: HeldCalls
    store: MessageStore
    promise: Promise
    answers: bytearray = field(default_factory=lambda: bytearray(4096))
    """Memory in which `handle_ack_frames` puts answers together."""


@handlers(AckMessage)
def ack_message(tables: PopAckTables, call: Call[AckMessage], now: int) -> Result:
    """A popped message was handled."""
    request = call.request
    tables.pop_acks.check_queue(request.topic, request.queue_id)
    handle = _handle(request.extra_info, request.queue_id)
    if request.lite_topic:
        tables.lite_pops.acknowledge(
            request.consumer_group, request.topic, request.lite_topic, request.offset, handle, now
        )
        return Void()
    result = _acknowledge(tables, request, handle, now)
    _wake_freed(tables)
    return result


def _acknowledge(tables: PopAckTables, request: AckMessage, handle: PopHandle, now: int) -> Result:
    """Acknowledges one message, by its newest handle if a proxy has renewed it: the reply says so then."""
    acks, group, topic, offset = tables.pop_acks, request.consumer_group, request.topic, request.offset
    if not acks.renewed:
        return _after_flush(tables, Void(), acks.acknowledge(group, topic, offset, handle, now), now)
    given = replace(handle, queue_offset=offset)
    newest = acks.renewed.newest(group, topic, given, now)
    end_offset = acks.acknowledge(group, topic, offset, newest or handle, now)
    acks.renewed.remove(group, topic, given)
    return _after_flush(tables, Void(extra=None if newest is None else {RENEWED: "true"}), end_offset, now)


def handle_ack_frames(tables: PopAckTables, data: bytes, peer: Peer, now: int) -> HandledFrames | None:
    """Stores the acknowledgements at the start of what a read brought, whole frames; None if there are none.

    The rest goes through `ack_many`, with the same result.
    """
    writer = tables.store.appending.reserve(now)
    if writer is None:
        return None
    try:
        handled = handle_acks(data, tables.pop_acks, tables.identity.host, writer, tables.answers, now)
        if handled is None:
            return None
        durable, deadline = (
            (writer.segment_start + writer.position, now + tables.promise.timeout_ms())
            if tables.promise.waits
            else (0, 0)
        )
        by_code = {AckMessage.CODE: (handled.answered, 0)}
        result = HandledFrames(handled.end, handled.answers, handled.answered, by_code, durable, deadline)
    except BaseException:
        tables.store.appending.rollback(writer)
        raise
    # A failure before it has stored nothing, and behind it nothing fails.
    tables.store.appending.commit(writer)
    tables.pop_acks.stored(handled.pops)
    peer.version = handled.version
    peer.language = LANGUAGE_CODES.get(handled.language, LANGUAGE_OTHER)
    return result


@dataclass(slots=True)
class _Pop:
    """Content of acknowledgements of one pop that came together."""

    handle: PopHandle
    lowest: int
    end: int
    """The queue offsets that its queue has."""
    places: list[int] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)


def ack_many(
    tables: PopAckTables, commands: Sequence[Command], peer: Peer, now: int
) -> list[Result | Exception | bytes]:
    """Takes the acknowledgements of one read: one record for those of one pop."""
    acks = tables.pop_acks
    results: list[Result | Exception | bytes] = [None] * len(commands)
    pops: dict[tuple[str, str, str], _Pop] = {}
    for place, command in enumerate(commands):
        try:
            request = AckMessage.from_command(command)
            topic, group, offset = request.topic, request.consumer_group, request.offset
            if request.lite_topic:
                results[place] = ack_message(tables, Call(request, command, peer), now)
                continue
            # Handles of one pop differ in their last field, the message's own offset.
            own, _, last = request.extra_info.rpartition(" ")
            pop = pops.get((topic, group, own))
            if (
                pop is None
                or not pop.lowest <= offset <= pop.end
                or pop.handle.queue_id != request.queue_id
                or not (last.isascii() and last.isdigit() and len(last) < 19)
            ):
                acks.check_queue(topic, request.queue_id)
                handle = _handle(request.extra_info, request.queue_id)
                if handle.is_order or handle.queue_offset < 0 or handle.physical_offset >= 0:
                    results[place] = _acknowledge(tables, request, handle, now)
                    continue
                fresh = _Pop(handle, *acks.check_offset(topic, offset, handle))
                pop = pops.setdefault((topic, group, own), fresh)
        except Exception as error:
            results[place] = error
        else:
            pop.places.append(place)
            pop.offsets.append(offset)
    for (topic, group, _), pop in pops.items():
        try:
            end_offset = acks.acknowledge_checked(group, topic, pop.offsets, pop.handle, now)
        except Exception as error:
            for place in pop.places:
                results[place] = error
        else:
            for place in pop.places:
                results[place] = (
                    _after_flush(tables, Void(), end_offset, now)
                    if tables.promise.waits
                    else encode_success(commands[place].opaque)
                )
    _wake_freed(tables)
    return results


ACKS_PER_TURN = 250
"""Pops whose messages are acknowledged in one turn, about 5 ms; other requests follow."""


@handlers(BatchAckMessage)
def batch_ack_message(tables: PopAckTables, call: Call[BatchAckMessage], now: int) -> Result:
    """Acknowledges several popped messages. Those of very many pops take several turns."""
    body = call.request.body
    if not body.acks:
        raise Refused(ResponseCode.NO_MESSAGE, "the request acknowledges nothing")
    return in_turns(_batch_acks(tables, body.broker_name, body.acks, now), now)


def _batch_acks(
    tables: PopAckTables, broker_name: str, acks: list[BatchAck], now: int
) -> Generator[None, None, Result]:
    end_offset = 0
    for number, ack in enumerate(acks, 1):
        end_offset = max(end_offset, _batch_ack(tables, broker_name, ack, now))
        if number % ACKS_PER_TURN == 0:
            _wake_freed(tables)
            yield
    _wake_freed(tables)
    return _after_flush(tables, Void(), end_offset, now)


def _batch_ack(tables: PopAckTables, broker_name: str, ack: BatchAck, now: int) -> int:
    kind = int(ack.retry) if ack.retry in ("0", "1", "2") else -1
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
    if request.lite_topic:
        pop_time, invisible_ms = tables.lite_pops.hide(
            request.consumer_group,
            request.topic,
            request.lite_topic,
            request.offset,
            request.invisible_time,
            handle,
            suspend=bool(request.suspend),
            now=now,
        )
        return InvisibletimeReply(
            pop_time=pop_time,
            invisible_time=invisible_ms,
            revive_qid=handle.revive_queue_id if pop_time else 0,
        )
    acks, group, topic, offset = tables.pop_acks, request.consumer_group, request.topic, request.offset
    given = replace(handle, queue_offset=offset)
    handle = acks.renewed.newest(group, topic, given, now) or handle
    hidden = acks.hide(group, topic, offset, request.invisible_time, handle, now)
    if hidden is None:
        return Void()
    if request.renewal and not handle.is_order:
        newest = given.hidden(hidden.pop_time, hidden.invisible_ms, hidden.revive_queue_id)
        acks.renewed.note(group, topic, given, newest, now)
    else:
        acks.renewed.remove(group, topic, given)
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
    for topic, group, queue_id in tables.pop_acks.drain_freed():
        tables.held_pops.wake(topic, group, queue_id)
        tables.held_notices.wake(topic, group, queue_id)


def _after_flush(tables: PopAckTables, reply: Reply, end_offset: int, now: int) -> Result:
    """The reply, under SYNC_FLUSH held until what it promises is on the disk."""
    if not tables.promise.waits or not end_offset:
        return reply

    def flushed(outcome: Outcome, later: int) -> Result:
        return reply

    return Wait((Durable(end_offset),), now + tables.promise.timeout_ms(), flushed)
