"""Rates and backlogs."""

from __future__ import annotations

import math
import time

from orbitmq.admin.admin import Admin, BrokerAt
from orbitmq.admin.progress import group_progress, member_count
from orbitmq.protocol.bodies.stats import BrokerStatsData
from orbitmq.protocol.errors import OrbitError, PeerFailed, TopicNotExist
from orbitmq.protocol.names import RETRY_PREFIX
from orbitmq.protocol.requests.admin import GetBrokerRuntimeInfo, ViewBrokerStatsData
from orbitmq.protocol.requests.topic import QueryTopicConsumeByWho

HOUR_MS = 3_600_000


HOURS_OF_DAY = 24


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
        # Apache's brokers sample longer spans rarely: what came since is in the shorter ones alone.
        spans = (data.stats_day, data.stats_hour, data.stats_minute)
        count += max((span.sum for span in spans if span is not None), default=0)
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


async def young_brokers(admin: Admin) -> dict[str, float]:
    """The masters that run for less than a day, with their hours: they count since their start."""
    young = {}
    now_ms = time.time() * 1000
    for one in await admin.masters():
        try:
            table = (await admin.call(one.address, GetBrokerRuntimeInfo())).body.table or {}
        except OrbitError:
            continue
        started_ms = table.get("bootTimestamp", "")
        hours = (now_ms - int(started_ms)) / HOUR_MS if started_ms.isdigit() else math.inf
        if hours < HOURS_OF_DAY:
            young[one.name] = hours
    return young


async def rows_of(
    admin: Admin, brokers: list[BrokerAt], topic: str, active: bool
) -> list[tuple[object, ...]]:
    """The rows of a topic, one for each of its groups."""
    in_rate, in_day = await statistic(admin, brokers, "TOPIC_PUT_NUMS", topic)
    groups = await groups_of(admin, brokers, topic)
    if topic.startswith(RETRY_PREFIX):
        groups = [topic.removeprefix(RETRY_PREFIX)]
    rows: list[tuple[object, ...]] = []
    for group in groups:
        out_rate, out_day = await statistic(admin, brokers, "GROUP_GET_NUMS", f"{topic}@{group}")
        if out_rate and not await member_count(admin, group, brokers):
            out_rate = 0.0  # of members that are gone
        if not active or in_day or out_day:
            lag = (await group_progress(admin, group, topic, brokers)).lag
            rows.append((topic, group, lag, in_rate, out_rate, in_day, out_day))
    if not groups and (in_day or not active):
        rows.append((topic, None, 0, in_rate, 0.0, in_day, 0))
    return rows
