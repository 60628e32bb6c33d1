"""The message that an admitted send becomes, and the conditions that its content has to meet.

The checks stand in the order in which Apache's broker makes them, those of `admission` first.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from orbitmq.broker.auth.permissions import PUB, SUB, Actions
from orbitmq.broker.auth.records import user_of
from orbitmq.broker.copied_properties import MAX_COPIED_PROPERTIES_BYTES
from orbitmq.broker.meaningful_properties import DROPPED, DROPPED_IN_BATCH
from orbitmq.broker.metadata.static_mappings import LedQueue
from orbitmq.broker.retry.rules import retry_limit
from orbitmq.broker.role.blind import refused_while_blind
from orbitmq.broker.send.admission import OF_COPIES
from orbitmq.broker.send.light_queues import light_queues, names_light_queues
from orbitmq.broker.send.tables import AnySend, SendTables, extra_fields, fixed_parts
from orbitmq.broker.transaction.records import QUEUE_ID, has_delay_level, is_delayed, reroute_to_half
from orbitmq.handling.call import Call
from orbitmq.protocol.bodies.topic import TopicConfig
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Malformed, Refused
from orbitmq.protocol.help_pages import UNKNOWN_TOPICS
from orbitmq.protocol.names import (
    DLQ_ORIGIN_TOPIC,
    HALF_TOPIC,
    MAX_TOPIC_CHARACTERS,
    RETRY_PREFIX,
    RETRY_TOPIC,
    dlq_topic,
)
from orbitmq.protocol.records.batch_cy import encode_batch, split_batch
from orbitmq.protocol.records.message import (
    BROKER_PROPERTIES_BYTES,
    MAX_SENT_PROPERTIES_BYTES,
    TRANSACTION_MASK,
)
from orbitmq.protocol.records.properties import BadProperty, decode_properties, encode_properties
from orbitmq.protocol.requests.send import SendBatchMessage
from orbitmq.store import PendingMessage

_PUB_OR_SUB = PUB | SUB
_DROPPED_IN_BATCH = tuple(f"{name}\x01".encode() for name in DROPPED_IN_BATCH)


@dataclass(slots=True)
class Incoming:
    """A send that passed the checks: its message or batch, and what its reply needs."""

    message: PendingMessage
    unique_id: str | None
    waits_for_disk: bool
    is_topic_dirty: bool
    """The topic is new: a crash before it is in its file would lose it, and the way to the message."""
    queue_id: int
    """The queue of the reply: the one the message is for, though it may have to wait in another one."""
    led: LedQueue | None = None
    """The logical queue of a static topic: the reply names it, in place of the physical one."""


def accept(tables: SendTables, call: Call[AnySend], own: bytes, now: int) -> Incoming:
    """Checks one send and gives the message that it becomes; `own` is what the broker adds to properties.

    Raises Refused with the code and remark that Apache's broker has for the rule which is broken first.
    """
    request = call.request
    name, queue_id = request.topic, request.queue_id
    static = tables.topics.static
    led = static.led_queue(name, queue_id) if name in static.by_topic else None
    if led is not None:
        queue_id = led.item.queue_id
    topic = tables.admission.admit_send(name, queue_id, lambda: _make_topic(tables, request, now), now)
    if queue_id < 0:
        tables.next_queue += 1
        queue_id = tables.next_queue % max(1, topic.write_queue_nums)
    if request.batch or isinstance(request, SendBatchMessage):
        incoming = _accept_batch(tables, call, queue_id, fixed_parts(tables).batch_properties)
    else:
        incoming = _accept_one(tables, call, queue_id, own, now)
    incoming.led = led
    return incoming


def _make_topic(tables: SendTables, request: AnySend, now: int) -> TopicConfig:
    """The topic of a first send: made in the image of the default topic, or as its group's retry topic."""
    if tables.promise.is_blind:
        raise refused_while_blind(
            tables.promise.blind_since, f"the topic {request.topic} is not made meanwhile"
        )
    topic = tables.topics.create_for_send(
        request.topic, request.default_topic, request.default_topic_queue_nums, bool(request.unit_mode), now
    )
    if topic is None and request.topic.startswith(RETRY_PREFIX):
        topic = tables.topics.ensure(request.topic, 1, now, unit_sub=bool(request.unit_mode))
    if topic is None:
        raise Refused(
            ResponseCode.TOPIC_NOT_EXIST,
            f"topic[{request.topic}] not exist, apply first please!\n"
            f"See {UNKNOWN_TOPICS} for further details.",
        )
    return topic


