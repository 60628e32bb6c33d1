"""Lag of groups, times of queues, and statistics (broker behaviour, section 11; runtime info)."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

from orbitmq.broker.clients import ClientTable
from orbitmq.broker.flows import Window
from orbitmq.broker.groups import GroupTable
from orbitmq.broker.handlers import handlers
from orbitmq.broker.identity import BrokerIdentity
from orbitmq.broker.offsets import OffsetTable
from orbitmq.broker.snapshots import with_items
from orbitmq.broker.stats import BrokerStats
from orbitmq.broker.topics import TopicTable
from orbitmq.protocol import fastjson
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.bodies.stats import (
    BrokerStatsData,
    BrokerStatsItem,
    ConsumeStats,
    ConsumeStatsList,
    OffsetWrapper,
    QueryConsumeTimeSpanBody,
    QueueTimeSpan,
)
from orbitmq.protocol.bodies.topic import TopicConfig
from orbitmq.protocol.call import Call, Result, in_turns
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.declare import Blob, Reply
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.requests.admin import BrokerStatsReply, ViewBrokerStatsData
from orbitmq.protocol.requests.group import (
    ConsumeStatsReply,
    GetBrokerConsumeStats,
    GetConsumeStats,
    QueryConsumeTimeSpan,
    TimeSpanReply,
)
from orbitmq.store import MessageStore


@dataclass(slots=True)
class StatsTables:
    """What figures about groups and topics are made of."""

    identity: BrokerIdentity
    topics: TopicTable
    groups: GroupTable
    clients: ClientTable
    offsets: OffsetTable
    store: MessageStore
    stats: BrokerStats


@handlers(GetConsumeStats)
def get_consume_stats(tables: StatsTables, call: Call[GetConsumeStats], now: int) -> Reply:
    """How far a group has got, queue by queue; an empty table for an unknown group."""
    request = call.request
    group = request.consumer_group
    if request.topic_list:
        topics = [topic for topic in request.topic_list.split(";") if topic]
    elif request.topic:
        topics = [request.topic]
    else:
        topics = sorted(tables.offsets.topics_of(group))
    stats = ConsumeStats()
    for topic in topics:
        config = tables.topics.get(topic)
        if config is None or not _consumes(tables, group, topic):
            continue
        _add_queues(tables, stats, group, config)
        stats.consume_tps += tables.stats.tps(topic, group)
    return ConsumeStatsReply(body=stats)


QUEUES_PER_TURN = 500
"""How many queues are looked at before others have a turn: some 10 ms."""


@handlers(GetBrokerConsumeStats)
def get_broker_consume_stats(tables: StatsTables, call: Call[GetBrokerConsumeStats], now: int) -> Result:
    """How far all groups have got, some queues per turn; with `isOrder` on ordered topics only."""
    return in_turns(_all_groups(tables, call.request.is_order), now)


def _all_groups(tables: StatsTables, ordered_only: bool) -> Generator[None, None, Result]:
    texts = []
    total = in_flight = queues = 0
    for group in sorted(tables.groups.by_name):
        by_topic = []
        for topic in sorted(tables.offsets.topics_of(group)):
            config = tables.topics.get(topic)
            if config is None or (ordered_only and not config.order):
                continue
            if not _consumes(tables, group, topic):
                continue
            if queues >= QUEUES_PER_TURN:
                queues = 0
                yield
            stats = ConsumeStats(consume_tps=tables.stats.tps(topic, group))
            _add_queues(tables, stats, group, config, remembered_pull=True)
            queues += len(stats.offset_table)
            total += sum(row.broker_offset - row.consumer_offset for row in stats.offset_table.values())
            in_flight += sum(row.pull_offset - row.consumer_offset for row in stats.offset_table.values())
            by_topic.append(stats.to_json_text())
        texts.append(f"{{{fastjson.write(group)}:[{','.join(by_topic)}]}}")
    whole = ConsumeStatsList(
        broker_addr=tables.identity.address, total_diff=total, total_inflight_diff=in_flight
    )
    return Blob(body=with_items(whole.to_json_text(), "consumeStatsList", texts).encode())


def _consumes(tables: StatsTables, group: str, topic: str) -> bool:
    """Not so only for a group that is here and subscribes other topics."""
    consumers = tables.clients.consumers.get(group)
    return consumers is None or not consumers.subscriptions or topic in consumers.subscriptions


def _add_queues(
    tables: StatsTables, stats: ConsumeStats, group: str, config: TopicConfig, remembered_pull: bool = False
) -> None:
    topic, store = config.topic_name, tables.store
    for queue_id in range(config.read_queue_nums):
        offset = max(0, tables.offsets.get(group, topic, queue_id))
        pulled = max(0, tables.offsets.pulled(group, topic, queue_id))
        stats.offset_table[MessageQueue(topic, tables.identity.name, queue_id)] = OffsetWrapper(
            broker_offset=max(0, store.max_offset(topic, queue_id)),
            consumer_offset=offset,
            pull_offset=pulled if remembered_pull else max(offset, pulled),
            last_timestamp=max(0, store.store_time(topic, queue_id, offset - 1)) if offset > 0 else 0,
        )


@handlers(QueryConsumeTimeSpan)
def query_consume_time_span(tables: StatsTables, call: Call[QueryConsumeTimeSpan], now: int) -> Reply:
    """Store times of the first, the last and the last consumed message of each queue."""
    request = call.request
    topic = request.topic
    config = tables.topics.require(topic)
    spans = []
    for queue_id in range(config.write_queue_nums):
        spans.append(_span(tables, topic, queue_id, request.group, now))
    return TimeSpanReply(body=QueryConsumeTimeSpanBody(spans))


def _span(tables: StatsTables, topic: str, queue_id: int, group: str, now: int) -> QueueTimeSpan:
    store = tables.store
    first, end = store.min_offset(topic, queue_id), store.max_offset(topic, queue_id)
    oldest = store.earliest_time(topic, queue_id)
    newest = store.store_time(topic, queue_id, end - 1) if end > 0 else -1
    consumed = tables.offsets.get(group, topic, queue_id)
    consumed_time = store.store_time(topic, queue_id, consumed - 1) if consumed > 0 else oldest
    if consumed < 0 and end <= 0:
        delay = now + 1
    elif consumed >= end:
        delay = 0
    else:
        delay = now - store.store_time(topic, queue_id, max(consumed, first))
    return QueueTimeSpan(
        message_queue=MessageQueue(topic, tables.identity.name, queue_id),
        min_time_stamp=oldest,
        max_time_stamp=newest,
        consume_time_stamp=consumed_time,
        delay_time=delay,
    )


@handlers(ViewBrokerStatsData)
def view_broker_stats_data(tables: StatsTables, call: Call[ViewBrokerStatsData], now: int) -> Reply:
    """One statistic over the last minute, hour and day."""
    request = call.request
    found = tables.stats.find(request.stats_name, request.stats_key)
    if found is None:
        raise Refused(
            ResponseCode.SYSTEM_ERROR, f"The stats <{request.stats_name}> <{request.stats_key}> not exist"
        )
    flow, counter = found
    return BrokerStatsReply(
        body=BrokerStatsData(
            stats_minute=_item(flow.window(flow.minute, counter)),
            stats_hour=_item(flow.window(flow.hour, counter)),
            stats_day=_item(flow.window(flow.day, counter)),
        )
    )


def _item(window: Window) -> BrokerStatsItem:
    return BrokerStatsItem(sum=window.sum, tps=window.tps, avgpt=window.avgpt)
