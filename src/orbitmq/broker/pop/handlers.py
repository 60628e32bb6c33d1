"""Pops, held until there is something for them; and what else is asked about them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from orbitmq.broker.filter.filters import FilterTable
from orbitmq.broker.metadata.groups import GroupTable
from orbitmq.broker.metadata.identity import BrokerIdentity
from orbitmq.broker.metadata.new_topics import once_saved
from orbitmq.broker.metadata.topics import TopicTable
from orbitmq.broker.pop.lateness import begin_ms
from orbitmq.broker.pop.options import PopOptions
from orbitmq.broker.pop.polling import HeldCalls, Key, Wants
from orbitmq.broker.pop.pops import LONGEST_INVISIBLE_MS, MOST_MESSAGES, Popped, Pops, PopWish
from orbitmq.broker.registry import handlers
from orbitmq.broker.role.promise import Promise
from orbitmq.broker.stats.counters import BrokerStats
from orbitmq.handling.call import Call, Durable, Outcome, Result, Wait, Warm
from orbitmq.handling.warming import COLD_READS, once_warm
from orbitmq.protocol.codes import PERM_READ, ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.requests.pop import (
    Notification,
    NotificationReply,
    PeekMessage,
    PollingInfo,
    PollingReply,
    PopMessage,
    PopReply,
)
from orbitmq.store import GetStatus, MessageStore
from orbitmq.store.queue.filtering import Accept, MessageFilter

MAX_HELD_MS = 10 * 60_000
"""Longest time a call is held, whatever its client asks for."""

AnyPop: TypeAlias = PopMessage | PeekMessage | Notification | PollingInfo


@dataclass(slots=True)
class PopTables:
    """Tables of pops."""

    identity: BrokerIdentity
    settings: PopOptions
    topics: TopicTable
    groups: GroupTable
    filters: FilterTable
    store: MessageStore
    pops: Pops
    held_pops: HeldCalls
    held_notices: HeldCalls
    stats: BrokerStats
    promise: Promise


@handlers(PopMessage)
def pop_message(tables: PopTables, call: Call[PopMessage], now: int) -> Result:
    """Messages for a group, or a wait for them."""
    request = call.request
    if request.topic in tables.topics.dirty_names:
        return once_saved(tables.topics, request.topic, lambda later: pop_message(tables, call, later), now)
    born_ms = begin_ms(call.peer, request.born_time or now, request.poll_time, now)
    if born_ms is None:
        # No refusal: clients read the header of this answer as they read that of any other pop.
        return PopReply(
            code=ResponseCode.POLLING_TIMEOUT,
            remark=f"the broker[{tables.identity.address}] pop message is timeout too much",
            pop_time=0,
            invisible_time=0,
            revive_qid=0,
            rest_num=0,
        )
    _check(tables, request, "pop message", now)
    _check_amounts(tables, request)
    wish = PopWish(
        group=request.consumer_group,
        topic=request.topic,
        queue_id=max(-1, request.queue_id),
        most=request.max_msg_nums,
        invisible_ms=request.invisible_time,
        init_mode=request.init_mode,
        order=bool(request.order),
        attempt_id=request.attempt_id,
        accept=tables.filters.of_request(request.topic, request.exp or None, request.exp_type)
        if request.exp
        else None,
    )
    deadline = _deadline(born_ms, request.poll_time, now)
    return _attempt(tables, call, wish, deadline, now)


def _attempt(
    tables: PopTables,
    call: Call[PopMessage],
    wish: PopWish,
    deadline: int,
    now: int,
    *,
    passes_cold: bool = False,
) -> Result:
    popped = tables.pops.pop(wish, now, passes_cold=passes_cold)
    if popped.count:
        if popped.rest:
            tables.held_pops.wake(wish.topic, wish.group, wish.queue_id)
        return _found(tables, wish, popped, now)
    if popped.cold is not None:
        return once_warm(
            Warm(*popped.cold),
            lambda later: _attempt(tables, call, wish, deadline, later, passes_cold=True),
            now,
        )
    if now >= deadline:
        return _reply(popped, ResponseCode.POLLING_TIMEOUT)
    key = (wish.topic, wish.group, wish.queue_id)
    held = tables.held_pops.hold(key, call.peer.connection_id, _wants(tables.store, wish))
    if held is None:
        return _reply(popped, ResponseCode.POLLING_FULL)

    def woken(outcome: Outcome, later: int) -> Result:
        tables.held_pops.release(held)
        return _attempt(tables, call, wish, 0 if outcome.timed_out else deadline, later)

    def abandon() -> None:
        tables.held_pops.release(held)
        tables.held_pops.wake(*key)  # it may have been woken for a message, which is another one's then

    return Wait((held.signal,), deadline, woken, abandon=abandon)


def _found(tables: PopTables, wish: PopWish, popped: Popped, now: int) -> Result:
    tables.stats.pulled(wish.group, wish.topic, wish.queue_id, popped.count, popped.size_bytes)
    reply = _reply(popped, ResponseCode.SUCCESS)
    if not tables.promise.waits or not popped.end_offset:
        return reply

    def flushed(outcome: Outcome, later: int) -> Result:
        # Not on the disk in time: the check point is in the log all the same, as an append is then.
        return reply

    return Wait((Durable(popped.end_offset),), now + tables.promise.timeout_ms(), flushed)


def _reply(popped: Popped, code: ResponseCode) -> PopReply:
    records = popped.records
    body = None
    if records:
        body = records[0] if len(records) == 1 else b"".join(records)
    return PopReply(
        code=code,
        remark=(GetStatus.FOUND if popped.count else GetStatus.NO_MESSAGE_IN_QUEUE).name,
        pop_time=popped.pop_time,
        invisible_time=popped.invisible_ms,
        revive_qid=popped.revive_queue_id,
        rest_num=popped.rest,
        start_offset_info=";".join(popped.start_offsets),
        msg_offset_info=";".join(popped.message_offsets),
        order_count_info=";".join(popped.order_counts) or None,
        body=body,
    )


@handlers(PeekMessage)
def peek_message(tables: PopTables, call: Call[PeekMessage], now: int) -> Result:
    """Messages that a pop would find, without hiding them from anybody."""
    request = call.request
    if request.topic in tables.topics.dirty_names:
        return once_saved(tables.topics, request.topic, lambda later: peek_message(tables, call, later), now)
    _check(tables, request, "peeking message", now)
    most = min(max(1, request.max_msg_nums), MOST_MESSAGES)

    return _peek(tables, request, most, tables.pops.any_start(), COLD_READS, now)


def _peek(
    tables: PopTables, request: PeekMessage, most: int, start: int, cold_reads: int, now: int
) -> Result:
    popped = tables.pops.peek(request.consumer_group, request.topic, request.queue_id, most, start)
    if popped.cold is None or not cold_reads:
        return _reply(popped, ResponseCode.SUCCESS if popped.count else ResponseCode.PULL_NOT_FOUND)
    return once_warm(
        Warm(*popped.cold),
        lambda later: _peek(tables, request, most, start, cold_reads - 1, later),
        now,
    )


def notification(tables: PopTables, call: Call[Notification], now: int) -> Result:
    """True if a pop of a queue would find something, now or until the poll time is over."""
    request = call.request
    if request.topic in tables.topics.dirty_names:
        return once_saved(tables.topics, request.topic, lambda later: notification(tables, call, later), now)
    _check(tables, request, "peeking message", now)
    queue_id = max(-1, request.queue_id)

    def has_message(later: int) -> bool:
        return tables.pops.has_message(
            request.consumer_group, request.topic, queue_id, bool(request.order), request.attempt_id, later
        )

    return notify(
        call, tables.held_notices, (request.topic, request.consumer_group, queue_id), has_message, now
    )


def notify(
    call: Call[Notification], calls: HeldCalls, key: Key, has_message: Callable[[int], bool], now: int
) -> Result:
    """Answers once `has_message(now)`, or when the poll time is over; the call is held under `key`."""
    deadline = _deadline(call.request.born_time or now, call.request.poll_time, now)

    def attempt(until: int, now: int) -> Result:
        if has_message(now):
            return NotificationReply(has_msg=True)
        if now >= until:
            return NotificationReply(has_msg=False)
        held = calls.hold(key, call.peer.connection_id)
        if held is None:
            return NotificationReply(has_msg=False, polling_full=True)

        def woken(outcome: Outcome, later: int) -> Result:
            calls.release(held)
            return attempt(0 if outcome.timed_out else deadline, later)

        def abandon() -> None:
            calls.release(held)
            calls.wake(*key)

        return Wait((held.signal,), deadline, woken, abandon=abandon)

    return attempt(deadline, now)


@handlers(PollingInfo)
def polling_info(tables: PopTables, call: Call[PollingInfo], now: int) -> Result:
    """Number of pops held for a queue."""
    request = call.request
    _check(tables, request, "peeking message", now)
    count = tables.held_pops.of(request.topic, request.consumer_group, request.queue_id)
    return PollingReply(polling_num=count)


def _check(tables: PopTables, request: AnyPop, doing: str, now: int) -> None:
    """Raises Refused unless the group may read the queue."""
    settings = tables.settings
    if not settings.broker_permission & PERM_READ:
        raise Refused(
            ResponseCode.NO_PERMISSION, f"the broker[{tables.identity.address}] {doing} is forbidden"
        )
    if isinstance(request, PopMessage) and not settings.timer_wheel_enable:
        raise Refused(
            ResponseCode.SYSTEM_ERROR,
            f"the broker[{tables.identity.address}] pop message is forbidden because "
            "timerWheelEnable is false",
        )
    topic = tables.topics.get(request.topic)
    if topic is None:
        raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{request.topic}] not exist, apply first please!")
    if not topic.perm & PERM_READ:
        raise Refused(ResponseCode.NO_PERMISSION, f"the topic[{request.topic}] peeking message is forbidden")
    if request.queue_id >= topic.read_queue_nums:
        raise Refused(
            ResponseCode.INVALID_PARAMETER,
            f"queueId[{request.queue_id}] is illegal, topic:[{request.topic}] "
            f"topicConfig.readQueueNums:[{topic.read_queue_nums}]",
        )
    group = tables.groups.find(request.consumer_group, now)
    if group is None:
        raise Refused(
            ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
            f"subscription group [{request.consumer_group}] does not exist",
        )
    if not group.consume_enable:
        raise Refused(
            ResponseCode.NO_PERMISSION, f"subscription group no permission, {request.consumer_group}"
        )


def _check_amounts(tables: PopTables, request: PopMessage) -> None:
    if request.max_msg_nums > MOST_MESSAGES:
        raise Refused(
            ResponseCode.INVALID_PARAMETER,
            f"the broker[{tables.identity.address}] pop message's num is greater than {MOST_MESSAGES}",
        )
    if request.max_msg_nums < 1:
        raise Refused(ResponseCode.INVALID_PARAMETER, f"maxMsgNums[{request.max_msg_nums}] is less than 1")
    if not 0 < request.invisible_time <= LONGEST_INVISIBLE_MS:
        raise Refused(
            ResponseCode.INVALID_PARAMETER,
            f"invisibleTime[{request.invisible_time}] is not within 1 ms and {LONGEST_INVISIBLE_MS} ms",
        )


def _wants(store: MessageStore, wish: PopWish) -> Wants | None:
    accept: Accept = wish.accept
    if accept is None:
        return None
    if isinstance(accept, MessageFilter):
        by_properties = accept
        return lambda queue_id, queue_offset, tags_code: store.lookup.matches_at(
            wish.topic, queue_id, queue_offset, by_properties
        )
    if isinstance(accept, frozenset):
        codes = accept
        return lambda queue_id, queue_offset, tags_code: tags_code in codes
    by_code = accept
    return lambda queue_id, queue_offset, tags_code: by_code(tags_code)


def _deadline(born_ms: int, poll_ms: int, now: int) -> int:
    """Until when a call is held; a peer whose clock is ahead is not held longer than it asked for."""
    return min(born_ms + poll_ms, now + min(max(0, poll_ms), MAX_HELD_MS))
