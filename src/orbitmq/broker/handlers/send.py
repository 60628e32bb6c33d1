"""Sends: single, batch and one-way, with either header (broker behaviour, section 3).

The checks stand in the order in which Apache's broker makes them, so that a client that breaks two rules
hears of the same one. Sends that came together are stored together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeAlias

from orbitmq.broker import names
from orbitmq.broker.batches_cy import take_batches
from orbitmq.broker.delay import DelayLevels
from orbitmq.broker.frames_cy import TakenSends, Waiting, take_sends
from orbitmq.broker.groups import GroupTable
from orbitmq.broker.handlers import handlers
from orbitmq.broker.handlers.new_topics import SAVE_TIMEOUT_MS
from orbitmq.broker.identity import BrokerIdentity
from orbitmq.broker.locks import QueueLocks
from orbitmq.broker.retry import VERSION_WITH_MAX_RECONSUME
from orbitmq.broker.send_cy import SEND_BATCH, ReplyTemplate, SetAside, plain_batch, plain_message
from orbitmq.broker.stats import BrokerStats
from orbitmq.broker.timer import Timers
from orbitmq.broker.timer_records import recall_handle
from orbitmq.broker.topics import TopicTable
from orbitmq.broker.transactions import Transactions
from orbitmq.broker.transactions_records import (
    OP_PROPERTIES,
    QUEUE_ID,
    has_delay_level,
    is_delayed,
    set_aside,
)
from orbitmq.protocol.bodies.topic import TopicConfig
from orbitmq.protocol.call import Call, Condition, Durable, Outcome, Peer, Result, Saved, Taken, Wait
from orbitmq.protocol.codes import PERM_WRITE, ResponseCode
from orbitmq.protocol.command import (
    LANGUAGE_CODES,
    LANGUAGE_OTHER,
    LANGUAGE_PYTHON,
    LANGUAGES,
    VERSION,
    Command,
)
from orbitmq.protocol.errors import Malformed, Refused
from orbitmq.protocol.frame import MAX_FRAME_BYTES
from orbitmq.protocol.header_cy import decode_frames, encode_command
from orbitmq.protocol.ids import offset_message_ids
from orbitmq.protocol.message import TRANSACTION_MASK
from orbitmq.protocol.message_cy import measure_batch
from orbitmq.protocol.names import (
    HALF_TOPIC,
    MAX_TOPIC_CHARACTERS,
    NO_SEND_TOPICS,
    RETRY_PREFIX,
    SHARDING_KEY,
    TIMER_TOPIC,
    dlq_topic,
)
from orbitmq.protocol.properties import decode_properties, encode_properties
from orbitmq.protocol.properties_cy import tags_code
from orbitmq.protocol.requests.send import SendBatchMessage, SendMessage, SendMessageV2, SendReply
from orbitmq.protocol.requests.transaction import EndTransaction
from orbitmq.store import Appended, MessageStore, PendingMessage, PutStatus
from orbitmq.store.consume_queue import UNIT_BYTES
from orbitmq.store.room import Room

AnySend: TypeAlias = SendMessage | SendMessageV2 | SendBatchMessage
ManyResult: TypeAlias = "Result | Exception | bytes"
"""What a send comes to; bytes are the whole frame of the answer."""

_REQUESTS: dict[int, type[AnySend]] = {
    kind.CODE: kind for kind in (SendMessage, SendMessageV2, SendBatchMessage)
}

FRAMES_BEGIN = (b'{"code":310,', b'{"code":37,')
"""How Java, Go and C++ peers begin the header of a send, and of the end of a transaction."""
BATCHES_BEGIN = (b'{"code":320,',)
"""The same of a batch."""
ORDERED = SHARDING_KEY.encode() + b"\x01"
"""What the properties of messages hold that are in order by a key."""

_CODES = {
    PutStatus.MESSAGE_ILLEGAL: ResponseCode.MESSAGE_ILLEGAL,
    PutStatus.PROPERTIES_SIZE_EXCEEDED: ResponseCode.MESSAGE_ILLEGAL,
    PutStatus.SERVICE_NOT_AVAILABLE: ResponseCode.SERVICE_NOT_AVAILABLE,
    PutStatus.OS_PAGE_CACHE_BUSY: ResponseCode.SYSTEM_BUSY,
}


class SendSettings(Protocol):
    """What the broker's options say about sends."""

    @property
    def broker_permission(self) -> int: ...
    @property
    def start_accept_send_request_time_stamp(self) -> int: ...
    @property
    def max_message_size(self) -> int: ...
    @property
    def trace_on(self) -> bool: ...
    @property
    def region_id(self) -> str: ...
    @property
    def sync_flush_timeout(self) -> int: ...
    @property
    def reject_transaction_message(self) -> bool: ...
    @property
    def transaction_op_msg_max_size(self) -> int: ...


