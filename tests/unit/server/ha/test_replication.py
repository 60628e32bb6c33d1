"""Master and slave as processes run them: the log, the tables, and what clients are told meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from orbitmq.broker.metrics import samples
from orbitmq.broker.role.links import LogGrowth
from orbitmq.net.pool import ConnectionPool
from orbitmq.protocol.bodies.auth import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo
from orbitmq.protocol.bodies.group import SubscriptionGroupConfig
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import BrokerRefused, PeerBusy
from orbitmq.protocol.remoting.signing import Credentials
from orbitmq.protocol.replication import encode_header, encode_report
from orbitmq.protocol.requests.admin import GetBrokerRuntimeInfo, UpdateBrokerConfig
from orbitmq.protocol.requests.auth import AuthCreateAcl, AuthCreateUser, AuthDeleteUser
from orbitmq.protocol.requests.group import UpdateAndCreateSubscriptiongroup
from orbitmq.protocol.requests.ha import GetBrokerHaStatus
from orbitmq.protocol.requests.offset import UpdateConsumerOffset
from orbitmq.protocol.requests.pop import PopMessage
from orbitmq.protocol.requests.topic import DeleteTopicInBroker
from orbitmq.server.lifecycle import broker_server
from orbitmq.server.lifecycle.broker_server import BrokerServer
from orbitmq.server.turn.listener import free_ports
from tests.kit.replication import Group, group, ha_stream, log_of, pull, slave_of, until
from tests.kit.running_standalone import PatientPool, Running, running


async def test_a_slave_has_the_masters_log_and_tables_within_seconds(tmp_path: Path) -> None:
    async with running(tmp_path / "m") as here:
        await here.send(body=b"before")
        await here.ask(UpdateAndCreateSubscriptiongroup(body=SubscriptionGroupConfig("G", retry_max_times=3)))
        await here.ask(UpdateConsumerOffset("G", "T", 0, 1))
        async with slave_of(here, tmp_path / "s") as slave:
            both = Group(here, slave)
            await until(both.is_level)
            await here.send(body=b"behind")
            await until(both.is_level)
            assert log_of(slave) == log_of(here.broker)
            await until(lambda: slave.broker.offsets.get("G", "T", 0) == 1)
            found = slave.broker.groups.get("G")
            assert found is not None
            assert found.retry_max_times == 3
            assert slave.broker.topics.get("T") == here.broker.broker.topics.get("T")
            assert slave.store.max_offset("T", 0) == 2
            await here.ask(DeleteTopicInBroker("T"))
            await until(lambda: slave.broker.topics.get("T") is None)
            assert slave.store.topics() == here.broker.store.topics()


async def test_slaves_have_what_a_master_stores_while_it_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check points of pops, which it keeps in memory until then."""
    monkeypatch.setattr(broker_server, "LEVEL_SECONDS", 60.0)
    async with group(tmp_path, enablePopBufferMerge=True) as both:
        await both.here.send()
        await both.here.ask(PopMessage("G", "T", -1, 1, 60_000, 0, 0, 1))
        await until(both.is_level)
        before = both.slave.store.max_physical
        await both.here.broker.stop()
        assert both.slave.store.max_physical == both.here.broker.store.max_physical > before


async def test_a_returning_master_gets_the_offsets_that_groups_committed_at_its_slave(tmp_path: Path) -> None:
    before = {"on": 1, "beyond": 1, "back": 3}
    at_slave = {"on": 4, "beyond": 9, "back": 2}
    async with running(tmp_path / "m") as here:
        for number in range(5):
            await here.send(body=b"%d" % number)
        for name, offset in before.items():
            await here.ask(UpdateAndCreateSubscriptiongroup(body=SubscriptionGroupConfig(name)))
            await here.ask(UpdateConsumerOffset(name, "T", 0, offset))
        async with slave_of(here, tmp_path / "s") as slave:
            await until(Group(here, slave).is_level)
            offsets = slave.broker.offsets
            await until(lambda: all(offsets.get(name, "T", 0) == before[name] for name in before))
            await here.broker.stop()
            await until(lambda: not slave.broker.replication.has_master)
            for name, offset in at_slave.items():
                await here.pool.call(
                    slave.broker.identity.address, UpdateConsumerOffset(name, "T", 0, offset)
                )
            again = BrokerServer(here.broker.settings)
            await again.start()
            try:
                await until(lambda: not offsets.for_master)
                assert [again.broker.offsets.get(name, "T", 0) for name in before] == [4, 5, 3]
            finally:
                await again.stop()


