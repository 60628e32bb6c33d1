"""Conditions that acknowledgements wait for, by mode and by the slaves that are there."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from orbitmq.broker.options import BrokerSettings
from orbitmq.broker.role.links import Links, SlaveLink
from orbitmq.broker.role.promise import Promise, unkept_options
from orbitmq.broker.role.state import RoleState
from orbitmq.options import RefusedValue
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.replication import encode_report


@dataclass
class Log:
    max_physical: int = 1000
    durable_offset: int = 0


def promise(*slaves: int, log: Log | None = None, **values: object) -> Promise:
    links = Links()
    for reported in slaves:
        link = SlaveLink("s:1", 0)
        link.heard(encode_report(reported), 0, 1000, 0)
        links.add(link)
    settings = BrokerSettings(**{"broker_role": "SYNC_MASTER", **values})  # type: ignore[arg-type]
    return Promise(settings, log or Log(), links, RoleState(settings))


@pytest.mark.parametrize(
    ("values", "waits", "timeout"),
    [
        ({"broker_role": "ASYNC_MASTER", "in_sync_replicas": 2}, False, 5000),
        ({"broker_role": "ASYNC_MASTER", "flush_disk_type": "SYNC_FLUSH"}, True, 5000),
        ({}, False, 5000),
        ({"in_sync_replicas": 2}, True, 3000),
        ({"in_sync_replicas": 2, "flush_disk_type": "SYNC_FLUSH"}, True, 3000),
    ],
)
def test_four_settings_of_one_thing(values: dict[str, object], waits: bool, timeout: int) -> None:
    one = promise(**values)
    assert (one.waits, one.timeout_ms()) == (waits, timeout)


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({}, []),
        ({"broker_role": "ASYNC_MASTER", "in_sync_replicas": 2}, ["inSyncReplicas=2"]),
        ({"broker_role": "ASYNC_MASTER", "min_in_sync_replicas": 2}, ["minInSyncReplicas=2"]),
        ({"broker_role": "SYNC_MASTER", "min_in_sync_replicas": 2}, ["minInSyncReplicas=2"]),
        (
            {"broker_role": "SYNC_MASTER", "min_in_sync_replicas": 2, "enable_auto_in_sync_replicas": True},
            [],
        ),
        ({"broker_role": "SYNC_MASTER", "in_sync_replicas": 2}, []),
        ({"broker_role": "SLAVE", "in_sync_replicas": 2}, []),
        ({"enable_controller_mode": True, "in_sync_replicas": 2}, []),
    ],
)
def test_copies_that_no_option_asks_slaves_for_are_told(values: dict[str, object], named: list[str]) -> None:
    lines = list(unkept_options(BrokerSettings(**values)))  # type: ignore[arg-type]
    assert [line.partition(" ")[0] for line in lines] == named


@pytest.mark.parametrize(("needed", "reached"), [(1, None), (2, 900), (3, 400), (4, -1)])
def test_as_many_brokers_as_asked_for_have_to_hold_it_the_master_among_them(
    needed: int, reached: int | None
) -> None:
    assert promise(400, 900, in_sync_replicas=needed).replicated == reached


def test_late_answers_say_what_was_late() -> None:
    assert promise(in_sync_replicas=2).late_code(1000) is ResponseCode.SLAVE_NOT_AVAILABLE
    assert promise(900, in_sync_replicas=2).late_code(1000) is ResponseCode.FLUSH_SLAVE_TIMEOUT
    disk = promise(1000, in_sync_replicas=2, flush_disk_type="SYNC_FLUSH")
    assert disk.late_code(1000) is ResponseCode.FLUSH_DISK_TIMEOUT
    both = promise(900, in_sync_replicas=2, flush_disk_type="SYNC_FLUSH")
    assert both.late_code(1000) is ResponseCode.FLUSH_SLAVE_TIMEOUT


def test_the_number_follows_those_that_are_in_sync_but_not_below_the_least() -> None:
    auto = {"enable_auto_in_sync_replicas": True, "in_sync_replicas": 3, "ha_max_gap_not_in_sync": 200}
    assert promise(1000, 900, **auto).needed_replicas == 3
    assert promise(1000, 500, **auto).needed_replicas == 2
    assert promise(**auto).needed_replicas == 1
    assert not promise(**auto).lacks_replicas
    least = {**auto, "min_in_sync_replicas": 2}
    assert promise(**least).lacks_replicas
    assert not promise(900, **least).lacks_replicas
    assert not promise(**{**least, "enable_auto_in_sync_replicas": False}).lacks_replicas


def test_fewer_copies_than_asked_for_take_nothing_where_members_watch_each_other() -> None:
    acting = {"enable_slave_acting_master": True, "in_sync_replicas": 2, "ha_max_gap_not_in_sync": 200}
    assert promise(**acting).lacks_replicas
    assert promise(500, **acting).lacks_replicas, "it lacks too much to be in sync"
    assert not promise(900, **acting).lacks_replicas
    assert not promise(**{**acting, "enable_auto_in_sync_replicas": True}).lacks_replicas
    assert not promise(**{**acting, "enable_slave_acting_master": False}).lacks_replicas


@pytest.mark.parametrize(("role", "broker_id"), [("SLAVE", 0), ("ASYNC_MASTER", 1), ("SYNC_MASTER", 2)])
def test_role_and_id_go_together(role: str, broker_id: int) -> None:
    with pytest.raises(RefusedValue, match="slave"):
        BrokerSettings(broker_role=role, broker_id=broker_id).complete()
