"""Roles that change while brokers serve: what clients, the log and the name servers see of it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from orbitmq.broker.role.role import Role, RoleChange
from orbitmq.net.errors import ConnectFailed
from orbitmq.net.pool import ConnectionPool
from orbitmq.options import RefusedValue
from orbitmq.protocol.bodies.group import SubscriptionGroupConfig
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import BrokerRefused, PeerBusy
from orbitmq.protocol.handles.pop import REVIVE_GROUP
from orbitmq.protocol.requests.admin import GetBrokerRuntimeInfo, UpdateBrokerConfig
from orbitmq.protocol.requests.group import UpdateAndCreateSubscriptiongroup
from orbitmq.protocol.requests.offset import UpdateConsumerOffset
from orbitmq.protocol.requests.send import SendMessage
from orbitmq.server.ha.metadata import MetadataSync
from tests.kit.replication import Group, group, log_of, pull, until
from tests.kit.running_standalone import PatientPool, running
from tests.kit.world import NOW


def send_request(body: bytes, properties: str = "") -> SendMessage:
    return SendMessage("P", "T", "TBW102", 4, 0, 0, 1, 0, properties, body=body)


async def update(pool: ConnectionPool, address: str, text: str) -> None:
    await pool.call(address, UpdateBrokerConfig(text.encode()), 40_000)


async def swap(both: Group) -> None:
    """Makes the slave master, and the master its slave."""
    old, new = both.here.broker, both.slave
    await old.change_role(RoleChange(Role.SLAVE, 2, hands_over=True))
    await new.change_role(RoleChange(Role.MASTER, 0))


async def test_a_slave_becomes_master_and_the_master_its_slave_without_a_restart(tmp_path: Path) -> None:
    async with group(tmp_path) as both:
        for n in range(5):
            await both.here.send(body=b"before %d" % n)
        await both.here.ask(UpdateAndCreateSubscriptiongroup(body=SubscriptionGroupConfig("G")))
        await both.here.ask(UpdateConsumerOffset("G", "T", 0, 2))
        await swap(both)
        old, new = both.here.broker, both.slave
        pool = PatientPool()
        try:
            assert (new.broker.role.current, old.broker.role.current) == (Role.MASTER, Role.SLAVE)
            for n in range(5):
                await pool.call(new.address, send_request(b"behind %d" % n))
            await until(lambda: old.store.max_physical == new.store.max_physical)
            assert log_of(old) == log_of(new)
            assert new.store.max_offset("T", 0) == old.store.max_offset("T", 0)
            with pytest.raises(PeerBusy, match="REJECTREQUEST"):
                await pool.call(old.address, send_request(b"nobody takes this"))
            old.settings.slave_read_enable = True
            found = await pool.call(old.address, pull(0))
            assert b"behind 4" in bytes(found.body or b"")
            # And back again.
            await new.change_role(RoleChange(Role.SLAVE, 1, hands_over=True))
            await old.change_role(RoleChange(Role.MASTER, 0))
            await pool.call(old.address, send_request(b"at home"))
            await until(lambda: old.store.max_physical == new.store.max_physical)
            assert log_of(old) == log_of(new)
        finally:
            await pool.close()


async def test_delayed_messages_timers_and_half_messages_go_on_at_the_new_master(tmp_path: Path) -> None:
    async with group(tmp_path) as both:
        now = both.here.now()
        await both.here.send(body=b"level", properties="DELAY\x012\x02")
        await both.here.send(body=b"timer", properties=f"TIMER_DELIVER_MS\x01{now + 4_000}\x02")
        await both.here.send(body=b"half", properties="TRAN_MSG\x01true\x02PGROUP\x01P\x02UNIQ_KEY\x01X\x02")
        await until(both.is_level)
        await swap(both)
        new = both.slave
        assert new.broker.transactions.figures.open_count == 1
        assert both.here.broker.broker.transactions.figures.open_count == 0
        async with asyncio.timeout(60):
            await until(lambda: new.store.max_offset("T", 0) + new.store.max_offset("T", 1) == 2)
        await until(lambda: both.here.broker.store.max_physical == new.store.max_physical)
        assert log_of(both.here.broker) == log_of(new)


async def test_an_ex_master_acknowledges_nothing_and_ends_what_waits(tmp_path: Path) -> None:
    given = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": 2, "slaveTimeout": 30_000}
    async with group(tmp_path, **given) as both:
        old = both.here.broker
        await both.here.send(body=b"safe")
        confirmed = old.store.confirm_offset
        await both.slave.stop()
        waiting = asyncio.create_task(both.here.send(body=b"nobody else has this"))
        held = asyncio.create_task(both.here.ask(pull(1, hold_ms=30_000)))
        await until(lambda: old.turns.waits.count == 2)
        await old.change_role(RoleChange(Role.UNKNOWN, 0))
        answer = await waiting
        assert int(answer.code) in (ResponseCode.FLUSH_SLAVE_TIMEOUT, ResponseCode.SLAVE_NOT_AVAILABLE)
        assert int((await held).code) == ResponseCode.PULL_NOT_FOUND
        assert old.store.confirm_offset == confirmed
        assert old.store.max_offset("T", 0) == 1
        with pytest.raises(PeerBusy, match="REJECTREQUEST"):
            await both.here.send(body=b"nor this")


async def test_a_log_is_cut_while_the_role_is_unknown_and_offsets_follow(tmp_path: Path) -> None:
    async with running(tmp_path / "m") as here:
        broker = here.broker
        for n in range(6):
            await here.send(body=b"body %d" % n, queue_id=0)
        end = broker.store.physical_offset_of("T", 0, 4)
        assert end is not None
        for name in "GH":
            await here.ask(UpdateAndCreateSubscriptiongroup(body=SubscriptionGroupConfig(name)))
        await here.ask(UpdateConsumerOffset("G", "T", 0, 6))
        await here.ask(UpdateConsumerOffset("H", "T", 0, 2))
        with pytest.raises(RuntimeError, match="unknown"):
            await broker.truncate(end[0])
        await broker.change_role(RoleChange(Role.UNKNOWN, 0))
        assert await broker.truncate(end[0]) == end[0]
        assert broker.broker.offsets.get("G", "T", 0) == 4
        assert broker.broker.offsets.get("H", "T", 0) == 2
        await broker.change_role(RoleChange(Role.MASTER, 0, epoch=3))
        assert broker.broker.role.epoch == 3
        await here.send(body=b"in its place", queue_id=0)
        assert broker.store.max_offset("T", 0) == 5


async def test_a_new_master_takes_back_offsets_of_a_log_that_went_further(tmp_path: Path) -> None:
    async with running(tmp_path / "m") as here:
        broker, offsets = here.broker, here.broker.broker.offsets
        for n in range(3):
            await here.send(body=b"body %d" % n, queue_id=0)
        await broker.change_role(RoleChange(Role.UNKNOWN, 0))
        # A slave hears of its master's offsets at once, and gets the messages a little later.
        for name, offset in {"ahead": 7, "at the end": 3, "behind": 1, REVIVE_GROUP: 3}.items():
            offsets.store(name, "T", 0, offset, NOW)
        await broker.change_role(RoleChange(Role.MASTER, 0, epoch=2))
        assert [offsets.get(name, "T", 0) for name in ("ahead", "at the end", "behind")] == [3, 3, 1]
        assert offsets.get(REVIVE_GROUP, "T", 0) == 2, "it is that of the last record that was finished"


async def test_an_operator_changes_roles_by_updates_of_the_configuration(tmp_path: Path) -> None:
    async with group(tmp_path) as both:
        old, new = both.here.broker, both.slave
        pool = PatientPool()
        try:
            with pytest.raises(BrokerRefused, match="give brokerId together with brokerRole"):
                await update(pool, old.address, "brokerRole=SLAVE")
            with pytest.raises(BrokerRefused, match="by an update of its own"):
                await update(pool, old.address, "brokerRole=SLAVE\nbrokerId=2\ndeleteWhen=05")
            with pytest.raises(BrokerRefused, match="brokerId"):
                await update(pool, new.address, "brokerRole=ASYNC_MASTER\nbrokerId=3")
            assert old.broker.role.current is Role.MASTER
            await update(pool, old.address, "brokerRole=SLAVE\nbrokerId=2")
            await update(pool, new.address, "brokerRole=SYNC_MASTER")
            assert (new.settings.broker_role, new.settings.broker_id) == ("SYNC_MASTER", 0)
            assert (old.settings.broker_role, old.settings.broker_id) == ("SLAVE", 2)
            await pool.call(new.address, send_request(b"one"))
            await until(lambda: old.store.max_physical == new.store.max_physical > 0)
            # It was a slave before, so its number is known.
            await update(pool, new.address, "brokerRole=SLAVE")
            assert new.settings.broker_id == 1
        finally:
            await pool.close()


async def test_a_master_with_messages_of_its_own_does_not_follow_and_says_why(tmp_path: Path) -> None:
    async with group(tmp_path) as both:
        await both.here.send(body=b"both have this")
        await until(both.is_level)
        old, new = both.here.broker, both.slave
        await new.change_role(RoleChange(Role.MASTER, 0))
        await both.here.send(body=b"only the old master has this")
        pool = PatientPool()
        try:
            await pool.call(new.address, send_request(b"and the new one this"))
        finally:
            await pool.close()
        before = log_of(old)
        await old.change_role(RoleChange(Role.SLAVE, 2, master_address=new.address))
        await until(lambda: "gone different ways" in old.broker.replication.refusal)
        assert log_of(old) == before


async def test_a_role_that_cannot_be_taken_leaves_a_broker_that_stores_nothing(tmp_path: Path) -> None:
    async with group(tmp_path) as both:
        port = int(both.slave.identity.ha_address.rpartition(":")[2])
        taken = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", port)
        try:
            with pytest.raises(Exception, match="cannot listen"):
                await both.slave.change_role(RoleChange(Role.MASTER, 0))
        finally:
            taken.close()
            await taken.wait_closed()
        assert both.slave.broker.role.current is Role.UNKNOWN
        pool = PatientPool()
        try:
            with pytest.raises(PeerBusy, match="REJECTREQUEST"):
                await pool.call(both.slave.address, send_request(b"no"))
        finally:
            await pool.close()
        await both.slave.change_role(RoleChange(Role.SLAVE, 1))
        await until(both.is_level)


@pytest.mark.parametrize("change", [RoleChange(Role.MASTER, 1), RoleChange(Role.SLAVE, 0)])
async def test_an_id_that_does_not_go_with_the_role_is_refused(tmp_path: Path, change: RoleChange) -> None:
    async with running(tmp_path / "m") as here:
        with pytest.raises(RefusedValue, match="brokerId"):
            await here.broker.change_role(change)
        assert here.broker.broker.role.current is Role.MASTER


async def test_a_new_master_has_the_topics_of_its_log_though_their_table_never_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(_: MetadataSync, address: str) -> None:
        raise ConnectFailed(address, "cut off")

    monkeypatch.setattr(MetadataSync, "take", fails)
    async with group(tmp_path) as both:
        await both.here.send("New", body=b"kept", queue_id=0)
        await until(both.is_level)
        new = both.slave
        assert new.broker.topics.get("New") is None
        await both.here.broker.change_role(RoleChange(Role.UNKNOWN, 0))
        await new.change_role(RoleChange(Role.MASTER, 0))
        config = new.broker.topics.get("New")
        assert config is not None
        assert (config.read_queue_nums, config.perm) == (1, 6)


async def test_a_registration_under_way_does_not_bring_a_broker_back_that_left_the_routes(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as here:
        broker, routes = here.broker.broker, here.server.namesrv.nameserver.routes
        for number in range(1_000):
            broker.topics.ensure(f"T{number}", 4, NOW)
        registrar = here.broker._registrar
        assert await registrar.register() == 1
        registering = asyncio.create_task(registrar.register())
        for _ in range(10):
            await asyncio.sleep(0)
        broker.role.fence()
        await registrar.withdraw()
        await registering
        await here.ask(GetBrokerRuntimeInfo())
        assert not routes.groups