async def test_a_slave_has_what_a_user_changes_at_the_master_at_once(tmp_path: Path) -> None:
    # The next look at the tables and the next heartbeat of their own accord are an hour away.
    rare: dict[str, object] = {
        "syncBrokerMetadataPeriod": 3_600_000,
        "haSendHeartbeatInterval": 3_600_000,
        "haHousekeepingInterval": 3_600_000,
    }
    async with group(tmp_path, rare, **rare) as both:
        for name in ("one", "another"):
            await both.here.ask(UpdateAndCreateSubscriptiongroup(body=SubscriptionGroupConfig(name)))
            await until(lambda name=name: both.slave.broker.groups.get(name) is not None)  # type: ignore[misc]
        await both.here.send(body=b"makes the topic")
        await until(lambda: both.slave.broker.topics.get("T") is not None)
        await both.here.ask(DeleteTopicInBroker("T"))
        await until(lambda: both.slave.broker.topics.get("T") is None)


async def test_a_slave_serves_reads_and_refuses_what_would_store(tmp_path: Path) -> None:
    async with group(tmp_path) as both:
        await both.here.send(body=b"one")
        await until(both.is_level)
        await until(lambda: both.slave.broker.topics.get("T") is not None)
        pool = PatientPool()
        try:
            found = await pool.call(both.slave.address, pull(0))
            assert found.body is not None
            assert b"one" in bytes(found.body)
            with pytest.raises(PeerBusy, match="REJECTREQUEST"):
                await Running.send(Elsewhere(pool, both.slave.address))  # type: ignore[arg-type]
            both.slave.settings.slave_read_enable = False
            with pytest.raises(PeerBusy, match="REJECTREQUEST"):
                await pool.call(both.slave.address, pull(0))
        finally:
            await pool.close()
        assert both.is_level()


@dataclass
class Elsewhere:
    """Asks another broker than the test's own."""

    pool: ConnectionPool
    address: str

    async def ask(self, request: object) -> object:
        return await self.pool.call(self.address, request)  # type: ignore[arg-type]


async def test_pulls_that_a_slave_has_nothing_for_go_to_the_master(tmp_path: Path) -> None:
    async with group(tmp_path) as both:
        await both.here.send()
        await until(both.is_level)
        await until(lambda: both.slave.broker.topics.get("T") is not None)
        pool = PatientPool()
        try:
            for offset, check in ((1, False), (9, False), (9, True)):
                both.slave.settings.offset_check_in_slave = check
                answer = await pool.call(both.slave.address, pull(offset))
                assert (int(answer.code), answer.suggest_which_broker_id) == (20, 0)
                assert answer.next_begin_offset == (1 if check else offset)
        finally:
            await pool.close()


async def test_a_sync_master_answers_once_the_slave_has_the_message(tmp_path: Path) -> None:
    given = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": 2, "flushDiskType": "SYNC_FLUSH"}
    async with group(tmp_path, {"flushDiskType": "SYNC_FLUSH"}, **given) as both:
        assert (await both.here.send(body=b"safe")).code == ResponseCode.SUCCESS
        assert b"safe" in log_of(both.slave)
        assert both.slave.store.flushing.unflushed_bytes == 0


async def test_without_its_slave_a_sync_master_says_so_and_shows_nothing_that_it_could_lose(
    tmp_path: Path,
) -> None:
    given = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": 2, "slaveTimeout": 100}
    async with running(tmp_path / "m", **given) as here:
        assert (await here.send(body=b"alone")).code == ResponseCode.SLAVE_NOT_AVAILABLE
        assert here.broker.store.max_offset("T", 0) == 0
        # The unit of the message is in its file before readers see the message.
        here.run_task("write queues", here.now())
        held = asyncio.create_task(here.ask(pull(0, 300_000), 300_000))
        async with slave_of(here, tmp_path / "s") as slave:
            await until(Group(here, slave).is_level)
            found = await held
            assert found.body is not None
            assert b"alone" in bytes(found.body)
            await here.send(body=b"together")
            # A slave that is connected and does not report is late.
            client = slave.replication.client
            assert client is not None
            client.report = lambda: None  # type: ignore[method-assign]
            assert (await here.send(body=b"late")).code == ResponseCode.FLUSH_SLAVE_TIMEOUT


