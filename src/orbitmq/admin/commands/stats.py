"""`orbitmq admin stats`: what comes in, what goes out, and what waits, by topic and group."""

from __future__ import annotations

import click

from orbitmq.admin.admin import Admin, BrokerAt
from orbitmq.admin.command import command
from orbitmq.admin.commands.group_progress import group_progress
from orbitmq.admin.commands.topic_list import system_topics, topic_names
from orbitmq.admin.output import Column, Rows
from orbitmq.protocol.bodies.stats import BrokerStatsData
from orbitmq.protocol.errors import PeerFailed, TopicNotExist
from orbitmq.protocol.names import DLQ_PREFIX, RETRY_PREFIX
from orbitmq.protocol.requests.admin import ViewBrokerStatsData
from orbitmq.protocol.requests.topic import QueryTopicConsumeByWho


async def statistic(admin: Admin, brokers: list[BrokerAt], name: str, key: str) -> tuple[float, int]:
    """Rate per second over the last minute, and count over the last day, summed over brokers.

    A key that a broker never counted is 0 there.
    """

    async def ask(one: BrokerAt) -> BrokerStatsData | None:
        try:
            return (await admin.call(one.address, ViewBrokerStatsData(name, key))).body
        except PeerFailed:
            return None

    rate, count = 0.0, 0
    for data in await admin.each(brokers, ask):
        if data is None:
            continue
        if data.stats_minute is not None:
            rate += data.stats_minute.tps
        # Longer spans are sampled rarely: a broker that is young knows its first day by the minute only.
        spans = (data.stats_day, data.stats_hour, data.stats_minute)
        count += next((span.sum for span in spans if span is not None and span.sum), 0)
    return rate, count


async def groups_of(admin: Admin, brokers: list[BrokerAt], topic: str) -> list[str]:
    """The groups that consume a topic, sorted."""
    found: set[str] = set()
    for one in brokers:
        try:
            found.update((await admin.call(one.address, QueryTopicConsumeByWho(topic))).body.group_list)
        except (TopicNotExist, PeerFailed):
            continue
    return sorted(found)


@command("stats", "all", "orbitmq admin stats all\norbitmq admin stats all --topic flights")
@click.option("-t", "--topic", metavar="NAME", help="Only this topic.")
@click.option("-a", "--active", is_flag=True, help="Only topics with traffic within the last day.")
async def show(admin: Admin, topic: str | None, active: bool) -> Rows:
    """Messages per second and per day, and the backlog, of every topic and group."""
    if topic is not None:
        topics = [topic]
    else:
        system = await system_topics(admin)
        topics = [
            name
            for name in await topic_names(admin)
            if name not in system and not name.startswith(DLQ_PREFIX)
        ]

    async def of_topic(name: str) -> list[tuple[object, ...]]:
        try:
            brokers = await admin.brokers_of(name)
        except TopicNotExist:
            if topic is not None:
                raise
            return []
        return await _rows(admin, brokers, name, active)

    rows = [row for part in await admin.each(topics, of_topic) for row in part]
    return Rows(
        (
            Column("topic", "Topic"),
            Column("group", "Group"),
            Column("lag", "Lag"),
            Column("inTps", "In/s"),
            Column("outTps", "Out/s"),
            Column("inDay", "In 24 h"),
            Column("outDay", "Out 24 h"),
        ),
        rows,
    )


async def _rows(admin: Admin, brokers: list[BrokerAt], topic: str, active: bool) -> list[tuple[object, ...]]:
    in_rate, in_day = await statistic(admin, brokers, "TOPIC_PUT_NUMS", topic)
    groups = await groups_of(admin, brokers, topic)
    if topic.startswith(RETRY_PREFIX):
        groups = [topic.removeprefix(RETRY_PREFIX)]
    rows: list[tuple[object, ...]] = []
    for group in groups:
        out_rate, out_day = await statistic(admin, brokers, "GROUP_GET_NUMS", f"{topic}@{group}")
        if not active or in_day or out_day:
            lag = (await group_progress(admin, group, topic, brokers)).lag
            rows.append((topic, group, lag, in_rate, out_rate, in_day, out_day))
    if not groups and (in_day or not active):
        rows.append((topic, None, 0, in_rate, 0.0, in_day, 0))
    return rows