def _waits(tables: SendTables, properties: dict[str, str]) -> bool:
    """True if the answer waits for disk or replicas. Raises Refused where too few replicas are there for
    it.
    """
    promise = tables.promise
    if not promise.waits or (properties.get("WAIT") == "false" and not promise.is_blind):
        return False
    if promise.lacks_member:
        raise Refused(
            ResponseCode.SYSTEM_ERROR,
            "IN_SYNC_REPLICAS_NOT_ENOUGH: no controller answers, and a member of the in-sync set is not "
            "connected: start it, or the controllers, again",
        )
    if promise.lacks_replicas:
        raise Refused(
            ResponseCode.SYSTEM_ERROR,
            f"IN_SYNC_REPLICAS_NOT_ENOUGH: {promise.available_replicas} of the group's brokers are in sync, "
            f"and {promise.needed_replicas} have to be (inSyncReplicas, minInSyncReplicas)",
        )
    return True


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
    lmqs: tuple[str, ...] = ()
    if names_light_queues(properties):
        topic = tables.topics.by_name[request.topic]
        may_write = partial(_allows, tables, call, actions=PUB)
        lmqs = light_queues(topic, properties, tables.store.has_lmqs, may_write)
    asked_queue_id = queue_id
    name, queue_id, tags_code = _rewrite(tables, call, properties, queue_id, now)
    try:
        encoded = encode_properties(properties)
    except BadProperty:
        raise illegal(tables) from None
    # A copy that comes from elsewhere has used the room that is kept for it.
    is_copy = request.topic.startswith(OF_COPIES)
    if len(encoded) + len(own) > (MAX_COPIED_PROPERTIES_BYTES if is_copy else MAX_SENT_PROPERTIES_BYTES):
        raise illegal(tables)
    message = PendingMessage(
        name,
        queue_id,
        request.flag,
        # Marked as prepared, a record would get no place in its queue: half messages are recognised by their
        # topic.
        request.sys_flag & ~TRANSACTION_MASK,
        request.born_timestamp,
        call.peer.host,
        tables.identity.host,
        request.reconsume_times or 0,
        0,
        call.command.body or b"",
        encoded + own,
        tags_code,
        lmqs=lmqs,
    )
    waits = _waits(tables, properties)
    return Incoming(message, properties.get("UNIQ_KEY"), waits, _is_dirty(tables, call, name), asked_queue_id)


def illegal(tables: SendTables) -> Refused:
    """The refusal of a message that cannot be stored as it is."""
    return Refused(
        ResponseCode.MESSAGE_ILLEGAL,
        "the message is illegal, maybe msg body or properties length not matched. msg body length limit "
        f"{tables.settings.max_message_size}B, msg properties length limit 32KB, "
        f"of which the broker keeps {BROKER_PROPERTIES_BYTES} for its own.",
        extra_fields(tables),
    )


def _is_dirty(tables: SendTables, call: Call[AnySend], stored_topic: str) -> bool:
    dirty = tables.topics.dirty_names
    return bool(dirty) and (call.request.topic in dirty or stored_topic in dirty)


