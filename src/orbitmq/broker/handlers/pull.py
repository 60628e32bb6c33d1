"""Pulls, held until there is something where the client asks for it (broker behaviour, section 4).

A pull that finds messages, few enough to be copied, and one that is held for more go a short way: from the
frame to the frame of the answer, with the same checks. Everything else is for `pull`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from orbitmq.broker.broadcasts import BroadcastOffsets
from orbitmq.broker.clients import ClientTable
from orbitmq.broker.filters import FilterTable
from orbitmq.broker.groups import GroupTable
from orbitmq.broker.handlers import handlers
from orbitmq.broker.handlers.new_topics import once_saved
from orbitmq.broker.identity import BrokerIdentity
from orbitmq.broker.offsets import OffsetTable
from orbitmq.broker.pulls_cy import AnswerTemplate, read_pull
from orbitmq.broker.stats import BrokerStats
from orbitmq.broker.subscription import is_tag_type, not_supported, tag_codes
from orbitmq.broker.topics import TopicTable
from orbitmq.protocol.bodies.group import SubscriptionGroupConfig
from orbitmq.protocol.bodies.topic import TopicConfig
from orbitmq.protocol.call import Call, DataAt, Outcome, Peer, Result, Taken, Wait, Warm
from orbitmq.protocol.codes import PERM_READ, ResponseCode
from orbitmq.protocol.command import Command
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.requests.pull import (
    COMMITS_OFFSET,
    MAY_BE_HELD,
    SUBSCRIPTION_IN_REQUEST,
    LitePullMessage,
    PullMessage,
    PullReply,
)
from orbitmq.store import GetResult, GetStatus, MessageStore
from orbitmq.store.filtering import Accept, MessageFilter

FORBIDDEN_BROKER = "1"
FORBIDDEN_GROUP = "2"
FORBIDDEN_TOPIC = "3"
FORBIDDEN_BROADCASTING = "4"
FORBIDDEN_SUBSCRIPTION = "5"

MAX_SUSPEND_MS = 10 * 60_000
"""Longest time a pull is held, whatever the client asks for."""
WARM_TIMEOUT_MS = 30_000
COLD_READS = 2
"""How often a pull waits for the disk: for units of its queue, and for messages."""

PULL_BEGINS = b'{"code":11,'
"""How Java, Go and C++ peers begin the header of a pull."""
COPIED_BYTES = 64 << 10
"""Answers with records of up to this size are put together as one piece; larger ones are views of the log."""
PULLS_AT_ONCE = 64
BYTES_AT_ONCE = 256 << 10
"""So much of one read is answered at once; then it is looked whether the peer takes its answers."""

AnyPull: TypeAlias = PullMessage | LitePullMessage

# What every pull asks for, by a name of its own: Python 3.11 takes 0.2 µs to find a member of an enum.
_FOUND = GetStatus.FOUND
_NOT_FOUND = ResponseCode.PULL_NOT_FOUND

_CODES = {
    GetStatus.FOUND: ResponseCode.SUCCESS,
    GetStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.OFFSET_RESET: ResponseCode.PULL_OFFSET_MOVED,
}


class PullSettings(Protocol):
    """What the broker's options say about pulls."""

    @property
    def long_polling_enable(self) -> bool: ...
    @property
    def short_polling_time_mills(self) -> int: ...
    @property
    def broker_permission(self) -> int: ...
    @property
    def lite_pull_message_enable(self) -> bool: ...
    @property
    def enable_property_filter(self) -> bool: ...
    @property
    def slave_read_enable(self) -> bool: ...


@dataclass(slots=True)
class PullTables:
    """What a pull looks at."""

    identity: BrokerIdentity
    settings: PullSettings
    topics: TopicTable
    groups: GroupTable
    clients: ClientTable
    filters: FilterTable
    broadcasts: BroadcastOffsets
    offsets: OffsetTable
    store: MessageStore
    stats: BrokerStats
    records: bytearray = field(default_factory=lambda: bytearray(COPIED_BYTES))
    """Memory in which `take_pulls` puts records together."""
    bulk_records: bytearray = field(default_factory=lambda: bytearray(BYTES_AT_ONCE))
    """The same for who reads a whole topic."""
    found: AnswerTemplate = field(default_factory=lambda: AnswerTemplate(GetStatus.FOUND.name))


