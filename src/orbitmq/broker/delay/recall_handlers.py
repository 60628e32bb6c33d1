"""Timer messages that their producers take back."""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.broker.delay.options import RecallOptions
from orbitmq.broker.delay.timer import Timers
from orbitmq.broker.metadata.identity import BrokerIdentity
from orbitmq.broker.metadata.topics import TopicTable
from orbitmq.broker.registry import handlers
from orbitmq.broker.role.promise import Promise
from orbitmq.broker.stats.counters import BrokerStats
from orbitmq.handling.call import Call, Durable, Outcome, Result, Wait
from orbitmq.protocol.codes import PERM_WRITE, ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.handles.recall import MalformedHandle, RecallHandle
from orbitmq.protocol.names import (
    BORN_TIMESTAMP,
    PRODUCER_GROUP,
    TAGS,
    TIMER_DEL_UNIQKEY,
    TIMER_DELIVER_MS,
    UNIQ_KEY,
)
from orbitmq.protocol.records.properties import encode_properties
from orbitmq.protocol.requests.send import RecallMessage, RecallReply
from orbitmq.store import MessageStore, PendingMessage, PutStatus

RECALL_TAG = "_RECALL_TAG_"
BODY = b"0"


@dataclass(slots=True)
class RecallTables:
    """Tables that a recall looks at and changes."""

    identity: BrokerIdentity
    settings: RecallOptions
    topics: TopicTable
    timer: Timers
    store: MessageStore
    stats: BrokerStats
    promise: Promise


@handlers(RecallMessage)
def recall_message(tables: RecallTables, call: Call[RecallMessage], now: int) -> Result:
    """Stores a message that has its timer dropped; the answer is the same where nothing waits any more."""
    try:
        return _recall(tables, call, now)
    except Refused as refused:
        refused.extra = {"MSG_REGION": tables.settings.region_id}
        raise


def _recall(tables: RecallTables, call: Call[RecallMessage], now: int) -> Result:
    handle = _checked_handle(tables, call.request, now)
    properties = _properties(tables, call.request, handle, now)
    rerouted = tables.timer.reroute(handle.topic, 0, properties, now)
    if rerouted is None:
        raise Refused(ResponseCode.ILLEGAL_OPERATION, "recall failed, timestamp invalid")
    message = PendingMessage(
        rerouted.topic,
        rerouted.queue_id,
        0,
        0,
        now,
        call.peer.host,
        tables.identity.host,
        0,
        0,
        BODY,
        encode_properties(rerouted.properties),
    )
    appended = tables.store.append(message, now)
    if appended.status is not PutStatus.PUT_OK:
        raise Refused(ResponseCode.SYSTEM_ERROR, f"recall failed, execute error: {appended.status.name}")
    tables.stats.put_fresh(rerouted.topic, rerouted.queue_id, 1, appended.size)
    reply = RecallReply(msg_id=handle.unique_id)
    reply.extra = {"MSG_REGION": tables.settings.region_id}
    if not tables.promise.waits:
        return reply

    def then(outcome: Outcome, later: int) -> Result:
        return reply

    return Wait((Durable(appended.end_offset),), now + tables.promise.timeout_ms(), then)


def _checked_handle(tables: RecallTables, request: RecallMessage, now: int) -> RecallHandle:
    settings = tables.settings
    if not settings.recall_message_enable:
        raise Refused(
            ResponseCode.NO_PERMISSION,
            "recall failed, operation is forbidden: the broker has recallMessageEnable=false",
        )
    if not tables.identity.is_master:
        raise Refused(ResponseCode.SLAVE_NOT_AVAILABLE, "recall failed, broker service not available")
    if now < settings.start_accept_send_request_time_stamp or not (
        settings.broker_permission & PERM_WRITE or settings.allow_recall_when_broker_not_writeable
    ):
        raise Refused(ResponseCode.SERVICE_NOT_AVAILABLE, "recall failed, broker service not available")
    if tables.topics.get(request.topic) is None:
        raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"recall failed, the topic[{request.topic}] not exist")
    try:
        handle = RecallHandle.decode(request.recall_handle)
    except MalformedHandle as error:
        raise Refused(ResponseCode.ILLEGAL_OPERATION, str(error)) from None
    if handle.topic != request.topic:
        raise Refused(
            ResponseCode.ILLEGAL_OPERATION, f"recall failed, topic not match: the handle is of {handle.topic}"
        )
    if handle.broker_name != tables.identity.name:
        raise Refused(
            ResponseCode.ILLEGAL_OPERATION,
            f"recall failed, broker service not available: the handle is of broker {handle.broker_name}",
        )
    if not 0 < handle.time_ms - now < settings.timer_max_delay_sec * 1000:
        raise Refused(
            ResponseCode.ILLEGAL_OPERATION, f"recall failed, timestamp invalid: {handle.time_ms} at {now}"
        )
    return handle


def _properties(
    tables: RecallTables, request: RecallMessage, handle: RecallHandle, now: int
) -> dict[str, str]:
    key = handle.unique_id
    if tables.settings.append_topic_for_timer_delete_key:
        key = f"{handle.topic}+{key}"
    properties = {
        TIMER_DEL_UNIQKEY: key,
        UNIQ_KEY: handle.unique_id,
        TIMER_DELIVER_MS: str(handle.time_ms),
        BORN_TIMESTAMP: str(now),
        TAGS: RECALL_TAG,
    }
    if request.producer_group:
        properties[PRODUCER_GROUP] = request.producer_group
    return properties