@dataclass(slots=True, frozen=True)
class Fixed:
    """What follows from options that hardly ever change."""

    region_id: str
    trace_on: bool
    own_properties: bytes
    """What the broker adds to every message."""
    template: ReplyTemplate
    answers: bytearray
    """Memory in which `take_frames` puts answers together."""
    waiting: Waiting
    """What `take_frames` needs of messages that wait elsewhere first."""


@dataclass(slots=True)
class SendTables:
    """What a send looks at and changes."""

    identity: BrokerIdentity
    settings: SendSettings
    topics: TopicTable
    groups: GroupTable
    locks: QueueLocks
    transactions: Transactions
    levels: DelayLevels
    timer: Timers
    store: MessageStore
    stats: BrokerStats
    new_unique_id: Callable[[int], str]
    """A message id for a client that gave none; gets the time in ms."""
    sync_flush: bool = False
    """Whether an acknowledged message is on the disk (SYNC_FLUSH)."""
    next_queue: int = 0
    """Moves on with every send that leaves the queue to the broker."""
    fixed: Fixed | None = None


@dataclass(slots=True)
class Incoming:
    """A send that passed the checks: its message or batch, and what its reply needs."""

    message: PendingMessage
    unique_id: str | None
    waits_for_disk: bool
    is_topic_unsaved: bool
    """The topic is new: a crash before it is in its file would lose it, and the way to the message."""
    queue_id: int
    """The queue of the reply: the one the message is for, though it may have to wait in another one."""


@handlers(SendMessage, SendMessageV2, SendBatchMessage)
def send(tables: SendTables, call: Call[AnySend], now: int) -> Result:
    """Stores one send that came by itself."""
    try:
        fixed = _fixed(tables)
        taken = _accept(tables, call, fixed.own_properties, now)
    except Refused as refused:
        refused.extra = _extra(tables)
        raise
    (result,) = _results(tables, fixed, [call.command], [taken], [taken.message], now)
    if isinstance(result, Exception):
        raise result
    assert not isinstance(result, bytes)
    return result


def take_frames(tables: SendTables, data: bytes, peer: Peer, now: int) -> Taken | None:
    """Stores the sends at the start of what a read brought, whole frames, and ends transactions.

    None if there are none.

    Whatever it leaves goes through `send_many` and `end_many`, to which it would have been the same.
    """
    if not _may_take(tables.settings, now) or tables.topics.unsaved_names:
        return None
    room = tables.store.room(now)
    if room is None:
        return None
    fixed = _fixed(tables)
    try:
        taken = take_sends(
            data,
            tables.topics.by_name,
            NO_SEND_TOPICS,
            fixed.own_properties,
            fixed.template,
            peer.host,
            tables.identity.host,
            tables.sync_flush,
            room,
            tables.stats,
            fixed.answers,
            fixed.waiting,
            now,
        )
        result = None if taken is None else _taken(tables, taken, room, now)
        if taken is not None and (taken.halves or taken.ended):
            tables.transactions.will_note(taken.halves, taken.ended, taken.op_offset, now)
    except BaseException:
        tables.store.leave(room)
        raise
    if taken is None:
        return None
    # What fails before has stored nothing, and behind it nothing fails.
    tables.store.wrote_into(room)
    if taken.halves or taken.ended:
        tables.transactions.note_taken()
    peer.version = taken.version
    peer.language = LANGUAGE_CODES.get(taken.language, LANGUAGE_OTHER)
    return result


def take_batch_frames(tables: SendTables, data: bytes, peer: Peer, now: int) -> Taken | None:
    """Stores the plain batches at the start of what a read brought, as `take_frames` does."""
    if tables.sync_flush or not _may_take(tables.settings, now) or tables.topics.unsaved_names:
        return None
    room = tables.store.room(now)
    if room is None:
        return None
    fixed = _fixed(tables)
    try:
        taken = take_batches(
            data,
            tables.topics.by_name,
            NO_SEND_TOPICS,
            fixed.template,
            peer.host,
            tables.identity.host,
            room,
            tables.stats,
            fixed.answers,
        )
        if taken is None:
            return None
        by_code = {SendBatchMessage.CODE: (taken.answered, taken.oneway)}
        result = Taken(taken.end, taken.answers, taken.answered, by_code)
    except BaseException:
        tables.store.leave(room)
        raise
    tables.store.wrote_into(room)
    peer.version = taken.version
    peer.language = LANGUAGE_CODES.get(taken.language, LANGUAGE_OTHER)
    return result