@handlers(PullMessage, LitePullMessage)
def pull(tables: PullTables, call: Call[AnyPull], now: int) -> Result:
    """Messages from one queue offset on; a pull that finds none is held if its client allows it."""
    request = call.request
    if request.topic in tables.topics.unsaved_names:
        return once_saved(tables.topics, request.topic, lambda later: pull(tables, call, later), now)
    if isinstance(request, LitePullMessage) and not tables.settings.lite_pull_message_enable:
        raise Refused(
            ResponseCode.NO_PERMISSION,
            f"the broker[{tables.identity.address}] for lite pull consumer is forbidden",
        )
    group = _check_group(tables, request, now)
    topic = _check_topic(tables, request)
    wanted = _subscription(tables, request, group)
    if request.sys_flag & COMMITS_OFFSET:
        tables.offsets.commit(
            request.consumer_group, request.topic, request.queue_id, request.commit_offset, now
        )
    puller = tables.broadcasts.puller(request, call.peer.connection_id)
    if puller is None:
        return _read_warm(tables, request, topic, group, wanted, now, COLD_READS)
    start = tables.broadcasts.start_offset(puller, request)
    result: Result
    if start is None:
        result = _read_warm(tables, request, topic, group, wanted, now, COLD_READS)
    else:
        result = _reply(tables, request, topic, group, _sent_to(tables.store, request, start), now)
    return tables.broadcasts.noted(puller, request, result, now)


def _read_warm(
    tables: PullTables,
    request: AnyPull,
    topic: TopicConfig,
    group: SubscriptionGroupConfig,
    wanted: Accept,
    now: int,
    cold_reads: int,
) -> Result:
    """Reads the queue; what has to come from the disk is read off the loop first, and looked at again."""
    result = _read(tables, request, wanted, now)
    if result.cold is None or not cold_reads:
        return _reply_or_hold(tables, request, topic, group, wanted, result, now)

    def warmed(outcome: Outcome, later: int) -> Result:
        return _read_warm(tables, request, topic, group, wanted, later, cold_reads - 1)

    return Wait((Warm(*result.cold),), now + WARM_TIMEOUT_MS, warmed)


def _check_group(tables: PullTables, request: AnyPull, now: int) -> SubscriptionGroupConfig:
    if not tables.settings.broker_permission & PERM_READ:
        raise _forbidden(
            f"the broker[{tables.identity.address}] pulling message is forbidden", FORBIDDEN_BROKER
        )
    group = tables.groups.find(request.consumer_group, now)
    if group is None:
        raise Refused(
            ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
            f"subscription group [{request.consumer_group}] does not exist",
        )
    if not group.consume_enable:
        raise _forbidden(f"subscription group no permission, {request.consumer_group}", FORBIDDEN_GROUP)
    return group


def _check_topic(tables: PullTables, request: AnyPull) -> TopicConfig:
    topic = tables.topics.get(request.topic)
    if topic is None:
        raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{request.topic}] not exist, apply first please!")
    if not topic.perm & PERM_READ:
        raise _forbidden(f"the topic[{request.topic}] pulling message is forbidden", FORBIDDEN_TOPIC)
    if not 0 <= request.queue_id < topic.read_queue_nums:
        raise Refused(
            ResponseCode.INVALID_PARAMETER,
            f"queueId[{request.queue_id}] is illegal, topic:[{request.topic}] "
            f"topicConfig.readQueueNums:[{topic.read_queue_nums}]",
        )
    return topic


