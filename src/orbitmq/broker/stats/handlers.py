"""Lag of groups, times of queues, and statistics; runtime info."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

from orbitmq.broker.client.clients import ClientTable
from orbitmq.broker.metadata.groups import GroupTable
from orbitmq.broker.metadata.identity import BrokerIdentity
from orbitmq.broker.metadata.snapshots import with_items
from orbitmq.broker.metadata.topics import TopicTable
from orbitmq.broker.offset.offsets import OffsetTable
from orbitmq.broker.registry import handlers
from orbitmq.broker.stats.counters import BrokerStats
from orbitmq.broker.stats.rate_counters import Window
from orbitmq.handling.call import Call, Result, in_turns, off_loop
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
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.requests.admin import ViewBrokerStatsData
from orbitmq.protocol.requests.group import GetBrokerConsumeStats, GetConsumeStats, QueryConsumeTimeSpan
from orbitmq.protocol.schema import fastjson
from orbitmq.protocol.schema.declare import Blob, JsonReply, Reply
from orbitmq.store import Lookup, MessageStore


@dataclass(slots=True)
class StatsTables:
    """Tables of statistics about groups and topics."""

    identity: BrokerIdentity
    topics: TopicTable
    groups: GroupTable
    clients: ClientTable
    offsets: OffsetTable
    store: MessageStore
    stats: BrokerStats


@handlers(GetConsumeStats)
def get_consume_stats(tables: StatsTables, call: Call[GetConsumeStats], now: int) -> Result:
    """Progress of a group, queue by queue; an empty table for an unknown group."""
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
    times = _store_times(tables.store, [stats])
    return off_loop(times, lambda _, later: JsonReply(stats), now)


QUEUES_PER_TURN = 500
"""Queues that are read in one turn, about 10 ms; other requests follow."""


@handlers(GetBrokerConsumeStats)
def get_broker_consume_stats(tables: StatsTables, call: Call[GetBrokerConsumeStats], now: int) -> Result:
    """Progress of all groups, some queues per turn; with `isOrder` on ordered topics only."""
    return in_turns(_all_groups(tables, call.request.is_order, now), now)


def _all_groups(tables: StatsTables, ordered_only: bool, now: int) -> Generator[None, None, Result]:
    by_group: list[tuple[str, list[ConsumeStats]]] = []
    queues = 0
    for group in sorted(tables.groups.by_name):
        by_topic: list[ConsumeStats] = []
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
            by_topic.append(stats)
        by_group.append((group, by_topic))
    times = _store_times(tables.store, [stats for _, by_topic in by_group for stats in by_topic])
    address = tables.identity.address

    def work() -> Generator[None, None, Reply]:
        yield from times
        total = in_flight = 0
        texts = []
        for group, by_topic in by_group:
            yield
            for stats in by_topic:
                for row in stats.offset_table.values():
                    total += row.broker_offset - row.consumer_offset
                    in_flight += row.pull_offset - row.consumer_offset
            joined = ",".join(stats.to_json_text() for stats in by_topic)
            texts.append(f"{{{fastjson.write(group)}:[{joined}]}}")
        whole = ConsumeStatsList(broker_addr=address, total_diff=total, total_inflight_diff=in_flight)
        return Blob(body=with_items(whole.to_json_text(), "consumeStatsList", texts).encode())

    return off_loop(work(), lambda reply, later: reply, now)


def _consumes(tables: StatsTables, group: str, topic: str) -> bool:
    """Not so only for a group that is here and subscribes other topics."""
    consumers = tables.clients.consumers.get(group)
    return consumers is None or not consumers.subscriptions or topic in consumers.subscriptions


def _add_queues(
    tables: StatsTables, stats: ConsumeStats, group: str, config: TopicConfig, remembered_pull: bool = False
) -> None:
    """Adds the rows of a topic's queues, for `_store_times` to complete."""
    topic, store = config.topic_name, tables.store
    # To put the stretches of a static topic together takes knowing which of them have no offset of the group.
    without = -1 if topic in tables.topics.static.by_topic and not remembered_pull else 0
    for queue_id in range(config.read_queue_nums):
        offset = max(without, tables.offsets.get(group, topic, queue_id))
        pulled = max(0, tables.offsets.pulled(group, topic, queue_id))
        stats.offset_table[MessageQueue(topic, tables.identity.name, queue_id)] = OffsetWrapper(
            broker_offset=max(0, store.max_offset(topic, queue_id)),
            consumer_offset=offset,
            pull_offset=pulled if remembered_pull else max(offset, pulled),
            last_timestamp=0,
        )


def _store_times(store: MessageStore, all_stats: list[ConsumeStats]) -> Generator[None, None, None]:
    """Work that notes when the last consumed message of each row was stored."""
    rows = [
        (queue.topic, queue.queue_id, row)
        for stats in all_stats
        for queue, row in stats.offset_table.items()
        if row.consumer_offset > 0
    ]
    search = store.search({(topic, queue_id) for topic, queue_id, _ in rows})

    def work() -> Generator[None, None, None]:
        for topic, queue_id, row in rows:
            yield
            row.last_timestamp = max(0, search.store_time(topic, queue_id, row.consumer_offset - 1))

    return work()


@handlers(QueryConsumeTimeSpan)
def query_consume_time_span(tables: StatsTables, call: Call[QueryConsumeTimeSpan], now: int) -> Result:
    """Store times of the first, the last and the last consumed message of each queue."""
    request = call.request
    topic, name = request.topic, tables.identity.name
    config = tables.topics.require(topic)
    queue_ids = range(config.write_queue_nums)
    consumed = [tables.offsets.get(request.group, topic, queue_id) for queue_id in queue_ids]
    search = tables.store.search([(topic, queue_id) for queue_id in queue_ids])

    def work() -> Generator[None, None, list[QueueTimeSpan]]:
        spans = []
        for queue_id in queue_ids:
            yield
            spans.append(_span(search, MessageQueue(topic, name, queue_id), consumed[queue_id], now))
        return spans

    return off_loop(
        work(),
        lambda spans, later: JsonReply(QueryConsumeTimeSpanBody(spans)),
        now,
    )


def _span(store: Lookup, queue: MessageQueue, consumed: int, now: int) -> QueueTimeSpan:
    topic, queue_id = queue.topic, queue.queue_id
    first, end = store.min_offset(topic, queue_id), store.max_offset(topic, queue_id)
    oldest = store.earliest_time(topic, queue_id)
    newest = store.store_time(topic, queue_id, end - 1) if end > 0 else -1
    consumed_time = store.store_time(topic, queue_id, consumed - 1) if consumed > 0 else oldest
    if consumed < 0 and end <= 0:
        delay = now + 1
    elif consumed >= end:
        delay = 0
    else:
        delay = now - store.store_time(topic, queue_id, max(consumed, first))
    return QueueTimeSpan(
        message_queue=queue,
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
    return JsonReply(
        body=BrokerStatsData(
            stats_minute=_item(flow.window(flow.minute, counter)),
            stats_hour=_item(flow.window(flow.hour, counter)),
            stats_day=_item(flow.day_until(now, counter)),
        )
    )


def _item(window: Window) -> BrokerStatsItem:
    return BrokerStatsItem(sum=window.sum, tps=window.tps, avgpt=window.avgpt)
