"""Requests for a logical queue, each as requests for the physical queues of its stretches.

A rule gets the queue's stretches and the request. It yields a stretch with a request for its physical queue,
is sent the reply, and returns the reply for the logical queue. It does not know which broker answers.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

from orbitmq.protocol.bodies.static_topic import LogicQueueMappingItem, item_at, item_behind, placed
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.requests.offset import (
    ConsumerOffset,
    GetEarliestMsgStoretime,
    GetMaxOffset,
    GetMinOffset,
    OffsetReply,
    QueryConsumerOffset,
    SearchOffsetByTimestamp,
    StoretimeReply,
    UpdateConsumerOffset,
)
from orbitmq.protocol.requests.pull import (
    COMMITS_OFFSET,
    MAY_BE_HELD,
    LitePullMessage,
    PullMessage,
    PullReply,
)
from orbitmq.protocol.schema.declare import Reply, Request
from orbitmq.protocol.schema.json_body import LONG_MAX

AnyPull: TypeAlias = PullMessage | LitePullMessage
RequestT = TypeVar("RequestT", bound=Request[Any])


class PhysicalRequest(NamedTuple):
    """A request for the physical queue of a stretch."""

    item: LogicQueueMappingItem
    request: Request[Any]


class Rest(NamedTuple):
    """A moment to pass before the reply: the client would ask again at once."""


Work: TypeAlias = Generator[PhysicalRequest | Rest, Any, Reply]
Rule: TypeAlias = Callable[[Sequence[LogicQueueMappingItem], Any], Work]


def _physical(request: RequestT, item: LogicQueueMappingItem, **changes: Any) -> PhysicalRequest:
    """The request for the queue of a stretch; whoever gets it does not translate it once more."""
    changed = copy.copy(request)
    for name, value in (
        ("queue_id", item.queue_id),
        ("broker_name", item.bname),
        ("logical", False),
        *changes.items(),
    ):
        setattr(changed, name, value)
    return PhysicalRequest(item, changed)


def _at(items: Sequence[LogicQueueMappingItem], offset: int) -> LogicQueueMappingItem:
    item = item_at(items, offset)
    if item is None:
        raise Refused(
            ResponseCode.SYSTEM_ERROR, "the logical queue is being moved: its offsets are not decided yet"
        )
    return item


def pull(items: Sequence[LogicQueueMappingItem], request: AnyPull) -> Work:
    """Messages of the stretch that holds the offset; at its end the client is sent to the next one."""
    item, offset = _at(items, request.queue_offset), request.queue_offset
    following = item_behind(items, item)
    most = request.max_msg_nums
    if following is not None:
        most = max(1, min(most, following.logic_offset - offset))
    # Clients commit by a request of their own as well: that one finds the stretch of an earlier offset.
    commits = request.sys_flag & COMMITS_OFFSET and item_at(items, request.commit_offset) is item
    flags = request.sys_flag & ~COMMITS_OFFSET
    if item is not items[-1]:
        flags &= ~MAY_BE_HELD  # no message comes to this queue any more
    at = item.queue_offset(offset)
    pulled: PullReply = yield _physical(
        request,
        item,
        queue_offset=at,
        max_msg_nums=most,
        sys_flag=flags,
    )
    if commits:  # afterwards: the pull makes a group that is new
        group, topic = request.consumer_group, request.topic
        commit = UpdateConsumerOffset(group, topic, request.queue_id, request.commit_offset)
        yield from update_consumer_offset(items, commit)
    _translate(pulled, items, item, following, at)
    may_be_held = request.sys_flag & MAY_BE_HELD and item is not items[-1]
    if may_be_held and pulled.code == ResponseCode.PULL_NOT_FOUND:
        yield Rest()
    return pulled


def _translate(
    reply: PullReply,
    items: Sequence[LogicQueueMappingItem],
    item: LogicQueueMappingItem,
    following: LogicQueueMappingItem | None,
    at: int,
) -> None:
    """Makes of a physical queue's reply to a pull at `at` that of the logical queue."""
    low, end, next_offset = reply.min_offset, reply.max_offset, item.static_offset(reply.next_begin_offset)
    if reply.code != ResponseCode.SUCCESS:
        if at < low:
            # Behind the earliest stretch, messages that are gone are a gap to read over.
            is_first = item is next(placed(items))
            reply.code = ResponseCode.PULL_OFFSET_MOVED if is_first else ResponseCode.PULL_RETRY_IMMEDIATELY
            next_offset = item.static_offset(low)
        elif at >= end and following is not None:
            reply.code = ResponseCode.PULL_RETRY_IMMEDIATELY
            next_offset = following.logic_offset
        elif at >= end and item is not items[-1]:
            reply.code = ResponseCode.PULL_NOT_FOUND  # the next stretch is not placed yet
    if following is not None:
        next_offset = min(next_offset, following.logic_offset)
    reply.next_begin_offset = next_offset
    reply.min_offset = item.static_offset(low)
    reply.max_offset = max(item.static_offset(end), items[-1].logic_offset)
    reply.offset_delta = item.logic_offset - item.start_offset


