"""Pulls, held until there is something where the client asks for it.

A pull that finds messages, few enough to be copied, and one that is held for more take a fast path: from the
frame to the frame of the answer, with the same checks. Everything else is for `pull`.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import TypeAlias

from orbitmq.broker.client.clients import ClientTable
from orbitmq.broker.client.members import ConsumerGroup
from orbitmq.broker.config import BrokerConfig
from orbitmq.broker.filter.filters import FilterTable
from orbitmq.broker.filter.subscription import is_tag_type, not_supported, tag_codes
from orbitmq.broker.ha.replication import Replication, flow_control
from orbitmq.broker.metadata.deletions import Deletions
from orbitmq.broker.metadata.groups import GroupTable
from orbitmq.broker.metadata.identity import BrokerIdentity
from orbitmq.broker.metadata.new_topics import once_saved
from orbitmq.broker.metadata.topics import TopicTable
from orbitmq.broker.offset.offsets import OffsetTable
from orbitmq.broker.pull.broadcasts import BroadcastOffsets, Puller
from orbitmq.broker.pull.options import PullOptions
from orbitmq.broker.pull.pulls_cy import BYTES_AT_ONCE, CachedPullPlan, answer, handle_pulls
from orbitmq.broker.registry import handlers
from orbitmq.broker.role.state import RoleState
from orbitmq.broker.stats.counters import BrokerStats
from orbitmq.handling.call import Call, DataAt, HandledFrames, Outcome, Peer, Result, Wait, Warm
from orbitmq.handling.warming import COLD_READS, once_warm
from orbitmq.protocol.bodies.group import SubscriptionGroupConfig
from orbitmq.protocol.bodies.heartbeat import SubscriptionData
from orbitmq.protocol.bodies.topic import TopicConfig
from orbitmq.protocol.codes import PERM_READ, ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.lite_topics import lite_queue
from orbitmq.protocol.requests.pull import (
    COMMITS_OFFSET,
    MAY_BE_HELD,
    SUBSCRIPTION_IN_REQUEST,
    LitePullMessage,
    PullMessage,
    PullReply,
)
from orbitmq.store import GetResult, GetStatus, MessageStore
from orbitmq.store.queue.filtering import Accept, MessageFilter

FORBIDDEN_BROKER = "1"
FORBIDDEN_GROUP = "2"
FORBIDDEN_TOPIC = "3"
FORBIDDEN_BROADCASTING = "4"
FORBIDDEN_SUBSCRIPTION = "5"

MAX_SUSPEND_MS = 10 * 60_000
"""Longest time a pull is held, whatever the client asks for."""

PULL_BEGINS = b'{"code":11,'
"""Beginning of a pull's header as Java, Go and C++ peers write it."""
COPIED_BYTES = 64 << 10
"""Answers with records of up to this size are put together as one piece; larger ones are views of the log."""

AnyPull: TypeAlias = PullMessage | LitePullMessage

# Values that every pull needs, by names of their own: Python 3.11 takes 0.2 µs to find a member of an enum.
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


@dataclass(slots=True)
class PullTables:
    """Tables that a pull looks at."""

    identity: BrokerIdentity
    settings: PullOptions
    topics: TopicTable
    groups: GroupTable
    clients: ClientTable
    filters: FilterTable
    broadcasts: BroadcastOffsets
    offsets: OffsetTable
    deletions: Deletions
    store: MessageStore
    stats: BrokerStats
    config: BrokerConfig
    replication: Replication
    role: RoleState


@handlers(PullMessage, LitePullMessage)
def pull(tables: PullTables, call: Call[AnyPull], now: int) -> Result:
    """Messages from one queue offset on; a pull that finds none is held if its client allows it."""
    request = call.request
    if request.topic in tables.topics.dirty_names:
        return once_saved(tables.topics, request.topic, lambda later: pull(tables, call, later), now)
    if isinstance(request, LitePullMessage) and not tables.settings.lite_pull_message_enable:
        raise Refused(
            ResponseCode.NO_PERMISSION,
            f"the broker[{tables.identity.address}] for lite pull consumer is forbidden",
        )
    _check_role(tables)
    group = _check_group(tables, request, now)
    topic = _check_topic(tables, request)
    wanted = _subscription(tables, request, group, call.peer.connection_id)
    if request.lite_topic:
        light_queue = lite_queue(request.topic, request.lite_topic)
        request = copy(request)
        request.topic, request.queue_id = light_queue, 0
    if request.sys_flag & COMMITS_OFFSET:
        tables.offsets.commit(
            request.consumer_group, request.topic, request.queue_id, request.commit_offset, now
        )
    puller = tables.broadcasts.puller(request, call.peer.connection_id)
    if puller is None:
        return _read_warm(tables, request, topic, group, wanted, now, COLD_READS)
    first = tables.broadcasts.cold_first(puller, request)
    if first is None:
        return _pull_of_member(tables, request, topic, group, wanted, puller, now)
    return once_warm(
        Warm(*first),
        lambda later: _pull_of_member(tables, request, topic, group, wanted, puller, later),
        now,
    )