def _look(tables: SendTables, waiting: Waiting) -> None:
    """Finds out what is taken now of messages that wait elsewhere first, and of decisions about them."""
    waiting.takes_halves = not tables.settings.reject_transaction_message
    waiting.delays_ms = {} if tables.store.is_pressed else tables.levels.delay_ms
    waiting.most_op_bytes = tables.settings.transaction_op_msg_max_size
    recent = tables.transactions.recent_halves()
    waiting.recent = recent if tables.identity.is_master else None


def _taken(tables: SendTables, sends: TakenSends, room: Room, now: int) -> Taken:
    by_code = {SendMessageV2.CODE: (sends.answered - sends.ended_answered, sends.oneway - sends.ended_oneway)}
    if sends.ended:
        by_code[EndTransaction.CODE] = sends.ended_answered, sends.ended_oneway
    if not tables.sync_flush:
        return Taken(sends.end, sends.answers, sends.answered, by_code)
    return Taken(
        sends.end,
        sends.answers,
        sends.answered,
        by_code,
        room.segment_start + room.position,
        now + tables.settings.sync_flush_timeout,
        _not_flushed,
        ResponseCode.FLUSH_DISK_TIMEOUT,
    )


def _not_flushed(answers: bytes) -> bytes:
    """The answers to messages that were stored and are not on the disk after all this time."""
    commands, _ = decode_frames(answers, MAX_FRAME_BYTES)
    for command in commands:
        command.code = ResponseCode.FLUSH_DISK_TIMEOUT
    return b"".join(map(encode_command, commands))


def send_many(tables: SendTables, commands: Sequence[Command], peer: Peer, now: int) -> list[ManyResult]:
    """Stores the sends of one peer that came together, in order; one result each."""
    fixed = _fixed(tables)
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
                    messages.append(batch)
                    accepted.append(b"")
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
            incoming = _accept(tables, call, own, now)
        except Refused as refused:
            refused.extra = _extra(tables)
            accepted.append(refused)
        except Exception as error:
            accepted.append(error)
        else:
            accepted.append(incoming)
            messages.append(incoming.message)
    return _results(tables, fixed, commands, accepted, messages, now)


def _may_be_plain(tables: SendTables, now: int) -> bool:
    return not tables.sync_flush and _may_take(tables.settings, now)


def _may_take(settings: SendSettings, now: int) -> bool:
    """Whether this broker takes messages from anybody."""
    return now >= settings.start_accept_send_request_time_stamp and bool(
        settings.broker_permission & PERM_WRITE
    )


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
                        template.batch_frame(command.opaque, one.units, message.queue_id, one.queue_offset)
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


def _accept(tables: SendTables, call: Call[AnySend], own: bytes, now: int) -> Incoming:
    request = call.request
    settings = tables.settings
    if now < settings.start_accept_send_request_time_stamp:
        raise Refused(
            ResponseCode.SYSTEM_ERROR,
            f"broker unable to service, until {settings.start_accept_send_request_time_stamp}",
        )
    name = request.topic
    topic = tables.topics.by_name.get(name)
    if topic is None:
        _check_permission(tables, None)
        names.check_topic_name(name)
        names.refuse_send_to_system_topic(name)
        topic = _make_topic(tables, request, now)
    else:
        _check_permission(tables, topic)
        if name in NO_SEND_TOPICS:
            names.refuse_send_to_system_topic(name)
    if not topic.perm & PERM_WRITE:
        raise Refused(ResponseCode.NO_PERMISSION, f"the topic[{name}] sending message is forbidden")
    queue_id = request.queue_id
    if queue_id >= max(topic.write_queue_nums, topic.read_queue_nums):
        raise Refused(
            ResponseCode.INVALID_PARAMETER,
            f"request queueId[{queue_id}] is illegal, topic[{name}] has "
            f"{topic.write_queue_nums} write and {topic.read_queue_nums} read queues",
        )
    if queue_id < 0:
        tables.next_queue += 1
        queue_id = tables.next_queue % max(1, topic.write_queue_nums)
    if request.batch or isinstance(request, SendBatchMessage):
        return _accept_batch(tables, call, queue_id)
    return _accept_one(tables, call, queue_id, own, now)


