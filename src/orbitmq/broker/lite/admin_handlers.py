"""Answers to operators about lite topics. Each counts this broker's part."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from operator import itemgetter

from orbitmq.broker.lite.backlogs import backlogs
from orbitmq.broker.lite.events import LiteEvents
from orbitmq.broker.lite.groups import expiration_minutes, is_lite
from orbitmq.broker.lite.pops import LitePops
from orbitmq.broker.lite.subscriptions import LiteSubscriptions
from orbitmq.broker.metadata.groups import GroupTable
from orbitmq.broker.metadata.topics import TopicTable
from orbitmq.broker.offset.offsets import OffsetTable
from orbitmq.broker.registry import handlers
from orbitmq.handling.call import Call, Result
from orbitmq.protocol.bodies.group import SubscriptionGroupConfig
from orbitmq.protocol.bodies.lite import (
    BrokerLiteInfoBody,
    LiteClientInfoBody,
    LiteGroupInfoBody,
    LiteLag,
    LiteOffsets,
    LiteSubscriber,
    LiteTopicInfoBody,
    LiteTopicOffset,
    ParentTopicInfoBody,
)
from orbitmq.protocol.bodies.topic import TopicConfig
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.lite_topics import bound_topic, lite_queue
from orbitmq.protocol.names import LITE_PREFIX
from orbitmq.protocol.requests.lite import (
    GetBrokerLiteInfo,
    GetLiteClientInfo,
    GetLiteGroupInfo,
    GetLiteTopicInfo,
    GetParentTopicInfo,
    TriggerLiteDispatch,
)
from orbitmq.protocol.schema.declare import JsonReply, Void
from orbitmq.store import MessageStore

MOST_NAMES = 10_000
"""Lite topics in one answer."""


@dataclass(slots=True)
class LiteAdminTables:
    """Tables of the administration of lite topics."""

    topics: TopicTable
    groups: GroupTable
    offsets: OffsetTable
    lite_subscriptions: LiteSubscriptions
    lite_events: LiteEvents
    lite_pops: LitePops
    store: MessageStore


@handlers(GetBrokerLiteInfo)
def get_broker_lite_info(tables: LiteAdminTables, call: Call[GetBrokerLiteInfo], now: int) -> Result:
    """Figures of the broker."""
    store = tables.store
    parents = {name: topic for name, topic in tables.topics.by_name.items() if is_lite(topic)}
    groups: dict[str, list[str]] = {}
    offsets = 0
    for name, config in tables.groups.by_name.items():
        bound = bound_topic(config)
        if bound is not None:
            groups.setdefault(bound, []).append(name)
            offsets += sum(topic.startswith(LITE_PREFIX) for topic in tables.offsets.topics_of(name))
    return JsonReply(
        body=BrokerLiteInfoBody(
            max_lmq_num=store.options.max_lmq_consume_queue_num,
            current_lmq_num=store.lmq_count,
            lite_subscription_count=tables.lite_subscriptions.count,
            order_info_count=len(tables.lite_pops.order),
            cq_table_size=store.queue_name_count,
            offset_table_size=offsets,
            event_map_size=len(tables.lite_events),
            topic_meta={name: expiration_minutes(topic) for name, topic in parents.items()},
            group_meta=groups,
        )
    )


@handlers(GetParentTopicInfo)
def get_parent_topic_info(tables: LiteAdminTables, call: Call[GetParentTopicInfo], now: int) -> Result:
    """Figures of a parent."""
    name = call.request.topic
    topic = _parent(tables, name)
    groups = [group for group, config in tables.groups.by_name.items() if bound_topic(config) == name]
    return JsonReply(
        body=ParentTopicInfoBody(
            topic=name,
            ttl=expiration_minutes(topic),
            groups=groups or None,
            lmq_num=tables.store.lmq_count,
            lite_topic_count=len(tables.store.lmqs(lite_queue(name, ""))),
        )
    )


@handlers(GetLiteTopicInfo)
def get_lite_topic_info(tables: LiteAdminTables, call: Call[GetLiteTopicInfo], now: int) -> Result:
    """The offsets of a lite topic, and its subscribers."""
    request = call.request
    _parent(tables, request.parent_topic)
    lmq = lite_queue(request.parent_topic, request.lite_topic)
    end = tables.store.max_offset(lmq, 0)
    subscribers = {
        ("*" if client.is_wildcard else client.client_id, client.group)
        for client in tables.lite_subscriptions.of(lmq)
    }
    offset = LiteTopicOffset()
    if end:
        offset = LiteTopicOffset(
            max(0, tables.store.min_offset(lmq, 0)),
            end,
            max(0, tables.store.lookup.store_time(lmq, 0, end - 1)),
        )
    return JsonReply(
        body=LiteTopicInfoBody(
            parent_topic=request.parent_topic,
            lite_topic=request.lite_topic,
            subscriber=[LiteSubscriber(*one) for one in sorted(subscribers)],
            topic_offset=offset,
        )
    )


@handlers(GetLiteClientInfo)
def get_lite_client_info(tables: LiteAdminTables, call: Call[GetLiteClientInfo], now: int) -> Result:
    """The lite topics that a client subscribes to."""
    request = call.request
    _parent(tables, request.parent_topic)
    if bound_topic(_group(tables, request.group)) != request.parent_topic:
        raise Refused(
            ResponseCode.INVALID_PARAMETER,
            f"Subscription [{request.group}]-[{request.parent_topic}] not match.",
        )
    if request.max_count <= 0:
        raise Refused(ResponseCode.SYSTEM_ERROR, f"maxCount[{request.max_count}] has to be 1 or more")
    body = LiteClientInfoBody(request.parent_topic, request.group, request.client_id)
    client = tables.lite_subscriptions.clients.get(request.client_id)
    if client is not None and (client.group, client.topic) == (request.group, request.parent_topic):
        names = [f"{client.topic}@{client.group}"] if client.is_wildcard else sorted(client.lmqs)
        body.last_access_time = client.updated_ms
        body.lite_topic_count = len(names)
        body.lite_topic_set = names[: min(request.max_count, MOST_NAMES)]
    return JsonReply(body)


@handlers(GetLiteGroupInfo)
def get_lite_group_info(tables: LiteAdminTables, call: Call[GetLiteGroupInfo], now: int) -> Result:
    """Progress of a group on its lite topics, or with one of them."""
    request = call.request
    parent = _bound(_group(tables, request.group))
    body = LiteGroupInfoBody(request.group, parent, request.lite_topic)
    if request.lite_topic:
        _fill_one(tables, body, lite_queue(parent, request.lite_topic))
        return JsonReply(body)
    if request.top_k < 1:
        raise Refused(ResponseCode.SYSTEM_ERROR, f"topK[{request.top_k}] has to be 1 or more")
    lags = list(backlogs(tables.offsets, tables.store, request.group, parent))
    body.total_lag_count = sum(lag for _, _, lag in lags)
    most = min(request.top_k, MOST_NAMES)

    def place(lag: tuple[str, str, int]) -> int:
        """Where the next message is in the log, which is in the order of time: no record is read for it."""
        unit = tables.store.physical_offset_of(lag[0], 0, tables.offsets.get(request.group, lag[0], 0))
        return 0 if unit is None else unit[0]

    def shown(lags: list[tuple[str, str, int]]) -> list[LiteLag]:
        return [LiteLag(name, lag, _oldest(tables, request.group, lmq)) for lmq, name, lag in lags]

    body.lag_count_top_k = shown(heapq.nlargest(most, lags, key=itemgetter(2, 1)))
    body.lag_timestamp_top_k = shown(heapq.nsmallest(most, lags, key=place))
    if body.lag_timestamp_top_k:
        body.earliest_unconsumed_timestamp = body.lag_timestamp_top_k[0].earliest_unconsumed_timestamp
    return JsonReply(body)


def _fill_one(tables: LiteAdminTables, body: LiteGroupInfoBody, lmq: str) -> None:
    end = tables.store.max_offset(lmq, 0)
    committed = tables.offsets.get(body.group, lmq, 0)
    if not end:
        body.total_lag_count = -1
    elif committed >= 0:
        body.total_lag_count = end - committed
        body.earliest_unconsumed_timestamp = _oldest(tables, body.group, lmq)
        consumed_ms = tables.store.lookup.store_time(lmq, 0, committed - 1) if committed else 0
        body.lite_topic_offset_wrapper = LiteOffsets(end, committed, 0, max(0, consumed_ms))


def _oldest(tables: LiteAdminTables, group: str, lmq: str) -> int:
    """Store time of the next message for a group, -1 without one."""
    return tables.store.lookup.store_time(lmq, 0, tables.offsets.get(group, lmq, 0))


@handlers(TriggerLiteDispatch)
def trigger_lite_dispatch(tables: LiteAdminTables, call: Call[TriggerLiteDispatch], now: int) -> Result:
    """Has a client, or all of a group, look at all its lite topics with messages now."""
    request = call.request
    _bound(_group(tables, request.group))
    for client in tables.lite_subscriptions.members(request.group):
        if not request.client_id or client.client_id == request.client_id:
            tables.lite_events.tell_all(client, now)
    return Void()


def _parent(tables: LiteAdminTables, name: str) -> TopicConfig:
    topic = tables.topics.get(name)
    if topic is None:
        raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"Topic [{name}] not exist.")
    if not is_lite(topic):
        raise Refused(ResponseCode.INVALID_PARAMETER, f"Topic [{name}] type not match.")
    return topic


def _group(tables: LiteAdminTables, name: str) -> SubscriptionGroupConfig:
    group = tables.groups.get(name)
    if group is None:
        raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group [{name}] not exist.")
    return group


def _bound(group: SubscriptionGroupConfig) -> str:
    parent = bound_topic(group)
    if parent is None:
        raise Refused(ResponseCode.INVALID_PARAMETER, f"Group [{group.group_name}] is not a LITE group.")
    return parent
