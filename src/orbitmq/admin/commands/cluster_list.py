"""`orbitmq admin cluster list`: every broker with its rates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from orbitmq.admin.admin import Admin, BrokerAt
from orbitmq.admin.face import cluster_flags, face
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


@face("cluster", "list", "orbitmq admin cluster list\norbitmq admin cluster list --json")
@cluster_flags
async def show(admin: Admin, cluster: str | None, broker: str | None) -> Rows:
    """All brokers with their version, rates and disk use.

    A broker that does not answer is `down`; one that answers and does not tell its figures is `refusing`.
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
        [_row(one, info) for one, info in figures],
        why_not(figures),
    )


def why_not(figures: Sequence[tuple[BrokerAt, Figures | OrbitError]]) -> str:
    """A line for each broker that gave no figures."""
    return "\n".join(f"{one.name}: {info}" for one, info in figures if isinstance(info, OrbitError))


def _row(one: BrokerAt, info: Figures | OrbitError) -> tuple[object, ...]:
    who = (one.cluster, one.name, one.broker_id, one.address)
    if isinstance(info, OrbitError):
        state = "down" if isinstance(info, NetError) else "refusing"
        return (*who, None, state, None, None, None, None, None)
    return (
        *who,
        info.get("brokerVersionDesc"),
        "active" if info.get("brokerActive") == "true" else "standby",
        first_rate(info.get("putTps")),
        first_rate(info.get("getTransferredTps")),
        _since(info, "msgPutTotal"),
        _since(info, "msgGetTotal"),
        _number(info.get("commitLogDiskRatio")),
    )


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