async def test_a_message_that_does_not_wait_and_a_promise_of_one_broker_are_answered_at_once(
    tmp_path: Path,
) -> None:
    given = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": 2, "slaveTimeout": 60_000}
    async with running(tmp_path, **given) as here:
        await here.send(properties="WAIT\x01false\x02")
        assert here.broker.store.max_offset("T", 0) == 0
        await here.ask(UpdateBrokerConfig(body=b"inSyncReplicas=1\n"))
        await here.send()
        assert here.broker.store.max_offset("T", 0) == 2
        await here.ask(UpdateBrokerConfig(body=b"inSyncReplicas=2\nbrokerRole=ASYNC_MASTER\n"))
        await here.send()
        assert here.broker.store.max_offset("T", 0) == 3
        with pytest.raises(BrokerRefused, match="brokerId"):
            await here.ask(UpdateBrokerConfig(body=b"brokerRole=SLAVE\n"))


@pytest.mark.parametrize(
    ("given", "more"),
    [
        (
            {
                "inSyncReplicas": 2,
                "enableAutoInSyncReplicas": True,
                "minInSyncReplicas": 1,
                "haMaxGapNotInSync": 1 << 20,
            },
            b"minInSyncReplicas=2\n",
        ),
        ({"enableSlaveActingMaster": True}, b"inSyncReplicas=2\n"),
    ],
)
async def test_below_the_least_of_brokers_nothing_is_stored(
    tmp_path: Path, given: dict[str, object], more: bytes
) -> None:
    async with running(tmp_path, brokerRole="SYNC_MASTER", **given) as here:
        await here.send()
        end = here.broker.store.max_physical
        await here.ask(UpdateBrokerConfig(body=more))
        with pytest.raises(BrokerRefused, match="IN_SYNC_REPLICAS_NOT_ENOUGH") as refused:
            await here.send()
        assert refused.value.code == ResponseCode.SYSTEM_ERROR
        assert here.broker.store.max_physical == end


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("brokerClusterName", "Elsewhere"),
        ("brokerName", "broker-z"),
        ("mappedFileSizeCommitLog", 3 << 20),
    ],
)
async def test_a_slave_of_another_group_or_with_other_segments_follows_nothing_and_says_why(
    tmp_path: Path, name: str, value: object
) -> None:
    async with running(tmp_path / "m") as here:
        await here.send()
        async with slave_of(here, tmp_path / "s", **{name: value}) as slave:
            # The name servers tell a broker of another group of no master.
            settings = here.broker.settings
            address = f"{settings.bind_address}:{settings.listen_port}"
            slave.broker.role.note_master(address, f"{settings.bind_address}:{settings.listen_port + 1}")
            await until(lambda: f"{name} is " in slave.broker.replication.refusal)
            assert f"and {value} here" in slave.broker.replication.refusal
            assert slave.store.max_physical == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("brokerClusterName", "Elsewhere"),
        ("brokerName", "broker-z"),
        ("mappedFileSizeCommitLog", 3 << 20),
    ],
)
async def test_a_slave_that_a_person_sends_to_a_foreign_master_follows_nothing_and_says_why(
    tmp_path: Path, name: str, value: object
) -> None:
    """Until name servers had told it of a master, it followed whatever haMasterAddress named."""
    async with running(tmp_path / "m") as here:
        await here.send()
        settings = here.broker.settings
        address = f"{settings.bind_address}:{settings.listen_port + 1}"
        async with slave_of(here, tmp_path / "s", haMasterAddress=address, **{name: value}) as slave:
            await until(lambda: f"{name} is " in slave.broker.replication.refusal)
            assert f"and {value} here" in slave.broker.replication.refusal
            assert slave.store.max_physical == 0


