"""Progress of the slaves of broker groups, by the words of their masters and their own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from orbitmq.admin.admin import Admin, BrokerAt
from orbitmq.net.errors import NetError
from orbitmq.protocol.bodies.ha import HAConnectionRuntimeInfo, HARuntimeInfo
from orbitmq.protocol.errors import BrokerRefused, OrbitError
from orbitmq.protocol.requests.ha import GetBrokerHaStatus

MASTER, SLAVE = "master", "slave"


@dataclass(frozen=True, slots=True)
class MemberStatus:
    """One broker of a group; None where a figure is unknown. Offsets and differences are in bytes."""

    at: BrokerAt
    """Its id is -1 for a slave that is connected to the master, and that no name server knows."""
    role: str
    """`master` or `slave`, by its own word; empty without an answer."""
    log_end: int | None = None
    behind_bytes: int | None = None
    """Bytes of the master's log that a slave has not acknowledged."""
    behind_ms: int | None = None
    """Age of the oldest of these bytes; Apache's masters do not say it."""
    in_sync: bool | None = None
    bytes_per_second: int | None = None
    """Bytes that a slave got in the last second."""
    note: str = ""


async def ha_status(admin: Admin, at: BrokerAt) -> HARuntimeInfo | OrbitError:
    """A broker's side of replication, or the error in its place."""
    try:
        return (await admin.call(at.address, GetBrokerHaStatus())).body
    except (NetError, BrokerRefused) as error:
        return error


async def replication_status(
    admin: Admin, cluster: str | None = None, broker: str | None = None
) -> list[MemberStatus]:
    """The members of all groups, of a cluster, or of the group of a broker. Raises NoBroker."""
    found = await admin.brokers(cluster)
    if broker is not None:
        meant = {one.name for one in await admin.brokers(cluster, broker)}
        found = [one for one in found if one.name in meant]
    said = await admin.each(found, lambda at: ha_status(admin, at))
    return [
        row
        for name in sorted({one.name for one in found})
        for row in group_status([pair for pair in zip(found, said, strict=True) if pair[0].name == name])
    ]


def group_status(members: list[tuple[BrokerAt, HARuntimeInfo | OrbitError]]) -> Iterator[MemberStatus]:
    """The members of one group: masters, slaves, members that do not answer, and then other slaves."""
    masters = [(at, info) for at, info in members if isinstance(info, HARuntimeInfo) and info.master]
    slaves = [(at, info) for at, info in members if isinstance(info, HARuntimeInfo) and not info.master]
    for at, info in masters:
        alone = "" if len(masters) == 1 else f"{len(masters)} masters take messages: keep one; "
        connected = len(info.ha_connection_info)
        yield MemberStatus(
            at,
            MASTER,
            info.master_commit_log_max_offset,
            note=f"{alone}{info.in_sync_slave_nums} of {connected} connected slaves in sync",
        )
    end = max((info.master_commit_log_max_offset for _, info in masters), default=None)
    links = [link for _, info in masters for link in info.ha_connection_info]
    for at, info in sorted(slaves, key=lambda one: -one[1].ha_client_runtime_info.max_offset):
        own = info.ha_client_runtime_info
        link = _link_of(at, own.max_offset, links)
        if link is not None:
            links.remove(link)
            yield MemberStatus(
                at, SLAVE, own.max_offset, link.diff, link.diff_millis, link.in_sync,
                link.transferred_byte_in_second, f"follows {own.master_addr}" if own.master_addr else "",
            )  # fmt: skip
            continue
        behind = None if end is None else max(0, end - own.max_offset)
        note = "no master is connected" + (
            f"; its master was at {own.master_addr}" if own.master_addr else ""
        )
        yield MemberStatus(at, SLAVE, own.max_offset, behind, None, False, 0, note)
    for at, error in members:
        if isinstance(error, OrbitError):
            state = "does not answer" if isinstance(error, NetError) else "refuses"
            yield MemberStatus(at, "", note=f"{state}: {error}")
    for link in links:
        at = BrokerAt(members[0][0].cluster, members[0][0].name, -1, link.addr)
        yield MemberStatus(
            at, SLAVE, link.slave_ack_offset, link.diff, link.diff_millis, link.in_sync,
            link.transferred_byte_in_second, "connected, and no name server knows it",
        )  # fmt: skip


def _link_of(at: BrokerAt, end: int, links: list[HAConnectionRuntimeInfo]) -> HAConnectionRuntimeInfo | None:
    """The master's connection to a slave. Its port is any: of those from the slave's host, and else of all,
    the one that has acknowledged nearest to the slave's end. A slave may be known by a name, or by another
    address than that from which it connects.
    """
    host = at.address.rpartition(":")[0]
    from_host = [link for link in links if link.addr.rpartition(":")[0].lstrip("/") == host]
    return min(from_host or links, key=lambda link: abs(link.slave_ack_offset - end), default=None)