def query_consumer_offset(items: Sequence[LogicQueueMappingItem], request: QueryConsumerOffset) -> Work:
    """The offset of a group: the latest stretch on which it has one counts."""
    if len(items) == 1 and items[0].is_placed:
        found: ConsumerOffset = yield _physical(request, items[0])
        return ConsumerOffset(items[0].static_offset(found.offset))
    for item in reversed(list(placed(items))):
        try:
            found = yield _physical(request, item, set_zero_if_not_found=False)
        except Refused as refused:
            if refused.code != ResponseCode.QUERY_NOT_FOUND:
                raise
        else:
            return ConsumerOffset(item.static_offset(found.offset))
    raise Refused(ResponseCode.QUERY_NOT_FOUND, "Not found, maybe this group consumer boot first")


def update_consumer_offset(items: Sequence[LogicQueueMappingItem], request: UpdateConsumerOffset) -> Work:
    """Stores the offset of a group on the stretch that holds it.

    Those on later ones are forgotten, for they count more: a group may go back. A group that comes to a
    stretch is through with those before it, to their ends.
    """
    item = _at(items, request.commit_offset)
    others = [other for other in placed(items) if other is not item]
    comes_here = bool(others) and not (yield from _has_offset(request, item))
    reply: Reply = yield _physical(request, item, commit_offset=item.queue_offset(request.commit_offset))
    for other in others:
        if other.gen < item.gen and comes_here:
            end = yield _physical(GetMaxOffset(request.topic, 0), other)
            yield _physical(request, other, commit_offset=end.offset)
        elif other.gen > item.gen and (yield from _has_offset(request, other)):
            yield _physical(request, other, commit_offset=-1)
    return reply


def _has_offset(
    request: UpdateConsumerOffset, item: LogicQueueMappingItem
) -> Generator[PhysicalRequest | Rest, Any, bool]:
    """True if the group has an offset on a stretch."""
    ask = QueryConsumerOffset(request.consumer_group, request.topic, 0, set_zero_if_not_found=False)
    try:
        yield _physical(ask, item)
    except Refused as refused:
        if refused.code != ResponseCode.QUERY_NOT_FOUND:
            raise
        return False
    return True


def get_max_offset(items: Sequence[LogicQueueMappingItem], request: GetMaxOffset) -> Work:
    """The offset of the next message, in the last stretch whose place is decided."""
    item = _at(items, LONG_MAX)
    reply: OffsetReply = yield _physical(request, item)
    return OffsetReply(item.static_offset(reply.offset))


def get_min_offset(items: Sequence[LogicQueueMappingItem], request: GetMinOffset) -> Work:
    """The offset of the first message of the earliest stretch."""
    item = _at(items, 0)
    reply: OffsetReply = yield _physical(request, item)
    return OffsetReply(item.static_offset(reply.offset))


def get_earliest_msg_storetime(
    items: Sequence[LogicQueueMappingItem], request: GetEarliestMsgStoretime
) -> Work:
    """The store time of the first message that there is, in whatever stretch."""
    reply = StoretimeReply(-1)
    for item in placed(items):
        reply = yield _physical(request, item)
        if reply.timestamp >= 0:
            break
    return reply


def search_offset_by_timestamp(
    items: Sequence[LogicQueueMappingItem], request: SearchOffsetByTimestamp
) -> Work:
    """The offset for a store time: of the first message stored then or later, with `upper` of the last one
    stored until then.
    """
    upper = (request.boundary_type or "lower").lower() == "upper"
    time_ms = request.timestamp + 1 if upper else request.timestamp
    first, last = 0, None
    # A stretch is later than those before it: the first that holds something of that time or later decides.
    for item in placed(items):
        begin = yield _physical(request, item, boundary_type="lower", timestamp=time_ms)
        low = yield _physical(GetMinOffset(request.topic, 0), item)
        end = yield _physical(GetMaxOffset(request.topic, 0), item)
        first = item.static_offset(begin.offset)
        if begin.offset > low.offset:
            last = first - 1
        if begin.offset < end.offset:
            break
    return OffsetReply(last if upper and last is not None else first)


RULES: Mapping[type[Request[Any]], Rule] = {
    PullMessage: pull,
    LitePullMessage: pull,
    QueryConsumerOffset: query_consumer_offset,
    UpdateConsumerOffset: update_consumer_offset,
    GetMaxOffset: get_max_offset,
    GetMinOffset: get_min_offset,
    GetEarliestMsgStoretime: get_earliest_msg_storetime,
    SearchOffsetByTimestamp: search_offset_by_timestamp,
}
"""The requests that name a logical queue, beside sends: those go to its last stretch, and nowhere else."""