def ha_address_of(master: Running) -> str:
    return f"{master.broker.settings.bind_address}:{master.broker.settings.ha_listen_port}"


async def test_the_log_of_a_foreign_master_with_a_port_of_its_own_is_found_out_once_it_is_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody tells the group behind that port, but the group's own master has another log."""
    async with (
        running(tmp_path / "m") as here,
        running(tmp_path / "f", haListenPort=free_ports()) as foreign,
    ):
        await here.send(body=b"ours")
        await foreign.send(body=b"theirs")
        async with slave_of(here, tmp_path / "s", haMasterAddress=ha_address_of(foreign)) as slave:
            await until(lambda: "has another record at 0" in slave.broker.replication.refusal)
            assert "empty store" in slave.broker.replication.refusal
    assert f"that {ha_address_of(foreign)} is its port for slaves" in caplog.text


async def test_a_foreign_log_is_found_out_though_the_own_master_is_named_long_after_it_is_there(
    tmp_path: Path,
) -> None:
    # Nothing but its own looks has the slave report, and the connection stays.
    rare: dict[str, object] = {"haSendHeartbeatInterval": 3_600_000, "haHousekeepingInterval": 3_600_000}
    async with (
        running(tmp_path / "m") as here,
        running(tmp_path / "f", haListenPort=free_ports(), **rare) as foreign,
    ):
        await here.send(body=b"ours")
        await foreign.send(body=b"theirs")
        nobody = f"127.0.0.1:{free_ports()}"
        given = {**rare, "haMasterAddress": ha_address_of(foreign), "namesrvAddr": nobody}
        async with slave_of(here, tmp_path / "s", **given) as slave:
            await until(Group(foreign, slave).is_level)
            client, looks = slave.replication.client, 0
            assert client is not None
            report = client.report

            def counted() -> None:
                nonlocal looks
                looks += 1
                report()

            client.report = counted  # type: ignore[method-assign]
            await until(lambda: looks == 2)
            settings = here.broker.settings
            own = f"{settings.bind_address}:{settings.listen_port}"
            slave.broker.role.note_master(own, f"{settings.bind_address}:{settings.listen_port + 1}")
            await until(lambda: "has another record at 0" in slave.broker.replication.refusal)


async def test_a_slave_whose_master_cannot_be_checked_warns_of_it_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path / "m", haListenPort=free_ports()) as here:
        await here.send()
        given = {"brokerName": "broker-z", "haMasterAddress": ha_address_of(here)}
        async with slave_of(here, tmp_path / "s", **given) as slave:
            await until(Group(here, slave).is_level)
            assert here.broker.replication.server is not None
            here.broker.replication.server.connections[0].end("")
            await here.send()
            await until(Group(here, slave).is_level)
    warnings = [
        one.getMessage() for one in caplog.records if "port for slaves (haListenPort)" in one.getMessage()
    ]
    assert len(warnings) == 1
    assert "no known broker of the group broker-z" in warnings[0]
    assert ha_address_of(here) in warnings[0]


async def test_a_slave_that_was_away_for_longer_than_the_master_keeps_its_log_says_so(
    tmp_path: Path,
) -> None:
    small: dict[str, object] = {"mappedFileSizeCommitLog": 1 << 20}
    async with group(tmp_path, small, **small) as both:
        await both.here.send()
        await until(both.is_level)
    async with running(tmp_path / "m", **small) as here:
        store = here.broker.store
        while store.max_physical < 2 << 20:
            # Refused where the disk has not made room for it yet.
            with contextlib.suppress(PeerBusy):
                await here.send(body=bytes(300_000))
        store.retention.ask()
        here.run_task("retention", int(time.time() * 1000) + 30 * 24 * 3600_000)
        assert store.min_physical > 0
        async with slave_of(here, tmp_path / "s", **small) as slave:
            await until(lambda: "what lies between is gone" in slave.broker.replication.refusal)
            assert "empty store" in slave.broker.replication.refusal
            assert b"body" in log_of(slave)


