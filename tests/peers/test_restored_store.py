"""A real etcd whose data folder is put back to an older state: groups go on behind their epochs."""

from __future__ import annotations

import asyncio
import shutil
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from orbitmq.broker.role.role import Role
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.requests.controller import ControllerElectMaster
from orbitmq.server.lifecycle.broker_server import BrokerServer
from orbitmq.testing.local_etcd import LocalEtcd
from tests.kit.replication import log_of, until
from tests.needs import need
from tests.peers.test_controller_mode import Group, role, two


class Backup:
    """A copy of etcd's folder, and the way back to it."""

    def __init__(self, folder: Path, etcd: LocalEtcd) -> None:
        self._folder = folder
        self._etcd = etcd

    def take(self) -> None:
        self._etcd.signal(signal.SIGTERM)
        shutil.copytree(self._folder, self._folder.with_name("backup"))
        self._etcd.start()

    def restore(self) -> None:
        self._etcd.signal(signal.SIGKILL)
        self._etcd.wipe()
        shutil.copytree(self._folder.with_name("backup"), self._folder, dirs_exist_ok=True)
        self._etcd.start()


@pytest.fixture
async def stored(tmp_path: Path) -> AsyncIterator[tuple[Group, Backup]]:
    need("etcd")
    with LocalEtcd(tmp_path / "etcd") as etcd:
        group = Group(tmp_path, etcd, "/restored")
        await group.start_controller()
        try:
            yield group, Backup(tmp_path / "etcd", etcd)
        finally:
            await group.close()


async def two_epochs_behind(group: Group, backup: Backup) -> tuple[BrokerServer, BrokerServer]:
    """Since the backup the master has changed at least twice; now 2 is master, and 1 has come back."""
    await two(group)
    await group.stop_controller()
    backup.take()
    await group.start_controller()
    await group.until_in_sync(1, 2)
    assert group.controller is not None
    behind = group.controller.controller.groups.need("broker-a").master_epoch
    while True:
        await until(lambda: any(map(is_followed, group.brokers.values())))
        (found,) = (name for name, broker in group.brokers.items() if is_followed(broker))
        if found == "two" and group.brokers[found].broker.role.epoch >= behind + 2:
            break
        other = group.brokers["one" if found == "two" else "two"]
        await group.stop(found)
        await until(lambda other=other: role(other) is Role.MASTER)  # type: ignore[misc]
        await group.start(found)
    await group.stop_controller()
    backup.restore()
    return group.brokers["one"], group.brokers["two"]


def is_followed(server: BrokerServer) -> bool:
    """True for a master whose slave is connected, and may be elected: a set of before says nothing."""
    in_sync = server.controller_mode.machine.in_sync
    return (
        role(server) is Role.MASTER
        and (in_sync.ids, in_sync.asked) == ({1, 2}, None)
        and in_sync.others <= {link.broker_id for link in server.broker.promise.links.all}
    )


async def test_a_group_goes_on_behind_the_epochs_that_its_members_have_had(
    stored: tuple[Group, Backup],
) -> None:
    group, backup = stored
    first, second = await two_epochs_behind(group, backup)
    known = max(first.broker.epochs.last, second.broker.epochs.last)
    await group.start_controller()
    async with asyncio.timeout(60):
        while True:
            masters = [one for one in (first, second) if role(one) is Role.MASTER]
            if masters and masters[0].broker.role.epoch > known:
                break
            await asyncio.sleep(0.02)
    assert (await group.send(masters[0], b"of the restored group")).code == ResponseCode.SUCCESS
    await group.until_in_sync(1, 2)
    await until(lambda: log_of(first) == log_of(second))


async def test_a_member_that_is_away_may_have_more_so_nobody_is_master_without_an_operators_word(
    stored: tuple[Group, Backup],
) -> None:
    group, backup = stored
    first, second = await two_epochs_behind(group, backup)
    before = max(first.broker.epochs.last, second.broker.epochs.last)
    await group.stop("one")
    await group.start_controller()
    assert group.controller is not None
    groups = group.controller.controller.groups

    def is_restored() -> bool:
        found = groups.get("broker-a")
        return found is not None and found.is_restored

    await until(is_restored)
    await until(lambda: role(second) is not Role.MASTER)
    assert groups.unheard(groups.need("broker-a")) == [1]
    await group.pool.call(
        group.controller.address, ControllerElectMaster("DefaultCluster", "broker-a", 2, True)
    )
    await until(lambda: role(second) is Role.MASTER)
    assert second.broker.role.epoch > before