def _pull_of_member(
    tables: PullTables,
    request: AnyPull,
    topic: TopicConfig,
    group: SubscriptionGroupConfig,
    wanted: Accept,
    puller: Puller,
    now: int,
) -> Result:
    """The pull of a member of a broadcasting group, which may be sent to where it has to begin."""
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
    *,
    was_held: bool = False,
) -> Result:
    """Reads the queue; what has to come from the disk is read off the loop first, and looked at again."""
    result = _read(tables, request, wanted, now)
    if result.cold is not None and cold_reads:
        return once_warm(
            Warm(*result.cold),
            lambda later: _read_warm(
                tables, request, topic, group, wanted, later, cold_reads - 1, was_held=was_held
            ),
            now,
        )
    reply = _reply(tables, request, topic, group, result, now)
    if was_held or reply.code != ResponseCode.PULL_NOT_FOUND or not request.sys_flag & MAY_BE_HELD:
        return reply

    def woken(outcome: Outcome, later: int) -> Result:
        return _read_woken(tables, request, wanted, outcome, later)

    return Wait((_data_for(tables.store, request, wanted),), _held_until(tables, request, now), woken)


def _read_woken(tables: PullTables, request: AnyPull, wanted: Accept, outcome: Outcome, now: int) -> Result:
    """Reads for a pull that was held, if its topic and group may still be read, as Apache's broker does.

    A message that readers see late may be on the disk only: its units were written meanwhile.
    """
    group = _check_group(tables, request, now)
    topic = _check_topic(tables, request)
    cold_reads = 0 if outcome.timed_out else COLD_READS
    return _read_warm(tables, request, topic, group, wanted, now, cold_reads, was_held=True)


def _check_role(tables: PullTables) -> None:
    """Not for pulls that are held: where a master ends its role, they end as if nothing had come."""
    if tables.role.is_slave and not tables.settings.slave_read_enable:
        raise flow_control()


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