OWN = '{"accessKey":"inner","secretKey":"inner-secret"}'
GUARDED = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "innerClientAuthenticationCredentials": OWN,
}


async def test_users_and_rules_follow_to_a_slave_that_signs_as_the_broker(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    inner = Credentials("inner", "inner-secret")
    async with (
        running(tmp_path / "m", credentials=inner, **GUARDED) as here,
        slave_of(here, tmp_path / "s", **GUARDED) as slave,
    ):
        auth = slave.broker.auth
        await here.ask(AuthCreateUser("ann", UserInfo(password="ann-secret")))
        entry = PolicyEntryInfo("Topic:T", ["Sub", "Get"], ["127.0.0.1"], "Allow")
        rules = AclInfo("User:ann", [PolicyInfo("Custom", [entry])])
        await here.ask(AuthCreateAcl("User:ann", body=rules))
        master = here.broker.broker.auth
        await until(lambda: auth.acls() == master.acls() and auth.users() == master.users())
        assert auth.user("ann").password == "ann-secret"  # type: ignore[union-attr]
        await until(lambda: (tmp_path / "s/config/auth.json").exists())
        # Nothing is written where nothing has changed.
        changes = auth.changes
        here.broker.broker.offsets.store("G", "T", 0, 1, 0)
        await until(lambda: slave.broker.offsets.get("G", "T", 0) == 1)
        here.broker.broker.offsets.store("G", "T", 0, 2, 0)
        await until(lambda: slave.broker.offsets.get("G", "T", 0) == 2)
        assert auth.changes == changes
        await here.ask(AuthDeleteUser("ann"))
        await until(lambda: auth.user("ann") is None)
        assert auth.acls() == []
        # One whose secret is not shown is named, and one that is known keeps that which it has.
        here.broker.settings.auth_secrets_shown_to = "nobody"
        await here.ask(AuthCreateUser("bob", UserInfo(password="bob-secret")))
        await until(lambda: "does not show the secrets of bob" in caplog.text)
        assert auth.user("bob") is None
        assert auth.is_super("inner")


async def test_a_slave_without_credentials_keeps_its_users_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    user = '{"username":"root","password":"root-secret"}'
    async with (
        running(tmp_path / "m") as here,
        slave_of(here, tmp_path / "s", authenticationEnabled="true", initAuthenticationUser=user) as slave,
    ):
        await here.send()
        await until(Group(here, slave).is_level)
        # The master has no users, and no table of its own is lost for that.
        await until(lambda: slave.broker.topics.get("T") is not None)
        assert slave.broker.auth.is_super("root")


async def test_what_a_false_master_sends_is_refused_with_what_to_do(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def master(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.readexactly(8) == encode_report(0)
        writer.write(encode_header(0, 40) + b"x" * 40)
        await reader.read()
        writer.close()

    false = await asyncio.start_server(master, "127.0.0.1", 0)
    address = f"127.0.0.1:{false.sockets[0].getsockname()[1]}"
    async with (
        running(tmp_path / "m") as here,
        slave_of(here, tmp_path / "s", haMasterAddress=address) as slave,
    ):
        await until(lambda: "empty store" in slave.broker.replication.refusal)
        assert slave.store.max_physical == 0
    assert "does not follow" in caplog.text
    false.close()


async def test_a_log_that_went_another_way_is_neither_followed_nor_cut(tmp_path: Path) -> None:
    async with running(tmp_path / "m") as here:
        await here.send(body=b"theirs")
        async with running(tmp_path / "s") as other:
            await other.send(body=b"mine!!")
        async with slave_of(here, tmp_path / "s") as slave:
            await until(lambda: "different ways" in slave.broker.replication.refusal)
            assert b"mine!!" in log_of(slave)


async def test_a_slave_that_died_with_what_its_master_has_not_confirmed_follows_again(tmp_path: Path) -> None:
    given = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": 2, "slaveTimeout": 100}
    async with running(tmp_path / "m", **given) as here:
        async with slave_of(here, tmp_path / "s") as slave:
            await until(Group(here, slave).is_level)
            client = slave.replication.client
            assert client is not None
            client.report = lambda: None  # type: ignore[method-assign]
            assert (await here.send(body=b"on both")).code == ResponseCode.FLUSH_SLAVE_TIMEOUT
            await until(lambda: b"on both" in log_of(slave))
        assert here.broker.store.confirm_offset < here.broker.store.max_physical
        async with slave_of(here, tmp_path / "s") as slave:
            await until(lambda: here.broker.store.max_offset("T", 0) == 1 or slave.broker.replication.refusal)
            assert slave.broker.replication.refusal == ""


async def test_a_slave_that_is_made_master_goes_on_with_all_of_it(tmp_path: Path) -> None:
    async with group(tmp_path) as both:
        await both.here.send(body=b"now")
        await both.here.send(topic="D", body=b"later", properties="DELAY\x013\x02")
        await until(both.is_level)
        await until(lambda: both.slave.broker.topics.get("D") is not None)
    async with running(tmp_path / "s") as here:
        assert here.broker.store.max_offset("T", 0) == 1
        assert here.broker.broker.delay.max_offset(3) == 1
        await here.send(body=b"behind")
        assert here.broker.store.max_offset("T", 0) == 2


async def test_the_state_of_both_is_told(tmp_path: Path) -> None:
    async with group(tmp_path) as both:
        await both.here.send()
        links = both.here.broker.broker.promise.links
        end = both.here.broker.store.max_physical
        await until(lambda: links.all[0].acknowledged == end)
        master = (await both.here.ask(GetBrokerHaStatus())).body
        assert (master.master, master.in_sync_slave_nums, master.master_commit_log_max_offset) == (
            True,
            1,
            end,
        )
        (one,) = master.ha_connection_info
        assert (one.slave_ack_offset, one.diff, one.in_sync, one.transfer_from_where) == (end, 0, True, end)
        assert one.diff_millis == 0
        told = {one.family: one.value for one in samples(both.here.broker.broker, 0) if one is not None}
        assert (told["orbitmq_in_sync_replicas"], told["orbitmq_replication_gap_bytes"]) == (2, 0)
        told = {one.family: one.value for one in samples(both.slave.broker, 0) if one is not None}
        assert told["orbitmq_follows_master"] == 1
        pool = PatientPool()
        slave = (await pool.call(both.slave.address, GetBrokerHaStatus())).body
        await pool.close()
        assert not slave.master
        port = both.here.broker.settings.listen_port + 1
        assert slave.ha_client_runtime_info.master_addr == f"127.0.0.1:{port}"
        assert slave.ha_client_runtime_info.max_offset == end


async def test_what_no_slave_has_is_told_in_bytes_and_time(tmp_path: Path) -> None:
    given = {"haFlowControlEnable": True, "maxHaTransferByteInSecond": 1}
    async with running(tmp_path, **given) as here:
        info = (await here.ask(GetBrokerRuntimeInfo())).body.table or {}
        assert "unreplicatedBytes" not in info  # there is no slave
        _, writer = await ha_stream(here)
        writer.write(encode_report(0))
        links, replication = here.broker.broker.promise.links, here.broker.broker.replication
        await until(lambda: bool(links.all))
        await here.send()
        (stored, end), (link,) = (
            (here.broker.store.newest.timestamp_ms, here.broker.store.max_physical),
            links.all,
        )
        for waited in (0, 5_000):
            lag = replication.gap_ms(link, stored + waited)
            assert waited <= lag <= waited + 60_000
            told = {one.family: one.value for one in samples(here.broker.broker, stored + waited) if one}
            assert told["orbitmq_replication_gap_seconds"] == lag / 1000
        info = (await here.ask(GetBrokerRuntimeInfo())).body.table or {}
        assert info["unreplicatedBytes"] == str(end)
        assert int(info["unreplicatedTimeMillis"]) >= 0
        (one,) = (await here.ask(GetBrokerHaStatus())).body.ha_connection_info
        assert one.diff == end
        assert one.diff_millis is not None
        # Longer ago than growth was noted: the store time says it.
        links.growth = LogGrowth()
        assert replication.gap_ms(link, stored + 7) == 7
        link.acknowledged = 1  # within a record
        assert replication.gap_ms(link, stored + 7) == 7
        writer.close()