def _check_permission(tables: SendTables, topic: TopicConfig | None) -> None:
    if not tables.settings.broker_permission & PERM_WRITE and (topic is None or topic.order):
        raise Refused(
            ResponseCode.NO_PERMISSION,
            f"the broker[{tables.identity.address}] sending message is forbidden",
        )


def _make_topic(tables: SendTables, request: AnySend, now: int) -> TopicConfig:
    """The topic of a first send: made in the image of the default topic, or as its group's retry topic."""
    topic = tables.topics.create_for_send(
        request.topic, request.default_topic, request.default_topic_queue_nums, bool(request.unit_mode), now
    )
    if topic is None and request.topic.startswith(RETRY_PREFIX):
        topic = tables.topics.ensure(request.topic, 1, now, unit_sub=bool(request.unit_mode))
    if topic is None:
        raise Refused(
            ResponseCode.TOPIC_NOT_EXIST,
            f"topic[{request.topic}] not exist, apply first please!\n"
            "See https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details.",
        )
    return topic


def _accept_one(
    tables: SendTables,
    call: Call[AnySend],
    queue_id: int,
    own: bytes,
    now: int,
) -> Incoming:
    request = call.request
    properties = decode_properties(request.properties or "")
    if "_SYS_MSG_PRIORITY_" in properties:
        queue_id = _queue_of_priority(tables, request.topic, properties, queue_id)
    asked_queue_id = queue_id
    name, queue_id, tags_code = _rewrite(tables, call, properties, queue_id, now)
    message = PendingMessage(
        name,
        queue_id,
        request.flag,
        # Marked as prepared, a record would get no place in its queue: half messages are told by their topic.
        request.sys_flag & ~TRANSACTION_MASK,
        request.born_timestamp,
        call.peer.host,
        tables.identity.host,
        request.reconsume_times or 0,
        0,
        call.command.body or b"",
        encode_properties(properties) + own,
        tags_code,
    )
    waits = tables.sync_flush and properties.get("WAIT") != "false"
    return Incoming(
        message, properties.get("UNIQ_KEY"), waits, _is_unsaved(tables, call, name), asked_queue_id
    )


def _is_unsaved(tables: SendTables, call: Call[AnySend], stored_topic: str) -> bool:
    unsaved = tables.topics.unsaved_names
    return bool(unsaved) and (call.request.topic in unsaved or stored_topic in unsaved)


def _rewrite(
    tables: SendTables,
    call: Call[AnySend],
    properties: dict[str, str],
    queue_id: int,
    now: int,
) -> tuple[str, int, int | None]:
    """Applies what properties ask for; gives the topic, queue and tags code under which to store."""
    for name in ("POP_CK", "MSG_REGION", "TRACE_ON", "CLUSTER"):
        properties.pop(name, None)
    properties.setdefault("UNIQ_KEY", tables.new_unique_id(now))
    name = call.request.topic
    if name.startswith(RETRY_PREFIX):
        dead = _dead_letter_topic(tables, call, now)
        if dead is not None:
            tables.stats.died(name.removeprefix(RETRY_PREFIX), properties.get("RETRY_TOPIC", name))
            properties["DELAY"] = "-1"
            return dead, 0, None
    if properties.get("TRAN_MSG") == "true" and not (
        call.request.reconsume_times and has_delay_level(properties)
    ):
        _check_half(tables, properties)
        set_aside(properties, name, queue_id, call.request.producer_group)
        return HALF_TOPIC, QUEUE_ID, None
    aside = tables.levels.put_aside(name, queue_id, properties, now)
    if aside is not None:
        properties.clear()
    else:
        aside = tables.timer.put_aside(name, queue_id, properties, now)
    if aside is not None:
        if tables.store.is_pressed:
            raise Refused(
                ResponseCode.SERVICE_NOT_AVAILABLE,
                "the disk is too full to keep messages for later: delayed messages are not taken at present",
            )
        properties.update(aside.properties)
        return aside.topic, aside.queue_id, aside.tags_code
    return name, queue_id, None


def _queue_of_priority(tables: SendTables, name: str, properties: dict[str, str], queue_id: int) -> int:
    """The queue of a message's priority, or the last one. A message of another type has no priority."""
    text = properties["_SYS_MSG_PRIORITY_"]
    if not (text.isascii() and text.isdigit()) or int(text) > 0x7FFFFFFF:
        return queue_id
    is_other = properties.get("TRAN_MSG") == "true" or any(
        other in properties
        for other in ("DELAY", "TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS", "__SHARDINGKEY")
    )
    if is_other:
        del properties["_SYS_MSG_PRIORITY_"]
        return queue_id
    return min(int(text), max(0, tables.topics.by_name[name].write_queue_nums - 1))


