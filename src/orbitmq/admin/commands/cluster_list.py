"""`orbitmq admin cluster list`: every broker with its rates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orbitmq.admin.admin import Admin, BrokerAt
from orbitmq.admin.command import cluster_flags, command
from orbitmq.admin.output import Column, Rows
from orbitmq.net.errors import NetError
from orbitmq.protocol.errors import BrokerRefused, OrbitError
from orbitmq.protocol.requests.admin import GetBrokerRuntimeInfo

Figures = Mapping[str, str]


async def cluster_figures(
    admin: Admin, cluster: str | None = None, broker: str | None = None
) -> list[tuple[BrokerAt, Figures | OrbitError]]:
    """The runtime info of every broker, or why there is none."""

    async def ask(one: BrokerAt) -> tuple[BrokerAt, Figures | OrbitError]:
        try:
            return one, (await admin.call(one.address, GetBrokerRuntimeInfo())).body.table
        except (NetError, BrokerRefused) as error:
            return one, error

    return await admin.each(await admin.brokers(cluster, broker), ask)


@command("cluster", "list", "orbitmq admin cluster list\norbitmq admin cluster list --json")
@cluster_flags
async def show(admin: Admin, cluster: str | None, broker: str | None) -> Rows:
    """All brokers with their version, rates and disk use.

    A broker that does not answer is `down`. A broker that answers but refuses its metrics is `refusing`.
    """
    figures = await cluster_figures(admin, cluster, broker)
    return Rows(
        (
            Column("cluster", "Cluster"),
            Column("broker", "Broker"),
            Column("brokerId", "Id"),
            Column("address", "Address"),
            Column("version", "Version"),
            Column("state", "State"),
            Column("inTps", "In/s"),
            Column("outTps", "Out/s"),
            Column("inToday", "In today"),
            Column("outToday", "Out today"),
            Column("diskRatio", "Disk"),
        ),
        [
            (
                one.cluster,
                one.name,
                one.broker_id,
                one.address,
                found.version,
                found.state,
                found.in_tps,
                found.out_tps,
                found.in_today,
                found.out_today,
                found.disk_ratio,
            )
            for one, found in ((one, broker_state(one, info)) for one, info in figures)
        ],
        why_not(figures),
    )


def why_not(figures: Sequence[tuple[BrokerAt, Figures | OrbitError]]) -> str:
    """A line for each broker that gave no figures."""
    return "\n".join(f"{one.name}: {info}" for one, info in figures if isinstance(info, OrbitError))


@dataclass(frozen=True, slots=True)
class BrokerState:
    """One broker with its rates; the figures are None where it gave none."""

    at: BrokerAt
    state: str
    """`active`, `standby`, `down` (no answer) or `refusing` (an error for an answer)."""
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
    """Physical offset at which the commit log ends: a slave's distance to its master follows from both."""


def broker_state(one: BrokerAt, info: Figures | OrbitError) -> BrokerState:
    """The state of a broker from its runtime info, or from the error in place of it."""
    if isinstance(info, OrbitError):
        return BrokerState(one, "down" if isinstance(info, NetError) else "refusing", str(info))
    waited_ms = whole(info, "unflushedTimeMillis")
    return BrokerState(
        one,
        # Brokers before 5.0 do not say it: they are masters that work, or slaves.
        "standby" if info.get("brokerActive") == "false" else "active",
        None,
        info.get("brokerVersionDesc"),
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
