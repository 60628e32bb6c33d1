"""Messages that consumers send back."""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.broker.auth.permissions import SUB
from orbitmq.broker.auth.records import RecordAccess
from orbitmq.broker.delay.levels import DelayLevels
from orbitmq.broker.metadata.groups import GroupTable
from orbitmq.broker.metadata.identity import BrokerIdentity
from orbitmq.broker.metadata.options import IdentityOptions
from orbitmq.broker.metadata.topics import TopicTable
from orbitmq.broker.record import read_record
from orbitmq.broker.registry import handlers
from orbitmq.broker.retry.rules import SendBack, origin_of, retry_limit, sent_back
from orbitmq.broker.role.promise import Promise
from orbitmq.broker.stats.counters import BrokerStats
from orbitmq.handling.call import Call, Condition, Durable, Outcome, Result, Saved, Wait, off_loop
from orbitmq.handling.saving import SAVE_TIMEOUT_MS
from orbitmq.protocol.bodies.group import SubscriptionGroupConfig
from orbitmq.protocol.codes import PERM_WRITE, ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.names import RETRY_PREFIX, RETRY_TOPIC, dlq_topic, retry_topic
from orbitmq.protocol.records.message import BadRecord, StoredMessage
from orbitmq.protocol.records.message_cy import decode_record
from orbitmq.protocol.requests.send import ConsumerSendMsgBack
from orbitmq.protocol.schema.declare import Void
from orbitmq.store import MessageStore, PutStatus


@dataclass(slots=True)
class RetryTables:
    """Tables of messages that consumers send back."""

    identity: BrokerIdentity
    settings: IdentityOptions
    topics: TopicTable
    groups: GroupTable
    levels: DelayLevels
    store: MessageStore
    stats: BrokerStats
    record_access: RecordAccess
    promise: Promise
    next_queue: int = 0
    """Moves on with every message, so that the retry queues are used in turn."""


@handlers(ConsumerSendMsgBack)
def consumer_send_msg_back(tables: RetryTables, call: Call[ConsumerSendMsgBack], now: int) -> Result:
    """Stores a message once more for its group: for a retry, or as a dead letter."""
    request = call.request
    group = _check(tables, request, now)
    if group.retry_queue_nums <= 0:
        return Void()
    dirty = _ensure_writable(tables, retry_topic(request.group), group.retry_queue_nums, request, now)

    def found(data: memoryview | None, later: int) -> Result:
        return _store_again(tables, call, group, _decoded(data, request.offset), dirty, later)

    return off_loop(read_record(tables.store, request.offset), found, now)


def _store_again(
    tables: RetryTables,
    call: Call[ConsumerSendMsgBack],
    group: SubscriptionGroupConfig,
    record: StoredMessage,
    dirty: bool,
    now: int,
) -> Result:
    request = call.request
    tables.record_access.check(call, record, SUB)
    max_times = retry_limit(group, request.max_reconsume_times, call.peer.version)
    tables.next_queue += 1
    retries = tables.topics.require(retry_topic(request.group))
    queue_id = tables.next_queue % max(1, min(retries.write_queue_nums, retries.read_queue_nums))
    back = SendBack(request.group, request.delay_level, max_times, queue_id)
    message = sent_back(record, back, tables.levels, tables.identity.host, now)
    dead = message.topic == dlq_topic(request.group)
    if dead:
        dirty = _ensure_writable(tables, message.topic, 1, request, now) or dirty
    appended = tables.store.append(message, now)
    if appended.status is not PutStatus.PUT_OK:
        raise Refused(ResponseCode.SYSTEM_ERROR, appended.status.name)
    tables.stats.sent_back(request.group, record.topic)
    if dead:
        origin = origin_of(record, request.group)[RETRY_TOPIC] or ""
        tables.stats.died(request.group, origin if origin in tables.topics.by_name else record.topic)
    conditions: list[Condition] = []
    waits = tables.promise.waits
    if waits:
        # The consumer continues behind it: a power cut must not take the only promise that it comes again.
        conditions.append(Durable(appended.end_offset))
    if dirty:
        conditions.append(Saved(tables.topics.NAME))
    if not conditions:
        return Void()

    def then(outcome: Outcome, later: int) -> Result:
        if outcome.timed_out and waits:
            raise Refused(ResponseCode.SYSTEM_ERROR, tables.promise.late_code(appended.end_offset).name)
        return Void()

    timeout_ms = tables.promise.timeout_ms() if waits else SAVE_TIMEOUT_MS
    return Wait(tuple(conditions), now + timeout_ms, then)


def _decoded(data: memoryview | None, physical_offset: int) -> StoredMessage:
    try:
        if data is not None:
            return decode_record(data)
    except BadRecord:
        pass
    raise Refused(ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {physical_offset}")


def _check(tables: RetryTables, request: ConsumerSendMsgBack, now: int) -> SubscriptionGroupConfig:
    if not tables.identity.is_master:
        raise Refused(ResponseCode.SYSTEM_ERROR, "no master available along with the broker")
    group = tables.groups.find(request.group, now)
    if group is None:
        raise Refused(
            ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group not exist, {request.group}"
        )
    if not tables.settings.broker_permission & PERM_WRITE:
        raise Refused(
            ResponseCode.NO_PERMISSION, f"the broker[{tables.identity.address}] sending message is forbidden"
        )
    return group


def _ensure_writable(
    tables: RetryTables, topic: str, queues: int, request: ConsumerSendMsgBack, now: int
) -> bool:
    """Makes the topic where it is missing, and larger where it has too few queues. True if that is in no file
    yet. Raises Refused if read-only.
    """
    config = tables.topics.ensure(
        topic, queues, now, unit_sub=bool(request.unit_mode) and topic.startswith(RETRY_PREFIX)
    )
    if not config.perm & PERM_WRITE:
        raise Refused(ResponseCode.NO_PERMISSION, f"the topic[{topic}] sending message is forbidden")
    return topic in tables.topics.dirty_names
