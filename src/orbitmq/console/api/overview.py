"""The overview of a cluster: brokers, sums, charts, the groups that are furthest behind."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import msgspec

from orbitmq.admin.clusters import BrokerState, with_distances
from orbitmq.admin.progress import GroupSummary
from orbitmq.console.api.endpoint import Call, endpoint
from orbitmq.console.sampling import Sample
from orbitmq.console.security.roles import Role

MOST_GROUPS = 10


class Totals(msgspec.Struct, rename="camel"):
    """Sums over the cluster; null where nothing is known."""

    in_tps: float | None
    out_tps: float | None
    lag: float | None
    dead_letters: float | None
    unflushed_bytes: float | None
    disk_ratio: float | None
    """Of the fullest disk, 0 to 1."""


class Overview(msgspec.Struct, rename="camel"):
    """The last sample of a cluster."""

    at_ms: int
    totals: Totals
    brokers: list[BrokerState]
    groups: list[GroupSummary]
    """Those furthest behind, ten at most."""
    group_count: int
    errors: list[str]


class HistoryQuery(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """Span of time to look back."""

    minutes: int = 60


class HistorySeries(msgspec.Struct, rename="camel"):
    """Charts: a time per point (s since 1970), and the largest value of its span for every series."""

    times: list[float]
    series: dict[str, list[float | None]]


@endpoint("GET", "/api/clusters/{cluster}/overview", Role.VIEWER, rows=("brokers", "groups"))
async def get_overview(call: Call[None, None]) -> Overview:
    """Brokers, sums and the groups furthest behind, of the last sample."""
    return overview_of(await call.cluster.sampler.first())


@endpoint("GET", "/api/clusters/{cluster}/overview/events", Role.VIEWER)
async def follow_overview(call: Call[None, None]) -> AsyncIterator[Overview]:
    """The same as server-sent events, one for every new sample."""
    async for sample in call.cluster.sampler.samples():
        yield overview_of(sample)


@endpoint("GET", "/api/clusters/{cluster}/history", Role.VIEWER)
async def get_history(call: Call[HistoryQuery, None]) -> HistorySeries:
    """Charts of the last minutes, 24 hours at most."""
    times, series = call.cluster.sampler.history.since(time.time() - 60 * call.query.minutes)
    return HistorySeries(times, series)


def overview_of(sample: Sample) -> Overview:
    """A sample as pages show it."""
    lagging = sorted((one for one in sample.groups if one.lag > 0), key=lambda one: -one.lag)
    return Overview(
        sample.at_ms,
        msgspec.convert(sample.values(), Totals),
        with_distances(sample.brokers),
        lagging[:MOST_GROUPS],
        len(sample.groups),
        list(dict.fromkeys(sample.errors)),
    )