def _subscription(
    tables: PullTables, request: AnyPull, group: SubscriptionGroupConfig, connection_id: int
) -> Accept:
    """The messages that the client wants, from the request or from its own heartbeats: what other members of
    its group want does not count.
    """
    if request.sys_flag & SUBSCRIPTION_IN_REQUEST:
        return tables.filters.of_request(request.topic, request.subscription, request.expression_type)
    members = tables.clients.consumers.get(request.consumer_group)
    if members is None:
        raise Refused(ResponseCode.SUBSCRIPTION_NOT_EXIST, "the consumer's group info not exist")
    member = members.members.get(connection_id)
    if (member or members).is_broadcasting and not group.consume_broadcast_enable:
        raise _forbidden(
            f"the consumer group[{request.consumer_group}] can not consume by broadcast way",
            FORBIDDEN_BROADCASTING,
        )
    if tables.groups.is_forbidden(request.consumer_group, request.topic):
        raise _forbidden(
            f"the consumer group[{request.consumer_group}] is forbidden for topic[{request.topic}]",
            FORBIDDEN_SUBSCRIPTION,
        )
    on_behalf_of = request.proxy_froward_client_id or ""
    subscription = members.subscription_of(connection_id, request.topic, on_behalf_of)
    if subscription is None:
        raise Refused(ResponseCode.SUBSCRIPTION_NOT_EXIST, "the consumer's subscription not exist")
    if subscription.sub_version < request.sub_version:
        raise Refused(ResponseCode.SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest")
    if is_tag_type(subscription.expression_type):
        return tag_codes(subscription.sub_string) or _of_retries(tables, request.topic, members)
    return _registered_filter(tables, request, subscription)


def _of_retries(tables: PullTables, topic: str, members: ConsumerGroup) -> Accept:
    """The filter of a retry topic: none while members differ, as one of them wanted each message there."""
    return None if members.differing else tables.filters.of_retries(topic)


def _registered_filter(tables: PullTables, request: AnyPull, subscription: SubscriptionData) -> Accept:
    """The filter of a member, which its heartbeats have brought. That of its group is the same, and has bits
    in the queue's extension, unless members differ.
    """
    if not tables.settings.enable_property_filter:
        raise not_supported(subscription.expression_type)
    known = tables.filters.get(request.topic, request.consumer_group)
    if known is None:
        raise Refused(
            ResponseCode.FILTER_DATA_NOT_EXIST,
            "The broker's consumer filter data is not exist!Your expression may be wrong!",
        )
    if known.data.expression != subscription.sub_string:
        return tables.filters.of_request(request.topic, subscription.sub_string, subscription.expression_type)
    if known.data.client_version < request.sub_version:
        raise Refused(ResponseCode.FILTER_DATA_NOT_LATEST, "the consumer's consumer filter data not latest")
    return tables.filters.wanted(known)


def _forbidden(remark: str, kind: str) -> Refused:
    return Refused(ResponseCode.NO_PERMISSION, remark, {"forbiddenType": kind})


def _sent_to(store: MessageStore, request: AnyPull, queue_offset: int) -> GetResult:
    """The answer to a client that is to continue elsewhere."""
    topic, queue_id = request.topic, request.queue_id
    return GetResult.without_records(
        GetStatus.OFFSET_RESET,
        queue_offset,
        store.min_offset(topic, queue_id),
        store.max_offset(topic, queue_id),
    )


def _read(tables: PullTables, request: AnyPull, wanted: Accept, now: int) -> GetResult:
    reset = tables.offsets.pop_reset(request.consumer_group, request.topic, request.queue_id)
    if reset is not None and reset != request.queue_offset:
        return _sent_to(tables.store, request, reset)
    result = tables.store.get(
        request.topic,
        request.queue_id,
        request.queue_offset,
        request.max_msg_nums,
        request.max_msg_bytes or 0,
        wanted,
        bulk=request.bulk is True,
    )
    if result.status is GetStatus.OFFSET_OVERFLOW_BADLY and request.topic in tables.deletions.by_topic:
        # The queue is younger than the offset, which is one of the topic that had this name before.
        result.next_offset = max(0, result.min_offset)
    return result


def _has_reset(tables: PullTables, request: AnyPull) -> bool:
    offsets = tables.offsets
    return offsets.has_resets and offsets.has_reset(request.consumer_group, request.topic, request.queue_id)


def _held_until(tables: PullTables, request: AnyPull, now: int) -> int:
    settings = tables.settings
    if settings.long_polling_enable:
        return now + min(request.suspend_timeout_millis, MAX_SUSPEND_MS)
    return now + settings.short_polling_time_mills


def _data_for(store: MessageStore, request: AnyPull, wanted: Accept) -> DataAt:
    """Data that a held pull waits for: a message that it wants, not just any."""
    topic, queue_id, queue_offset = request.topic, request.queue_id, request.queue_offset
    if not isinstance(wanted, MessageFilter):
        codes = wanted if isinstance(wanted, frozenset) else None
        return DataAt(topic, queue_id, queue_offset, codes)

    def accepts(arrived_at: int) -> bool:
        return store.lookup.matches_at(topic, queue_id, arrived_at, wanted)

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
    code, next_offset = _code_of(request, result), result.next_offset
    if tables.role.is_slave:
        code, next_offset = _at_slave(tables, request, result, code)
    return PullReply(
        code=code,
        remark=result.status.name,
        suggest_which_broker_id=_suggested(tables, group, result),
        next_begin_offset=next_offset,
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


def _at_slave(
    tables: PullTables, request: AnyPull, result: GetResult, code: ResponseCode
) -> tuple[ResponseCode, int]:
    """The code and the next offset as a slave answers: what it has not may be at its master."""
    if result.status is _FOUND or result.status is GetStatus.OFFSET_RESET:
        return code, result.next_offset
    if code is ResponseCode.PULL_OFFSET_MOVED and not tables.settings.offset_check_in_slave:
        return ResponseCode.PULL_RETRY_IMMEDIATELY, request.queue_offset
    if tables.replication.has_master and not result.suggest_slave:
        return ResponseCode.PULL_RETRY_IMMEDIATELY, result.next_offset
    return code, result.next_offset


def _note(tables: PullTables, request: AnyPull, result: GetResult) -> None:
    """Remembers what a pull has come to."""
    group, topic, queue_id = request.consumer_group, request.topic, request.queue_id
    tables.offsets.remember_pull(group, topic, queue_id, result.next_offset)
    if result.status is _FOUND:
        tables.stats.pulled(group, topic, queue_id, result.count, result.size_bytes)
    else:
        tables.stats.missed()


def _suggested(tables: PullTables, group: SubscriptionGroupConfig, result: GetResult) -> int:
    """Member of the broker group that the client should pull from next."""
    if not tables.settings.slave_read_enable or (tables.replication.has_master and not result.suggest_slave):
        return 0
    return group.which_broker_when_consume_slowly if result.suggest_slave else group.broker_id


# The fast path.


class PullFastPath:
    """The rules of pulls that are answered as frames: what is looked up for one stands for those like it."""

    def __init__(self, tables: PullTables) -> None:
        self._tables = tables
        self.plans: dict[bytes, CachedPullPlan] = {}
        self.store = tables.store
        self.offsets = tables.offsets
        self.stats = tables.stats
        self._copied = bytearray(COPIED_BYTES)
        """Memory in which records are put together."""
        self._in_bulk = bytearray(BYTES_AT_ONCE)
        """The same for who reads a whole topic."""

    def handle(self, data: bytes, peer: Peer, now: int) -> HandledFrames | None:
        """Answers or holds the pulls at the start of a read, whole frames; None if there are none.

        Everything else goes the general path, through `pull`, and would have come to the same.
        """
        return None if self._tables.topics.dirty_names else handle_pulls(self, data, peer, now)

    def changes(self) -> int:
        """Topics, groups, consumers and options: what `look_up` looks at."""
        tables = self._tables
        return (
            tables.topics.version.counter
            + tables.groups.version.counter
            + tables.config.version.counter
            + tables.clients.changes
        )

    def look_up(self, request: PullMessage, connection_id: int, now: int) -> CachedPullPlan | None:
        """The kept plan of a pull; None if it is none of the usual ones, or one that is refused."""
        tables = self._tables
        if request.consumer_group not in tables.groups.by_name:
            return None  # it is made on the way, and others have to be notified of it
        if request.topic in tables.topics.static.by_topic:
            return None
        try:
            _check_role(tables)
            group = _check_group(tables, request, now)
            topic = _check_topic(tables, request)
            wanted = _subscription(tables, request, group, connection_id)
        except Refused:
            return None
        if isinstance(wanted, MessageFilter) or tables.broadcasts.remembers(request, connection_id):
            return None
        if not request.sys_flag & SUBSCRIPTION_IN_REQUEST:
            members = tables.clients.consumers[request.consumer_group]
            subscription = members.subscription_of(connection_id, request.topic)
            if subscription is not None and not is_tag_type(subscription.expression_type):
                return None  # whose filter may come or go at any time
        into = self._in_bulk if request.bulk else self._copied
        cursor = tables.store.reader.cursor(
            request.topic,
            request.queue_id,
            request.max_msg_nums,
            request.max_msg_bytes or 0,
            wanted,
            len(into),
            bulk=request.bulk is True,
        )
        if cursor is None:
            return None
        return CachedPullPlan(request, group, topic, wanted, cursor, into, self.changes())

    def suggested(self, group: SubscriptionGroupConfig, result: GetResult) -> int:
        """Member of the broker group that the client should pull from next."""
        return _suggested(self._tables, group, result)

    def hold(
        self, plan: CachedPullPlan, request: PullMessage, opaque: int, result: GetResult, now: int
    ) -> Wait | None:
        """Wait of a pull that has found nothing; None if it is not held."""
        tables = self._tables
        if (
            tables.role.is_slave
            or result.cold is not None
            or not request.sys_flag & MAY_BE_HELD
            or _code_of(request, result) is not _NOT_FOUND
        ):
            return None
        if plan.commits:
            tables.offsets.commit(
                request.consumer_group, request.topic, request.queue_id, request.commit_offset, now
            )
        _note(tables, request, result)
        changes = self.changes()

        def woken(outcome: Outcome, later: int) -> Result | bytes:
            again = None
            if not outcome.timed_out and changes == self.changes() and not _has_reset(tables, request):
                again = tables.store.copy(plan.cursor, request.queue_offset, plan.into)
            if again is None or again.status is not _FOUND:
                return _read_woken(tables, request, plan.wanted, outcome, later)
            return answer(self, plan, again, opaque)

        on = _data_for(tables.store, request, plan.wanted)
        return Wait((on,), _held_until(tables, request, now), woken)
