"""Clusters and the state of their brokers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from orbitmq.admin.admin import Admin, BrokerAt
from orbitmq.admin.output import time_text
from orbitmq.net.errors import NetError
from orbitmq.protocol.errors import BrokerRefused, OrbitError
from orbitmq.protocol.requests.admin import GetBrokerRuntimeInfo

Figures = Mapping[str, str]


async def cluster_figures(
    admin: Admin, cluster: str | None = None, broker: str | None = None
) -> list[tuple[BrokerAt, Figures | OrbitError]]:
    """Every broker with its figures, by Apache's names; or with the error that there are none for."""

    async def ask(one: BrokerAt) -> tuple[BrokerAt, Figures | OrbitError]:
        try:
            return one, (await admin.call(one.address, GetBrokerRuntimeInfo())).body.table
        except (NetError, BrokerRefused) as error:
            return one, error

    return await admin.each(await admin.brokers(cluster, broker), ask)


def why_not(figures: Sequence[tuple[BrokerAt, Figures | OrbitError]]) -> str:
    """A line for each broker that gave no figures."""
    return "\n".join(f"{one.name}: {info}" for one, info in figures if isinstance(info, OrbitError))


BLIND_SINCE = "orbitmqBlindSince"
"""Figure of a master that no controller answers: since when, in ms."""


@dataclass(frozen=True, slots=True)
class BrokerState:
    """One broker with its rates; the figures are None where it gave none."""

    at: BrokerAt
    state: str
    """`active`, `standby`, `blind` (a master without a controller that answers), `down` (no answer) or
    `refusing` (an error for an answer).
    """
    error: str | None = None
    version: str | None = None
    in_tps: float | None = None
    out_tps: float | None = None
    in_today: int | None = None
    out_today: int | None = None
    disk_ratio: float | None = None
    unflushed_bytes: int | None = None
    """Acknowledged bytes that are not on the disk; None from brokers that do not report it."""
    unflushed_seconds: float | None = None
    """Age of the oldest of them."""
    log_end: int | None = None
    """Physical offset at which the commit log ends."""
    behind_bytes: int | None = None
    """Bytes by which a slave's log is behind its master's: see `with_distances`."""


def version_of(info: Figures) -> str | None:
    """The version of a broker: of OrbitMQ's its own, with that of Apache's protocol behind it."""
    own, protocol = info.get("orbitmqVersion"), info.get("brokerVersionDesc")
    return f"OrbitMQ {own} ({protocol})" if own else protocol


def broker_state(one: BrokerAt, info: Figures | OrbitError) -> BrokerState:
    """The state of a broker from its runtime info, or from the error in place of it."""
    if isinstance(info, OrbitError):
        return BrokerState(one, "down" if isinstance(info, NetError) else "refusing", str(info))
    waited_ms = whole(info, "unflushedTimeMillis")
    # Brokers before 5.0 do not say it: they are masters that work, or slaves.
    state = "standby" if info.get("brokerActive") == "false" else "active"
    blind_ms = whole(info, BLIND_SINCE)
    error = None if blind_ms is None else f"no controller answers it since {time_text(blind_ms)}"
    return BrokerState(
        one,
        state if blind_ms is None else "blind",
        error,
        version_of(info),
        first_rate(info.get("putTps")),
        first_rate(info.get("getTransferredTps")),
        _since(info, "msgPutTotal"),
        _since(info, "msgGetTotal"),
        _number(info.get("commitLogDiskRatio")),
        whole(info, "unflushedBytes"),
        None if waited_ms is None else waited_ms / 1000,
        whole(info, "commitLogMaxOffset"),
    )


async def broker_states(
    admin: Admin, cluster: str | None = None, broker: str | None = None
) -> list[BrokerState]:
    """Every broker with its rates, or with the reason that there are none."""
    return [broker_state(one, info) for one, info in await cluster_figures(admin, cluster, broker)]


def with_distances(states: Sequence[BrokerState]) -> list[BrokerState]:
    """The same states, in which slaves know how far they are behind."""
    ends = {
        (one.at.cluster, one.at.name): one.log_end
        for one in states
        if one.at.is_master and one.log_end is not None
    }

    def told(one: BrokerState) -> BrokerState:
        end = ends.get((one.at.cluster, one.at.name))
        if one.at.is_master or end is None or one.log_end is None:
            return one
        return replace(one, behind_bytes=max(0, end - one.log_end))

    return [told(one) for one in states]


def whole(info: Figures | OrbitError, name: str) -> int | None:
    """A number of the runtime info, or None where there is none."""
    text = "" if isinstance(info, OrbitError) else info.get(name, "")
    return int(text) if text.isdigit() else None


def first_rate(text: str | None) -> float:
    """The rate over the last 10 s, of three in a text."""
    return _number((text or "").partition(" ")[0])


def _number(text: str | None) -> float:
    try:
        return float(text or 0)
    except ValueError:
        return 0.0


def _since(info: Figures, name: str) -> int:
    return int(_number(info.get(f"{name}TodayNow")) - _number(info.get(f"{name}TodayMorning")))