def _check_half(tables: SendTables, properties: dict[str, str]) -> None:
    """Raises Refused for a half message that the broker does not take, or that nobody could publish."""
    if tables.settings.reject_transaction_message:
        raise Refused(
            ResponseCode.NO_PERMISSION,
            f"the broker[{tables.identity.address}] sending transaction message is forbidden",
        )
    if is_delayed(properties):
        raise Refused(
            ResponseCode.MESSAGE_ILLEGAL,
            "a message of a transaction cannot be delayed: it has DELAY or TIMER_*",
        )


def _dead_letter_topic(tables: SendTables, call: Call[AnySend], now: int) -> str | None:
    """The dead-letter topic, for a message of a retry topic that was delivered often enough."""
    request = call.request
    group_name = request.topic.removeprefix(RETRY_PREFIX)
    group = tables.groups.find(group_name, now)
    if group is None:
        raise Refused(
            ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group not exist, {group_name}"
        )
    most = group.retry_max_times
    if call.peer.version >= VERSION_WITH_MAX_RECONSUME and request.max_reconsume_times is not None:
        most = request.max_reconsume_times
    times = request.reconsume_times or 0
    if times <= most and not (times > 0 and tables.locks.group_holds(group_name, now)):
        return None
    dead = dlq_topic(group_name)
    tables.topics.ensure(dead, 1, now)
    return dead


def _fixed(tables: SendTables) -> Fixed:
    """What is the same for every message, made anew when the options behind it have changed."""
    settings = tables.settings
    fixed = tables.fixed
    if fixed is None or fixed.region_id != settings.region_id or fixed.trace_on != settings.trace_on:
        trace = "true" if settings.trace_on else "false"
        own = {"MSG_REGION": settings.region_id, "TRACE_ON": trace, "CLUSTER": tables.identity.cluster}
        template = ReplyTemplate(
            tables.identity.host, settings.region_id, trace, LANGUAGES[LANGUAGE_PYTHON], VERSION
        )
        fixed = tables.fixed = Fixed(
            settings.region_id,
            settings.trace_on,
            encode_properties(own),
            template,
            bytearray(64 << 10),
            Waiting(OP_PROPERTIES, tags_code(OP_PROPERTIES), partial(_look, tables)),
        )
    return fixed


def _extra(tables: SendTables) -> dict[str, str]:
    settings = tables.settings
    return {"MSG_REGION": settings.region_id, "TRACE_ON": "true" if settings.trace_on else "false"}


def _accept_batch(tables: SendTables, call: Call[AnySend], queue_id: int) -> Incoming:
    """A batch is stored as its messages, with the properties they came with and nothing added."""
    request = call.request
    name = request.topic
    if len(name) > MAX_TOPIC_CHARACTERS or name.startswith(RETRY_PREFIX):
        raise Refused(ResponseCode.MESSAGE_ILLEGAL, f"batch request does not support topic {name}")
    body = bytes(call.command.body or b"")
    if len(body) > tables.settings.max_message_size:
        raise Refused(
            ResponseCode.SYSTEM_ERROR,
            f"message body size exceeded: {len(body)} bytes, limit {tables.settings.max_message_size}",
        )
    batch_properties = decode_properties((request.properties or "").encode())
    if batch_properties.get("TRAN_MSG") == "true" or "DELAY" in batch_properties:
        raise Refused(ResponseCode.MESSAGE_ILLEGAL, "a batch can be neither delayed nor a transaction")
    try:
        count, *_ = measure_batch(body)
    except Malformed as error:
        raise Refused(ResponseCode.MESSAGE_ILLEGAL, f"the batch cannot be read: {error}") from None
    if not count:
        raise Refused(ResponseCode.MESSAGE_ILLEGAL, "the batch is empty")
    message = PendingMessage(
        name,
        queue_id,
        0,
        request.sys_flag,
        request.born_timestamp,
        call.peer.host,
        tables.identity.host,
        request.reconsume_times or 0,
        0,
        b"",
        b"",
        batch=body,
    )
    waits = tables.sync_flush and batch_properties.get("WAIT") != "false"
    return Incoming(
        message, batch_properties.get("UNIQ_KEY"), waits, _is_unsaved(tables, call, name), queue_id
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
        extra=_extra(tables),
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
    return Refused(code, remark, _extra(tables))
