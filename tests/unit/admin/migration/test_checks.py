"""Reasons for which a group cannot be switched now, each found before anything is changed."""

from __future__ import annotations

import pytest

from orbitmq.admin.migration.checks import Check, check_group, target_of
from orbitmq.admin.replication.survey import ORBITMQ, survey_one
from tests.unit.admin.migration.test_switching import Cluster

pytestmark = pytest.mark.timeout(600)


async def checks(cluster: Cluster, subject: str) -> list[Check]:
    """The findings about one subject before a switch to OrbitMQ."""
    async with cluster.serve() as admin:
        rows = await check_group(admin, await survey_one(admin, "broker-a"), ORBITMQ)
    assert {row.group for row in rows} == {"broker-a"}
    return [row for row in rows if row.subject == subject]


async def test_a_group_that_can_be_switched_has_nothing_in_the_way() -> None:
    async with Cluster().serve() as admin:
        rows = await check_group(admin, await survey_one(admin, "broker-a"), ORBITMQ)
    assert "blocked" not in {row.state for row in rows}
    assert [row.state for row in rows if row.subject == "master"] == ["open"]
    assert [row.state for row in rows if row.subject == "slave"] == ["done"]


@pytest.mark.parametrize(
    ("option", "value", "state", "says"),
    [
        ("enableDLegerCommitLog", "true", "blocked", "its log is DLedger's"),
        ("enableControllerMode", "true", "blocked", "a controller elects its master"),
        ("enableSlaveActingMaster", "true", "warning", "enableSlaveActingMaster is set at the master"),
        ("flushDiskType", "NEVER", "warning", "OrbitMQ does not take over flushDiskType=NEVER"),
        ("mappedFileSizeCommitLog", "2048", "blocked", "mappedFileSizeCommitLog is 2048 at the master"),
    ],
)
async def test_options_of_the_master_that_are_in_the_way(
    option: str, value: str, state: str, says: str
) -> None:
    cluster = Cluster()
    cluster.master_options[option] = value
    found = [row for row in await checks(cluster, "options") if says in row.detail]
    assert [row.state for row in found] == [state]


async def test_options_that_are_a_brokers_own_are_not_compared() -> None:
    cluster = Cluster()
    before = await checks(cluster, "options")
    cluster.master_options |= {"listenPort": "x", "brokerIP1": "?", "storePathRootDir": ""}
    assert await checks(cluster, "options") == before


async def test_the_slave_that_lacks_least_becomes_master() -> None:
    cluster = Cluster()
    async with cluster.serve() as admin:
        found = await survey_one(admin, "broker-a")
        target = target_of(found, ORBITMQ)
        assert target is not None
        assert target.at.address == cluster.slave.address
        assert target_of(found, "nobody's make") is None


@pytest.mark.parametrize(
    ("users", "rule", "says"),
    [
        (["ann"], "Topic:T", ""),
        ([], "Topic:T", "the users ann and the rules of User:ann"),
        (["ann"], "Topic:other", "the slave lacks the rules of User:ann"),
    ],
)
async def test_a_slave_without_users_and_rules_of_its_master_is_in_the_way(
    users: list[str], rule: str, says: str
) -> None:
    cluster = Cluster()
    cluster.users["slave"], cluster.rules["slave"] = users, rule
    for options in (cluster.master_options, cluster.slave_options):
        options["authenticationEnabled"] = "true"
    async with cluster.serve() as admin:
        rows = await check_group(admin, await survey_one(admin, "broker-a"), ORBITMQ)
    (row,) = [row for row in rows if row.subject == "users"]
    assert row.state == ("blocked" if says else "done")
    assert says in row.detail


async def test_messages_that_the_slave_lacks_and_a_group_has_not_read_are_in_the_way() -> None:
    cluster = Cluster()
    cluster.begins["slave"], cluster.first_offset = 300, 6
    async with cluster.serve() as admin:
        rows = await check_group(admin, await survey_one(admin, "broker-a"), ORBITMQ)
        blocked = [row for row in rows if row.state == "blocked"]
        assert [row.subject for row in blocked] == ["history"]
        assert "T@G queue 0 (2)" in blocked[0].detail
        cluster.first_offset = 0
    read = Cluster()
    read.begins["slave"], read.first_offset = 300, 4
    async with read.serve() as admin:
        rows = await check_group(admin, await survey_one(admin, "broker-a"), ORBITMQ)
    assert [row.state for row in rows if row.subject == "history"] == ["warning"]
