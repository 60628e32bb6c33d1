"""How far slaves are, from what a master and its slaves say."""

from __future__ import annotations

from orbitmq.admin.admin import BrokerAt
from orbitmq.admin.replication.status import group_status
from orbitmq.net.errors import ConnectFailed
from orbitmq.protocol.bodies.ha import HAClientRuntimeInfo, HAConnectionRuntimeInfo, HARuntimeInfo


def member(broker_id: int, host: str) -> BrokerAt:
    return BrokerAt("c", "g", broker_id, f"{host}:10911")


def slave(end: int, master: str = "10.0.0.1:10912") -> HARuntimeInfo:
    return HARuntimeInfo(ha_client_runtime_info=HAClientRuntimeInfo(master, max_offset=end))


def link(host: str, acknowledged: int, in_sync: bool) -> HAConnectionRuntimeInfo:
    return HAConnectionRuntimeInfo(f"{host}:40123", acknowledged, 900 - acknowledged, in_sync, 7, 0, 250)


def test_each_slave_has_the_figures_of_its_own_connection() -> None:
    links = [link("10.0.0.3", 500, False), link("10.0.0.2", 890, True), link("10.0.0.9", 1, False)]
    rows = list(
        group_status(
            [
                (member(0, "10.0.0.1"), HARuntimeInfo(True, 900, 1, links)),
                (member(1, "10.0.0.2"), slave(895)),
                (member(2, "slave-2"), slave(510)),
                (member(3, "10.0.0.4"), ConnectFailed("10.0.0.4:10911", "no route")),
            ]
        )
    )
    assert [(one.at.broker_id, one.role, one.behind_bytes, one.behind_ms, one.in_sync) for one in rows] == [
        (0, "master", None, None, None),
        (1, "slave", 10, 250, True),
        (2, "slave", 400, 250, False),
        (3, "", None, None, None),
        (-1, "slave", 899, 250, False),
    ]
    assert rows[0].note == "1 of 3 connected slaves in sync"
    assert rows[3].note.startswith("does not answer")


def test_two_masters_are_told_and_a_slave_without_a_master_says_where_that_was() -> None:
    two = [(member(0, host), HARuntimeInfo(True, 900, 0, [])) for host in ("10.0.0.1", "10.0.0.2")]
    assert all("2 masters take messages: keep one" in one.note for one in group_status([*two]))
    [alone] = group_status([(member(1, "10.0.0.2"), slave(700))])
    assert (alone.in_sync, alone.behind_bytes) == (False, None)
    assert alone.note == "no master is connected; its master was at 10.0.0.1:10912"