def _rewrite(
    tables: SendTables,
    call: Call[AnySend],
    properties: dict[str, str],
    queue_id: int,
    now: int,
) -> tuple[str, int, int | None]:
    """Applies what properties ask for; gives the topic, queue and tags code under which to store."""
    for name in DROPPED:
        properties.pop(name, None)
    properties.setdefault("UNIQ_KEY", tables.new_unique_id(now))
    name = call.request.topic
    if name.startswith(OF_COPIES):
        _drop_claims(tables, call, properties)
    if name.startswith(RETRY_PREFIX):
        dead = _dead_letter_topic(tables, call, now)
        if dead is not None:
            origin = properties.get(RETRY_TOPIC, name)
            known = origin if origin in tables.topics.by_name else name
            tables.stats.died(name.removeprefix(RETRY_PREFIX), known)
            properties["DELAY"] = "-1"
            return dead, 0, None
    if properties.get("TRAN_MSG") == "true" and not (
        call.request.reconsume_times and has_delay_level(properties)
    ):
        _check_half(tables, properties)
        reroute_to_half(properties, name, queue_id, call.request.producer_group)
        return HALF_TOPIC, QUEUE_ID, None
    rerouted = tables.levels.reroute(name, queue_id, properties, now)
    if rerouted is not None:
        properties.clear()
    else:
        rerouted = tables.timer.reroute(name, queue_id, properties, now)
    if rerouted is not None:
        if tables.store.retention.is_pressed:
            raise Refused(
                ResponseCode.SERVICE_NOT_AVAILABLE,
                "the disk is too full to keep messages for later: delayed messages are not taken at present",
            )
        properties.update(rerouted.properties)
        return rerouted.topic, rerouted.queue_id, rerouted.tags_code
    return name, queue_id, None


def _drop_claims(tables: SendTables, call: Call[AnySend], properties: dict[str, str]) -> None:
    """Drops what a message says about its origin if its sender has no right there: an operator who sends dead
    letters again would write to that topic for it.
    """
    for name in (RETRY_TOPIC, DLQ_ORIGIN_TOPIC):
        topic = properties.get(name)
        if topic is not None and not _allows(tables, call, topic, _PUB_OR_SUB):
            del properties[name]


def _allows(tables: SendTables, call: Call[AnySend], topic: str, actions: Actions) -> bool:
    return tables.record_access.allows(user_of(call.command), call.peer.host, topic, actions)


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
    """Raises Refused for a half message that the broker does not take, or that could not be published."""
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
    most = retry_limit(group, request.max_reconsume_times, call.peer.version)
    times = request.reconsume_times or 0
    if times <= most and not (times > 0 and tables.locks.group_holds(group_name, now)):
        return None
    dead = dlq_topic(group_name)
    tables.topics.ensure(dead, 1, now)
    return dead


def _accept_batch(tables: SendTables, call: Call[AnySend], queue_id: int, own: bytes) -> Incoming:
    """A batch is stored as its messages, with the properties they came with and `own`."""
    request = call.request
    name = request.topic
    if len(name) > MAX_TOPIC_CHARACTERS or name.startswith(OF_COPIES):
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
        messages = [(flag, one, _in_batch(properties, own)) for flag, one, properties in split_batch(body)]
    except Malformed as error:
        raise Refused(ResponseCode.MESSAGE_ILLEGAL, f"the batch cannot be read: {error}") from None
    if not messages:
        raise Refused(ResponseCode.MESSAGE_ILLEGAL, "the batch is empty")
    if any(len(properties) > MAX_SENT_PROPERTIES_BYTES for _, _, properties in messages):
        raise illegal(tables)
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
        batch=encode_batch(messages),
    )
    waits = _waits(tables, batch_properties)
    return Incoming(message, batch_properties.get("UNIQ_KEY"), waits, _is_dirty(tables, call, name), queue_id)


def _in_batch(properties: bytes, own: bytes) -> bytes:
    """The properties of a message of a batch with the broker's own, and without those that no sender sets."""
    if any(name in properties for name in _DROPPED_IN_BATCH):
        entries = properties.split(b"\x02")
        properties = b"\x02".join([entry for entry in entries if not entry.startswith(_DROPPED_IN_BATCH)])
    if properties and not properties.endswith(b"\x02"):
        properties += b"\x02"
    return properties + own
