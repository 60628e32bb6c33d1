"""Brokers whose roles a controller decides, with a real controller and etcd: elections, returns, leases."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from unittest.mock import AsyncMock

import pytest

from orbitmq.broker.options import BROKER_TABLE
from orbitmq.broker.role.in_sync import Lease
from orbitmq.broker.role.role import Role
from orbitmq.controller.options import ControllerSettings
from orbitmq.net.errors import NetError
from orbitmq.net.pool import ConnectionPool
from orbitmq.options import Layer, RefusedValue
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import BrokerRefused, ControllerNotLeader, OrbitError
from orbitmq.protocol.requests.controller import ControllerElectMaster, ControllerGetReplicaInfo
from orbitmq.protocol.requests.ha import ExchangeBrokerHaInfo, GetBrokerEpochCache, NotifyBrokerRoleChanged
from orbitmq.protocol.requests.send import SendMessage, SendReply
from orbitmq.protocol.requests.topic import UpdateAndCreateTopic
from orbitmq.server.controller.server import ControllerServer
from orbitmq.server.controller.stores import open_store
from orbitmq.server.errors import StartError
from orbitmq.server.lifecycle.broker_server import BrokerServer
from orbitmq.server.turn.listener import free_ports
from orbitmq.testing.local_broker import SMALL_SEGMENTS
from orbitmq.testing.local_etcd import LocalEtcd
from tests.kit.replication import log_of, until
from tests.needs import need

TIMEOUT_MS = 1_500


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalEtcd]:
    need("etcd")
    with LocalEtcd(tmp_path_factory.mktemp("etcd")) as running:
        yield running


class Group:
    """A controller, and the brokers of one group in this process."""

    def __init__(self, folder: Path, etcd: LocalEtcd, prefix: str) -> None:
        self._folder = folder
        self.settings = ControllerSettings(
            store_address=etcd.address,
            store_prefix=prefix,
            store_lease_seconds=2,
            scan_not_active_broker_interval=50,
        )
        self._port = 0
        self.controller: ControllerServer | None = None
        self.brokers: dict[str, BrokerServer] = {}
        self.pool = ConnectionPool()
        self._ports: dict[str, int] = {}

    async def start_controller(self) -> None:
        self._port = self._port or free_ports()
        server = ControllerServer(self.settings, open_store(self.settings), port=self._port)
        await server.start()
        self.controller = server

    async def stop_controller(self) -> None:
        assert self.controller is not None
        await self.controller.stop()
        self.controller = None

    async def start(self, name: str, **options: object) -> BrokerServer:
        values = {
            "enableControllerMode": True,
            "controllerAddr": f"127.0.0.1:{self._port}",
            "allAckInSyncStateSet": True,
            "brokerRole": "SYNC_MASTER",
            "controllerHeartBeatTimeoutMills": TIMEOUT_MS,
            "brokerHeartbeatInterval": 100,
            "checkSyncStateSetPeriod": 100,
            "syncControllerMetadataPeriod": 500,
            "haSendHeartbeatInterval": 100,
            "listenPort": self._ports.setdefault(name, free_ports(-2, 1)),
            "storePathRootDir": str(self._folder / name),
            # A busy machine is no reason to refuse a test's messages.
            "osPageCacheBusyTimeOutMills": 600_000,
            "waitTimeMillsInSendQueue": 60_000,
            **SMALL_SEGMENTS,
            **options,
        }
        server = BrokerServer(BROKER_TABLE.load([Layer("the test", values)]))
        await server.start()
        self.brokers[name] = server
        return server

    async def stop(self, name: str) -> None:
        await self.brokers.pop(name).stop()

    async def close(self) -> None:
        await self.pool.close()
        for name in list(self.brokers):
            await self.stop(name)
        if self.controller is not None:
            await self.stop_controller()

    async def send(self, server: BrokerServer, body: bytes) -> SendReply:
        return await self.pool.call(
            server.address, SendMessage("P", "T", "TBW102", 4, 0, 0, 1, 0, "", body=body), 60_000
        )

    async def members(self) -> set[int]:
        assert self.controller is not None
        try:
            reply = await self.pool.call(self.controller.address, ControllerGetReplicaInfo("broker-a"))
        except ControllerNotLeader:
            return set()
        return set() if reply.body is None else set(reply.body.sync_state_set or ())

    async def until_in_sync(self, *ids: int) -> None:
        while await self.members() != set(ids):  # noqa: ASYNC110 (controllers tell brokers only)
            await asyncio.sleep(0.02)


def role(server: BrokerServer) -> Role:
    return server.broker.role.current


@pytest.fixture
async def group(etcd: LocalEtcd, tmp_path: Path) -> AsyncIterator[Group]:
    made = Group(tmp_path, etcd, f"/{tmp_path.name}")
    await made.start_controller()
    try:
        yield made
    finally:
        await made.close()


async def two(group: Group, **options: object) -> tuple[BrokerServer, BrokerServer]:
    first = await group.start("one", **options)
    await until(lambda: role(first) is Role.MASTER)
    second = await group.start("two", **options)
    await group.until_in_sync(1, 2)
    return first, second


async def test_the_first_broker_is_master_and_the_second_is_in_sync(group: Group, tmp_path: Path) -> None:
    first, second = await two(group)
    reply = await group.send(first, b"one")
    assert reply.code == ResponseCode.SUCCESS
    assert second.store.max_physical == first.store.max_physical, "acknowledged once both have it"
    assert log_of(first) == log_of(second)
    await until(lambda: second.store.confirm_offset == first.store.max_physical)
    assert (tmp_path / "one" / "brokerIdentity").read_text() == "DefaultCluster#broker-a#1"
    assert (tmp_path / "two" / "brokerIdentity").read_text() == "DefaultCluster#broker-a#2"
    assert not (tmp_path / "two" / "brokerIdentity-temp").exists()
    cache = (await group.pool.call(first.address, GetBrokerEpochCache())).body
    assert [(entry.epoch, entry.start_offset) for entry in cache.epoch_list] == [(1, 0)]
    with pytest.raises(BrokerRefused):
        await group.send(second, b"a slave takes nothing")


async def test_a_change_is_answered_once_the_slave_that_may_be_the_next_master_has_it(group: Group) -> None:
    first, second = await two(group, syncBrokerMetadataPeriod=3_600_000)

    async def make(topic: str) -> None:
        request = UpdateAndCreateTopic(topic, "TBW102", 4, 4, 6, "SINGLE_TAG", False)
        await group.pool.call(first.address, request, 30_000)

    # Behind the first two the slave has told the master how far it is.
    for topic in ("one", "two"):
        await make(topic)
        await until(lambda topic=topic: second.broker.topics.get(topic) is not None)  # type: ignore[misc]
    for topic in ("three", "four"):
        await make(topic)
        assert second.broker.topics.get(topic) is not None
    await group.send(first, b"makes its topic")
    assert second.broker.topics.get("T") is not None


async def test_a_master_that_is_gone_is_replaced_and_comes_back_as_slave(
    group: Group, tmp_path: Path
) -> None:
    first, second = await two(group)
    for n in range(5):
        await group.send(first, b"before %d" % n)
    await group.stop("one")
    await until(lambda: role(second) is Role.MASTER)
    for n in range(5):
        assert (await group.send(second, b"behind %d" % n)).code == ResponseCode.SUCCESS
    back = await group.start("one")
    await group.until_in_sync(1, 2)
    assert role(back) is Role.SLAVE
    await until(lambda: back.store.max_physical == second.store.max_physical)
    assert log_of(back) == log_of(second)
    files = [(tmp_path / name / "epochFileCheckpoint").read_text() for name in ("one", "two")]
    assert files[0] == files[1]


async def test_a_master_that_only_lost_its_connection_to_the_controller_is_not_replaced(
    group: Group,
) -> None:
    first, _ = await two(group)
    assert group.controller is not None
    live = group.controller.controller.live

    def connection() -> int:
        broker = live.get(("broker-a", 1))
        return 0 if broker is None else broker.connection_id

    before = connection()
    group.controller.turns.close_connection(before, "the test")
    await until(lambda: connection() not in (0, before))
    assert (await group.send(first, b"still here")).code == ResponseCode.SUCCESS
    cache = (await group.pool.call(first.address, GetBrokerEpochCache())).body
    assert [entry.epoch for entry in cache.epoch_list] == [1]


async def test_an_operator_moves_the_master_and_nothing_acknowledged_is_lost(group: Group) -> None:
    first, second = await two(group)
    acknowledged: list[bytes] = []

    async def keep_sending() -> None:
        n = 0
        while True:
            n += 1
            for server in (first, second):
                with contextlib.suppress(OrbitError):
                    body = b"message %d" % n
                    if (await group.send(server, body)).code == ResponseCode.SUCCESS:
                        acknowledged.append(body)
            await asyncio.sleep(0)

    sending = asyncio.create_task(keep_sending())
    await until(lambda: len(acknowledged) > 20)
    assert group.controller is not None
    await group.pool.call(
        group.controller.address, ControllerElectMaster("DefaultCluster", "broker-a", 2, True)
    )
    await until(lambda: role(second) is Role.MASTER and role(first) is Role.SLAVE)
    seen = len(acknowledged)
    await until(lambda: len(acknowledged) > seen + 20)
    sending.cancel()
    await group.until_in_sync(1, 2)
    log = log_of(second)
    assert [body for body in acknowledged if body not in log] == []
    await until(lambda: log_of(first) == log_of(second))


async def test_whom_an_operator_elects_begins_once_the_master_before_has_stopped(group: Group) -> None:
    """That one has a lease, and does not hear of the election: it is cut off from the controller."""
    first, second = await two(group)
    assert group.controller is not None
    mode = first.controller_mode
    mode._controllers.call = AsyncMock(side_effect=NetError("cut off"))  # type: ignore[method-assign]
    mode._controllers.beat = AsyncMock(side_effect=NetError("cut off"))  # type: ignore[method-assign]
    mode.wake = lambda: None  # type: ignore[method-assign]
    await group.pool.call(
        group.controller.address, ControllerElectMaster("DefaultCluster", "broker-a", 2, True)
    )
    while role(second) is not Role.MASTER:  # noqa: ASYNC110 - looks in each turn of the loop
        await asyncio.sleep(0)
    assert not (role(first) is Role.MASTER and mode.may_answer)
    assert not mode.machine.lease.holds(mode._now())
    assert second.broker.role.epoch == 2


async def test_a_log_that_went_another_way_is_cut_to_what_both_have(group: Group) -> None:
    first, second = await two(group)
    await group.send(first, b"both have it")
    await group.stop("two")
    await group.until_in_sync(1)
    await group.send(first, b"acknowledged by the only member")
    await group.stop("one")
    # The one that is behind may not be master, for it is not in sync.
    second = await group.start("two")
    await asyncio.sleep(1)
    assert role(second) is not Role.MASTER
    first = await group.start("one")
    await group.until_in_sync(1, 2)
    assert log_of(first) == log_of(second)
    assert b"acknowledged by the only member" in log_of(second)


def deafen(slave: BrokerServer) -> asyncio.Transport:
    """Has the slave hear nothing more of its master, which does not learn of it; `resume_reading` ends it."""
    assert slave.replication.client is not None
    connection = slave.replication.client._connection
    assert connection is not None
    assert connection._transport is not None
    connection._transport.pause_reading()
    return connection._transport


async def test_bytes_that_were_never_confirmed_are_cut_off_a_master_before(group: Group) -> None:
    first, second = await two(group)
    await group.send(first, b"confirmed")
    deafen(second)
    lonely = asyncio.create_task(group.send(first, b"nobody else has it"))
    await until(lambda: first.store.max_physical > second.store.max_physical)
    assert group.controller is not None
    await group.pool.call(
        group.controller.address, ControllerElectMaster("DefaultCluster", "broker-a", 2, True)
    )
    await until(lambda: role(second) is Role.MASTER)
    await group.send(second, b"of the new master")
    with contextlib.suppress(OrbitError):
        assert (await lonely).code != ResponseCode.SUCCESS
    await group.until_in_sync(1, 2)
    await until(lambda: log_of(first) == log_of(second))
    assert b"nobody else has it" not in log_of(first)


async def test_without_a_controller_a_master_stops_acknowledging_until_it_is_back(group: Group) -> None:
    first = await group.start("one")
    await until(lambda: role(first) is Role.MASTER)
    assert (await group.send(first, b"with a lease")).code == ResponseCode.SUCCESS
    await group.stop_controller()
    await until(lambda: role(first) is Role.UNKNOWN)
    with pytest.raises(OrbitError):
        await group.send(first, b"without a lease")
    await group.start_controller()
    await until(lambda: role(first) is Role.MASTER)
    assert (await group.send(first, b"with a lease again")).code == ResponseCode.SUCCESS


async def test_a_blind_master_acknowledges_what_all_members_hold_and_nothing_that_no_log_covers(
    group: Group,
) -> None:
    first, second = await two(group, enableBlindMaster=True)
    await group.send(first, b"with a lease")
    await until(lambda: first.broker.role.able == {2})
    epoch = first.broker.role.epoch
    await group.stop_controller()
    await until(lambda: first.broker.role.blind_since is not None)
    assert (await group.send(first, b"without a lease")).code == ResponseCode.SUCCESS
    assert log_of(first) == log_of(second), "acknowledged once both have it"
    makes = UpdateAndCreateTopic("new", "TBW102", 4, 4, 6, "SINGLE_TAG", False)
    with pytest.raises(BrokerRefused, match="no controller has answered") as refused:
        await group.pool.call(first.address, makes)
    assert refused.value.code == ResponseCode.SERVICE_NOT_AVAILABLE
    first_send = SendMessage("P", "unknown", "TBW102", 4, 0, 0, 1, 0, "", body=b"makes a topic")
    with pytest.raises(BrokerRefused, match="unknown is not made"):
        await group.pool.call(first.address, first_send)
    await group.stop("two")
    await until(lambda: first.broker.promise.lacks_member)
    end = first.store.max_physical
    with pytest.raises(BrokerRefused, match="not connected") as refused:
        await group.send(first, b"2 could be elected without it")
    assert (refused.value.code, first.store.max_physical) == (ResponseCode.SYSTEM_ERROR, end)
    second = await group.start("two", enableBlindMaster=True)
    await until(lambda: not first.broker.promise.lacks_member)
    assert (await group.send(first, b"a slave that began anew follows again")).code == ResponseCode.SUCCESS
    assert log_of(first) == log_of(second)
    await group.stop("two")
    await group.start_controller()
    await until(lambda: first.broker.role.blind_since is None)
    assert (role(first), first.broker.role.epoch) == (Role.MASTER, epoch)
    await group.until_in_sync(1)
    assert (await group.send(first, b"with a lease again")).code == ResponseCode.SUCCESS
    second = await group.start("two", enableBlindMaster=True)
    await group.until_in_sync(1, 2)
    held = log_of(first)
    await group.stop("one")
    await until(lambda: role(second) is Role.MASTER)
    assert log_of(second) == held
    for body in (b"with a lease", b"without a lease", b"with a lease again"):
        assert body in held


async def test_a_blind_master_gives_up_its_role_where_a_controller_names_another(group: Group) -> None:
    first, second = await two(group, enableBlindMaster=True)
    await group.send(first, b"known")
    await until(lambda: first.broker.role.able == {2})
    # The controllers live; this master alone does not reach them.
    mode = first.controller_mode
    reaches = mode._controllers.call, mode._controllers.beat
    away = AsyncMock(side_effect=NetError("cut off"))
    mode._controllers.call = mode._controllers.beat = away  # type: ignore[method-assign]
    await until(lambda: role(second) is Role.MASTER)
    await until(lambda: first.broker.role.blind_since is not None or role(first) is Role.UNKNOWN)
    for _ in range(3):
        with contextlib.suppress(OrbitError):
            assert (await group.send(first, b"2 does not have it")).code != ResponseCode.SUCCESS
    assert (await group.send(second, b"of the new epoch")).code == ResponseCode.SUCCESS
    mode._controllers.call, mode._controllers.beat = reaches  # type: ignore[method-assign]
    await until(lambda: role(first) is Role.SLAVE)
    await group.until_in_sync(1, 2)
    await until(lambda: log_of(first) == log_of(second))
    assert b"of the new epoch" in log_of(first)


async def test_a_master_whose_lease_was_over_goes_on_with_what_members_lack_in_no_epoch_of_before(
    group: Group,
) -> None:
    """It confirmed all of its log when it was master again, and a member that had other bytes there could be
    elected in its place.
    """
    first, second = await two(group)
    await group.send(first, b"confirmed")
    epoch = first.broker.role.epoch
    deafen(second)
    lonely = asyncio.create_task(group.send(first, b"nobody else has it"))
    await until(lambda: first.store.max_physical > second.store.max_physical)
    await group.stop_controller()
    await until(lambda: role(first) is Role.UNKNOWN)
    await group.start_controller()
    await until(lambda: Role.MASTER in (role(first), role(second)))
    assert max(one.broker.role.epoch for one in (first, second)) > epoch
    with contextlib.suppress(OrbitError):
        assert (await lonely).code != ResponseCode.SUCCESS
    await group.until_in_sync(1, 2)
    await until(lambda: log_of(first) == log_of(second))


async def test_an_answer_that_would_leave_behind_the_lease_does_not_leave(group: Group) -> None:
    first = await group.start("one")
    await until(lambda: role(first) is Role.MASTER)
    await group.send(first, b"known")
    # As just after a pause of the process: it is master by what it knows, and its lease is over.
    mode = first.controller_mode
    mode._try = AsyncMock()  # type: ignore[method-assign]
    mode.machine.lease = Lease(0)
    mode._membership.beat = AsyncMock()  # type: ignore[method-assign]
    with pytest.raises(NetError):
        await group.send(first, b"stored, not acknowledged")
    assert b"stored, not acknowledged" in log_of(first)


async def test_a_notice_of_a_stranger_changes_nothing(group: Group) -> None:
    first, second = await two(group)
    await group.pool.call(second.address, NotifyBrokerRoleChanged("127.0.0.1:1", 99, 99, 7))
    await asyncio.sleep(0.3)
    assert (role(first), role(second)) == (Role.MASTER, Role.SLAVE)
    told = await group.pool.call(second.address, ExchangeBrokerHaInfo("127.0.0.1:1", 0, "127.0.0.1:1"))
    assert told.master_ha_address is None
    assert second.broker.role.ha_address == first.identity.ha_address


async def test_with_fewer_members_than_the_least_nothing_is_stored(group: Group) -> None:
    first, _ = await two(group, minInSyncReplicas=2)
    await group.send(first, b"two have it")
    await group.stop("two")
    await group.until_in_sync(1)
    with pytest.raises(BrokerRefused, match="IN_SYNC_REPLICAS_NOT_ENOUGH"):
        await group.send(first, b"one is too few")


async def test_a_slave_that_takes_nothing_leaves_the_set_in_time_and_sends_go_on(group: Group) -> None:
    first, second = await two(group, haMaxTimeSlaveNotCatchup=300)
    transport = deafen(second)
    reply = await group.send(first, b"acknowledged once the set is smaller")
    assert reply.code == ResponseCode.SUCCESS
    assert await group.members() == {1}
    transport.resume_reading()
    await group.until_in_sync(1, 2)


async def test_among_equals_the_smallest_priority_is_elected(group: Group) -> None:
    await two(group)
    third = await group.start("three", brokerElectionPriority=1)
    await group.until_in_sync(1, 2, 3)
    await group.stop("one")
    await until(lambda: role(third) is Role.MASTER)


async def test_slaves_that_have_all_join_no_sooner_than_the_next_look_at_the_set(group: Group) -> None:
    first = await group.start("one", checkSyncStateSetPeriod=3_600_000)
    await until(lambda: role(first) is Role.MASTER)
    await until(lambda: bool(first.controller_mode.machine._set_looked_ms))  # the first look is at once
    second = await group.start("two")
    for n in range(3):
        assert (await group.send(first, b"%d" % n)).code == ResponseCode.SUCCESS
        await until(lambda: second.store.max_physical == first.store.max_physical)
    assert await group.members() == {1}


async def test_without_notices_a_broker_asks_for_the_master_itself(group: Group) -> None:
    group.settings.notify_broker_role_changed = False
    _, second = await two(group, syncControllerMetadataPeriod=200)
    await group.stop("one")
    await until(lambda: role(second) is Role.MASTER)


async def test_files_of_controller_mode_are_where_the_options_say(group: Group, tmp_path: Path) -> None:
    paths = {"storePathBrokerIdentity": tmp_path / "who", "storePathEpochFile": tmp_path / "epochs"}
    first = await group.start("one", **{name: str(path) for name, path in paths.items()})
    await until(lambda: role(first) is Role.MASTER)
    assert (tmp_path / "who").read_text() == "DefaultCluster#broker-a#1"
    assert (tmp_path / "epochs").read_text().endswith("1-0\n")


async def test_a_copied_data_folder_gets_no_role(
    group: Group, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = await group.start("one")
    await until(lambda: role(first) is Role.MASTER)
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "brokerIdentity").write_text((tmp_path / "one" / "brokerIdentity").read_text())
    copy = await group.start("copy")
    await until(lambda: "if this data folder is a copy" in caplog.text)
    assert (role(first), role(copy)) == (Role.MASTER, Role.UNKNOWN)
    assert (await group.send(first, b"as before")).code == ResponseCode.SUCCESS


async def test_the_folder_of_another_broker_is_refused(group: Group, tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "epochFileCheckpoint").write_text("3\n1\n1-0\n")
    with pytest.raises(StartError, match="epochs"):
        await group.start("one")
    (tmp_path / "one" / "epochFileCheckpoint").unlink()
    (tmp_path / "one" / "brokerIdentity").write_text("DefaultCluster#broker-b#1")
    with pytest.raises(StartError, match="broker-b"):
        await group.start("one")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"enableControllerMode": True}, "controllers' addresses"),
        ({"allAckInSyncStateSet": True}, "enableControllerMode"),
        (
            {"enableControllerMode": True, "controllerAddr": "a:1", "enableSlaveActingMaster": True},
            "no slave acts",
        ),
    ],
)
def test_options_that_do_not_go_together_are_refused(options: dict[str, object], says: str) -> None:
    with pytest.raises(RefusedValue, match=says):
        BROKER_TABLE.load([Layer("the test", options)])


async def test_an_unclean_election_says_what_it_cost(group: Group, caplog: pytest.LogCaptureFixture) -> None:
    first, second = await two(group)
    await group.send(first, b"both have it")
    await group.stop("two")
    await group.until_in_sync(1)
    await group.send(first, b"acknowledged by the only member")
    end = first.store.max_physical
    assert group.controller is not None
    live = group.controller.controller.live

    def told_its_end() -> bool:
        heard = live.last(("broker-a", 1))
        return heard is not None and heard.max_offset == end

    await until(told_its_end)
    await group.stop("one")
    group.settings.enable_elect_unclean_master = True
    second = await group.start("two")
    await until(lambda: role(second) is Role.MASTER)
    found = group.controller.controller.groups.get("broker-a")
    assert found is not None
    election = found.elections[-1]
    assert (election.is_unclean, election.lost_bytes) == (True, end - second.store.max_physical)
    assert f"unclean: {election.lost_bytes} bytes lost" in caplog.text
    assert election.without_master_ms > 0
    first = await group.start("one")
    await group.until_in_sync(1, 2)
    await until(lambda: log_of(first) == log_of(second))
    assert b"acknowledged by the only member" not in log_of(first)
    assert "bytes of this log are none of the master's" in caplog.text


async def test_a_group_begins_anew_on_a_new_store_and_goes_on_with_its_epochs(
    group: Group, tmp_path: Path
) -> None:
    first, second = await two(group)
    await group.stop("one")
    await until(lambda: role(second) is Role.MASTER)
    await group.send(second, b"of epoch 2")
    await group.stop("two")
    await group.stop_controller()
    group.settings.store_prefix += "-anew"
    for name in ("one", "two"):
        (tmp_path / name / "brokerIdentity").unlink()
    await group.start_controller()
    second = await group.start("two")
    await until(lambda: role(second) is Role.MASTER)
    assert second.broker.role.epoch == 3
    await group.send(second, b"of the new store")
    first = await group.start("one")
    await group.until_in_sync(1, 2)
    await until(lambda: log_of(first) == log_of(second))
    assert [entry.number for entry in first.broker.epochs.entries] == [1, 2, 3]


async def test_clocks_that_are_set_elect_nobody_and_stop_nobody(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A long lease, so that a slow machine is not taken for a clock that was set.
    first, second = await two(group, controllerHeartBeatTimeoutMills=60_000)
    true_ns = time.time_ns
    for jump_s in (-3_600, 86_400):
        # Not time.time: gRPC makes deadlines of it, which its C part holds to the true clock.
        monkeypatch.setattr(time, "time_ns", lambda jump_s=jump_s: true_ns() + jump_s * 1_000_000_000)
        beats = first.controller_mode.machine.lease
        await until(lambda beats=beats: first.controller_mode.machine.lease != beats)  # type: ignore[misc]
        assert (await group.send(first, b"as before")).code == ResponseCode.SUCCESS
        # The next controller lives by the clock as it was set.
        await group.stop_controller()
        await group.start_controller()
        await group.until_in_sync(1, 2)
        assert (await group.send(first, b"under the next one")).code == ResponseCode.SUCCESS
    assert first.broker.role.epoch == 1
    monkeypatch.undo()
    await group.stop("one")
    await until(lambda: role(second) is Role.MASTER)