def _subscription(tables: PullTables, request: AnyPull, group: SubscriptionGroupConfig) -> Accept:
    """What the client wants, from the request or from its group's heartbeats."""
    if request.sys_flag & SUBSCRIPTION_IN_REQUEST:
        return tables.filters.of_request(request.topic, request.subscription, request.expression_type)
    members = tables.clients.consumers.get(request.consumer_group)
    if members is None:
        raise Refused(ResponseCode.SUBSCRIPTION_NOT_EXIST, "the consumer's group info not exist")
    if members.is_broadcasting and not group.consume_broadcast_enable:
        raise _forbidden(
            f"the consumer group[{request.consumer_group}] can not consume by broadcast way",
            FORBIDDEN_BROADCASTING,
        )
    if tables.groups.is_forbidden(request.consumer_group, request.topic):
        raise _forbidden(
            f"the consumer group[{request.consumer_group}] is forbidden for topic[{request.topic}]",
            FORBIDDEN_SUBSCRIPTION,
        )
    subscription = members.subscriptions.get(request.topic)
    if subscription is None:
        raise Refused(ResponseCode.SUBSCRIPTION_NOT_EXIST, "the consumer's subscription not exist")
    if subscription.sub_version < request.sub_version:
        raise Refused(ResponseCode.SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest")
    if is_tag_type(subscription.expression_type):
        return tag_codes(subscription.sub_string) or tables.filters.of_retries(request.topic)
    return _registered_filter(tables, request, subscription.expression_type)


def _registered_filter(tables: PullTables, request: AnyPull, expression_type: str) -> Accept:
    """The group's filter, which its heartbeats have brought."""
    if not tables.settings.enable_property_filter:
        raise not_supported(expression_type)
    known = tables.filters.get(request.topic, request.consumer_group)
    if known is None:
        raise Refused(
            ResponseCode.FILTER_DATA_NOT_EXIST,
            "The broker's consumer filter data is not exist!Your expression may be wrong!",
        )
    if known.data.client_version < request.sub_version:
        raise Refused(ResponseCode.FILTER_DATA_NOT_LATEST, "the consumer's consumer filter data not latest")
    return tables.filters.wanted(known)


def _forbidden(remark: str, kind: str) -> Refused:
    return Refused(ResponseCode.NO_PERMISSION, remark, {"forbiddenType": kind})


def _sent_to(store: MessageStore, request: AnyPull, queue_offset: int) -> GetResult:
    """The answer to who is to go on somewhere else."""
    topic, queue_id = request.topic, request.queue_id
    return GetResult.without_records(
        GetStatus.OFFSET_RESET,
        queue_offset,
        store.min_offset(topic, queue_id),
        store.max_offset(topic, queue_id),
    )


def _read(tables: PullTables, request: AnyPull, wanted: Accept, now: int) -> GetResult:
    reset = tables.offsets.take_reset(request.consumer_group, request.topic, request.queue_id)
    if reset is not None:
        return _sent_to(tables.store, request, reset)
    return tables.store.get(
        request.topic,
        request.queue_id,
        request.queue_offset,
        request.max_msg_nums,
        request.max_msg_bytes or 0,
        wanted,
        bulk=request.bulk is True,
    )


def _reply_or_hold(
    tables: PullTables,
    request: AnyPull,
    topic: TopicConfig,
    group: SubscriptionGroupConfig,
    wanted: Accept,
    result: GetResult,
    now: int,
) -> Result:
    reply = _reply(tables, request, topic, group, result, now)
    if reply.code != ResponseCode.PULL_NOT_FOUND or not request.sys_flag & MAY_BE_HELD:
        return reply

    def woken(outcome: Outcome, later: int) -> Result:
        again = _read(tables, request, wanted, later)
        return _reply(tables, request, topic, group, again, later)

    return Wait((_data_for(tables.store, request, wanted),), _held_until(tables, request, now), woken)


def _held_until(tables: PullTables, request: AnyPull, now: int) -> int:
    settings = tables.settings
    if settings.long_polling_enable:
        return now + min(request.suspend_timeout_millis, MAX_SUSPEND_MS)
    return now + settings.short_polling_time_mills


def _data_for(store: MessageStore, request: AnyPull, wanted: Accept) -> DataAt:
    """What a held pull waits for: a message that it wants, not just any."""
    topic, queue_id, queue_offset = request.topic, request.queue_id, request.queue_offset
    if not isinstance(wanted, MessageFilter):
        codes = wanted if isinstance(wanted, frozenset) else None
        return DataAt(topic, queue_id, queue_offset, codes)

    def accepts(arrived_at: int) -> bool:
        return store.matches_at(topic, queue_id, arrived_at, wanted)

    return DataAt(topic, queue_id, queue_offset, None, accepts)


def _reply(
    tables: PullTables,
    request: AnyPull,
    topic: TopicConfig,
    group: SubscriptionGroupConfig,
    result: GetResult,
    now: int,
) -> PullReply:
    _note(tables, request, result)
    return PullReply(
        code=_code_of(request, result),
        remark=result.status.name,
        suggest_which_broker_id=_suggested(tables, group, result),
        next_begin_offset=result.next_offset,
        min_offset=result.min_offset,
        max_offset=result.max_offset,
        topic_sys_flag=topic.topic_sys_flag,
        group_sys_flag=group.group_sys_flag,
        body=result.records[0] if len(result.records) == 1 else b"".join(result.records) or None,
    )


def _code_of(request: AnyPull, result: GetResult) -> ResponseCode:
    code = _CODES.get(result.status)
    if code is None:  # the queue holds nothing yet, or was never written
        return ResponseCode.PULL_NOT_FOUND if request.queue_offset == 0 else ResponseCode.PULL_OFFSET_MOVED
    return code


def _note(tables: PullTables, request: AnyPull, result: GetResult) -> None:
    """Remembers what a pull has come to."""
    group, topic, queue_id = request.consumer_group, request.topic, request.queue_id
    tables.offsets.remember_pull(group, topic, queue_id, result.next_offset)
    if result.status is _FOUND:
        tables.stats.pulled(group, topic, queue_id, result.count, result.size_bytes)
    else:
        tables.stats.missed()


def _suggested(tables: PullTables, group: SubscriptionGroupConfig, result: GetResult) -> int:
    """Which member of the broker group the client should go on with."""
    if not tables.settings.slave_read_enable:
        return 0
    return group.which_broker_when_consume_slowly if result.suggest_slave else group.broker_id


# The short way.


def take_pulls(tables: PullTables, data: bytes, peer: Peer, now: int) -> Taken | None:
    """Answers or holds the pulls at the start of what a read brought, whole frames; None if there are none.

    Whatever it leaves goes through `pull`, to which it would have been the same.
    """
    if tables.topics.unsaved_names:
        return None
    answers: list[bytes] = []
    held: list[tuple[Command, Wait]] = []
    size = 0
    end = 0
    while len(answers) + len(held) < PULLS_AT_ONCE and size < BYTES_AT_ONCE:
        pulled = read_pull(data, end)
        if pulled is None:
            break
        request, opaque, version, language, behind = pulled
        try:
            result = _at_once(tables, request, opaque, peer, now)
        except Refused:
            break
        if result is None:
            break
        end = behind
        peer.version = version
        peer.language = language
        if isinstance(result, bytes):
            answers.append(result)
            size += len(result)
        else:
            held.append((Command(PullMessage.CODE, opaque), result))
    if not end:
        return None
    whole = answers[0] if len(answers) == 1 else b"".join(answers)
    by_code = {PullMessage.CODE: (len(answers), 0)}
    return Taken(end, whole, len(answers), by_code, held=held, concerns_others=False)


def _at_once(
    tables: PullTables, request: PullMessage, opaque: int, peer: Peer, now: int
) -> bytes | Wait | None:
    """The frame of the answer, or what the pull waits for; None if it is none of the usual ones."""
    if request.consumer_group not in tables.groups.by_name:
        return None  # it is made on the way, which others have to be told of
    group = _check_group(tables, request, now)
    topic = _check_topic(tables, request)
    wanted = _subscription(tables, request, group)
    if isinstance(wanted, MessageFilter):
        return None
    if tables.broadcasts.puller(request, peer.connection_id) is not None:
        return None
    into = tables.bulk_records if request.bulk else tables.records
    result = _copy(tables, request, wanted, into)
    if result is None:
        return None
    is_found = result.status is _FOUND
    if not is_found and (
        result.cold is not None
        or not request.sys_flag & MAY_BE_HELD
        or _code_of(request, result) is not _NOT_FOUND
    ):
        return None
    if request.sys_flag & COMMITS_OFFSET:
        tables.offsets.commit(
            request.consumer_group, request.topic, request.queue_id, request.commit_offset, now
        )
    _note(tables, request, result)
    if is_found:
        return _frame(tables, opaque, topic, group, result, into)

    def woken(outcome: Outcome, later: int) -> Result | bytes:
        again = None if outcome.timed_out else _copy(tables, request, wanted, into)
        if again is None or again.status is not _FOUND:
            return _reply(tables, request, topic, group, _read(tables, request, wanted, later), later)
        _note(tables, request, again)
        return _frame(tables, opaque, topic, group, again, into)

    return Wait((_data_for(tables.store, request, wanted),), _held_until(tables, request, now), woken)


def _copy(tables: PullTables, request: PullMessage, wanted: Accept, into: bytearray) -> GetResult | None:
    """What `_read` gives, with the records in `into`; None if they are too many, or a reset waits."""
    if tables.offsets.has_resets:
        return None
    return tables.store.copy(
        request.topic,
        request.queue_id,
        request.queue_offset,
        request.max_msg_nums,
        request.max_msg_bytes or 0,
        wanted,
        into,
        bulk=request.bulk is True,
    )


def _frame(
    tables: PullTables,
    opaque: int,
    topic: TopicConfig,
    group: SubscriptionGroupConfig,
    result: GetResult,
    records: bytearray,
) -> bytes:
    return tables.found.frame(
        _suggested(tables, group, result),
        result.next_offset,
        result.min_offset,
        result.max_offset,
        topic.topic_sys_flag,
        group.group_sys_flag,
        opaque,
        records,
        result.size_bytes,
    )
