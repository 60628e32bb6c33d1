"""Requests of clients about lite topics: what they subscribe to, and pops."""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.broker.client.outbox import Outbox
from orbitmq.broker.lite.changes import SubscriptionChanges
from orbitmq.broker.lite.events import held_key
from orbitmq.broker.lite.groups import is_lite
from orbitmq.broker.lite.pops import LitePopped, LitePops, LiteWish
from orbitmq.broker.metadata.groups import GroupTable
from orbitmq.broker.metadata.identity import BrokerIdentity
from orbitmq.broker.metadata.options import IdentityOptions
from orbitmq.broker.metadata.topics import TopicTable
from orbitmq.broker.pop.handlers import MAX_HELD_MS
from orbitmq.broker.pop.lateness import begin_ms
from orbitmq.broker.pop.polling import HeldCalls
from orbitmq.broker.pop.pops import LONGEST_INVISIBLE_MS, MOST_MESSAGES
from orbitmq.broker.registry import handlers
from orbitmq.broker.stats.counters import BrokerStats
from orbitmq.handling.call import Call, Outcome, Result, Wait, Warm
from orbitmq.handling.warming import COLD_READS, once_warm
from orbitmq.protocol.codes import PERM_READ, ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.handles.pop import ORDER_REVIVE_QUEUE
from orbitmq.protocol.help_pages import UNKNOWN_TOPICS
from orbitmq.protocol.lite_topics import bound_topic
from orbitmq.protocol.requests.lite import LiteReply, LiteSubscriptionCtl, PopLiteMessage
from orbitmq.protocol.schema.declare import Void


@dataclass(slots=True)
class LiteTables:
    """Tables of lite topics."""

    identity: BrokerIdentity
    settings: IdentityOptions
    topics: TopicTable
    groups: GroupTable
    outbox: Outbox
    lite_changes: SubscriptionChanges
    lite_pops: LitePops
    held_lite: HeldCalls
    stats: BrokerStats


@handlers(LiteSubscriptionCtl)
def lite_subscription_ctl(tables: LiteTables, call: Call[LiteSubscriptionCtl], now: int) -> Result:
    """Takes over what a client subscribes to. The changes before one that is refused stay."""
    entries = call.request.body.subscription_set
    if not entries:
        raise Refused(ResponseCode.ILLEGAL_OPERATION, "LiteSubscriptionCtlRequestBody is empty.")
    for entry in entries:
        if entry.client_id.strip() and entry.group.strip() and entry.topic.strip():
            tables.lite_changes.apply(entry, call.peer.connection_id, now)
    return Void()


@handlers(PopLiteMessage)
def pop_lite_message(tables: LiteTables, call: Call[PopLiteMessage], now: int) -> Result:
    """Messages of those lite topics of a client that have any, or a wait for them."""
    request = call.request
    born_ms = begin_ms(call.peer, request.born_time or now, request.poll_time, now)
    if born_ms is None:
        return _nothing(ResponseCode.POLLING_TIMEOUT, f"{_broker(tables)} pop message is timeout too much")
    _check(tables, request, now)
    wish = LiteWish(
        request.client_id,
        request.consumer_group,
        request.topic,
        request.max_msg_num,
        request.invisible_time,
        request.attempt_id,
    )
    held_ms = min(max(0, request.poll_time), MAX_HELD_MS)
    return _attempt(tables, call, wish, min(born_ms + request.poll_time, now + held_ms), COLD_READS, now)


def _attempt(
    tables: LiteTables, call: Call[PopLiteMessage], wish: LiteWish, deadline: int, cold_reads: int, now: int
) -> Result:
    popped = tables.lite_pops.pop(wish, now)
    if popped.count:
        tables.stats.pulled(wish.group, wish.topic, 0, popped.count, popped.size_bytes)
        return _found(wish, popped, now)
    if popped.cold is not None and cold_reads:
        return once_warm(
            Warm(*popped.cold),
            lambda later: _attempt(tables, call, wish, deadline, cold_reads - 1, later),
            now,
        )
    if now >= deadline:
        return _nothing(ResponseCode.POLLING_TIMEOUT)
    held = tables.held_lite.hold(held_key(wish.client_id), call.peer.connection_id)
    if held is None:
        return _nothing(ResponseCode.POLLING_FULL)

    def woken(outcome: Outcome, later: int) -> Result:
        tables.held_lite.release(held)
        return _attempt(tables, call, wish, 0 if outcome.timed_out else deadline, COLD_READS, later)

    return Wait((held.signal,), deadline, woken, abandon=lambda: tables.held_lite.release(held))


def _found(wish: LiteWish, popped: LitePopped, now: int) -> LiteReply:
    return LiteReply(
        remark="FOUND",
        pop_time=now,
        invisible_time=wish.invisible_ms,
        revive_qid=ORDER_REVIVE_QUEUE,
        order_count_info=";".join(popped.counts),
        body=b"".join(popped.records),
    )


def _nothing(code: ResponseCode, remark: str = "NO_MESSAGE_IN_QUEUE") -> LiteReply:
    return LiteReply(
        code=code,
        remark=remark,
        pop_time=0,
        invisible_time=0,
        revive_qid=ORDER_REVIVE_QUEUE,
        order_count_info="",
    )


def _broker(tables: LiteTables) -> str:
    return f"the broker[{tables.identity.address}]"


def _check(tables: LiteTables, request: PopLiteMessage, now: int) -> None:
    """Raises Refused unless the client may pop the lite topics of the parent."""
    if not tables.settings.broker_permission & PERM_READ:
        raise Refused(ResponseCode.NO_PERMISSION, f"{_broker(tables)} pop message is forbidden")
    if request.max_msg_num > MOST_MESSAGES:
        raise Refused(
            ResponseCode.INVALID_PARAMETER,
            f"{_broker(tables)} pop message's num is greater than {MOST_MESSAGES}",
        )
    if request.max_msg_num < 1 or not 0 < request.invisible_time <= LONGEST_INVISIBLE_MS:
        raise Refused(
            ResponseCode.INVALID_PARAMETER,
            f"maxMsgNum[{request.max_msg_num}] has to be 1 or more, and "
            f"invisibleTime[{request.invisible_time}] within 1 ms and {LONGEST_INVISIBLE_MS} ms",
        )
    topic = tables.topics.get(request.topic)
    if topic is None:
        raise Refused(
            ResponseCode.TOPIC_NOT_EXIST,
            f"topic [{request.topic}] not exist, apply first please! "
            f"See {UNKNOWN_TOPICS} for further details.",
        )
    if not topic.perm & PERM_READ:
        raise Refused(ResponseCode.NO_PERMISSION, f"the topic [{request.topic}] peeking message is forbidden")
    if not is_lite(topic):
        raise Refused(ResponseCode.INVALID_PARAMETER, f"the topic [{request.topic}] message type not match")
    group = tables.groups.find(request.consumer_group, now)
    if group is None:
        raise Refused(
            ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
            f"subscription group [{request.consumer_group}] not exist",
        )
    if not group.consume_enable:
        raise Refused(
            ResponseCode.NO_PERMISSION, f"subscription group no permission, {request.consumer_group}"
        )
    if bound_topic(group) != request.topic:
        raise Refused(
            ResponseCode.INVALID_PARAMETER, f"subscription bind topic not match, {request.consumer_group}"
        )
