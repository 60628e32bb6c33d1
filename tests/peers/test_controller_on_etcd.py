"""Controllers on a real etcd: one leads, another follows it, and each trouble of the store has its name."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from orbitmq.controller.options import ControllerSettings
from orbitmq.net.pool import ConnectionPool
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import BrokerRefused
from orbitmq.protocol.remoting.command import Command
from orbitmq.protocol.requests.controller import (
    ControllerApplyBrokerId,
    ControllerElectMaster,
    ControllerGetMetadataInfo,
    ControllerGetNextBrokerId,
    ControllerGetReplicaInfo,
    ControllerRegisterBroker,
    MetadataReply,
)
from orbitmq.protocol.requests.ha import BrokerHeartbeat, NotifyBrokerRoleChanged
from orbitmq.server.controller.consensus import (
    ForeignStore,
    LeaseLost,
    NoMajority,
    StoreUntrusted,
    StoreWiped,
)
from orbitmq.server.controller.server import ControllerServer
from orbitmq.server.controller.stores import open_store
from orbitmq.server.turn.listener import Listener, free_ports
from orbitmq.testing.local_etcd import LocalEtcd
from tests.certificates import Authority
from tests.needs import need

LIMIT_SECONDS = 20


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalEtcd]:
    need("etcd")
    with LocalEtcd(tmp_path_factory.mktemp("etcd")) as running:
        yield running


@pytest.fixture
def prefix(request: pytest.FixtureRequest) -> str:
    return f"/{request.node.name}"


def _settings(etcd: LocalEtcd, prefix: str, **more: object) -> ControllerSettings:
    return ControllerSettings(
        store_address=etcd.address,
        store_prefix=prefix,
        store_lease_seconds=2,
        scan_not_active_broker_interval=50,
        **more,  # type: ignore[arg-type]
    )


@contextlib.asynccontextmanager
async def _controller(etcd: LocalEtcd, prefix: str, **more: object) -> AsyncIterator[ControllerServer]:
    settings = _settings(etcd, prefix, **more)
    server = ControllerServer(settings, open_store(settings), port=0)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@contextlib.asynccontextmanager
async def _pool() -> AsyncIterator[ConnectionPool]:
    pool = ConnectionPool()
    try:
        yield pool
    finally:
        await pool.close()


async def _metadata(pool: ConnectionPool, server: ControllerServer) -> MetadataReply:
    return await pool.call(server.address, ControllerGetMetadataInfo())


async def _until(is_so: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(LIMIT_SECONDS):
        for _ in itertools.count():
            if await is_so():
                return
            await asyncio.sleep(0.02)


async def _until_leads(pool: ConnectionPool, server: ControllerServer) -> None:
    async def leads() -> bool:
        return (await _metadata(pool, server)).is_leader

    await _until(leads)


async def _join(pool: ConnectionPool, address: str, broker: str, broker_id: int) -> None:
    assert (await pool.call(address, ControllerGetNextBrokerId("C", "broker-a"))).next_broker_id == broker_id
    await pool.call(address, ControllerApplyBrokerId("C", "broker-a", broker_id, f"{broker};1"))
    await pool.call(address, ControllerRegisterBroker("C", "broker-a", broker_id, broker))
    await pool.call(address, BrokerHeartbeat("C", broker, "broker-a", broker_id, 0, 0, 0, 6000, 1))


async def test_one_controller_leads_and_the_next_takes_over_what_it_decided(
    etcd: LocalEtcd, prefix: str
) -> None:
    async with _pool() as pool, _controller(etcd, prefix) as first:
        await _until_leads(pool, first)
        await _join(pool, first.address, "127.0.0.1:1", 1)
        elected = await pool.call(first.address, ControllerElectMaster("C", "broker-a", 1, False))
        assert (elected.master_broker_id, elected.master_epoch) == (1, 1)
        async with _controller(etcd, prefix) as second:

            async def know_each_other() -> bool:
                return first.address in ((await _metadata(pool, second)).peers or "")

            await _until(know_each_other)
            said = await _metadata(pool, second)
            assert (said.is_leader, said.controller_leader_address) == (False, first.address)
            with pytest.raises(BrokerRefused) as refused:
                await pool.call(second.address, ControllerGetReplicaInfo("broker-a"))
            assert refused.value.code == ResponseCode.CONTROLLER_NOT_LEADER
            began = asyncio.get_running_loop().time()
            await first.stop()
            await _until_leads(pool, second)
            assert asyncio.get_running_loop().time() - began < 1.5, "it gave its lease back"
            info = await pool.call(second.address, ControllerGetReplicaInfo("broker-a"))
            assert (info.master_broker_id, info.master_epoch) == (1, 1)


async def test_the_brokers_of_a_group_are_told_of_its_new_master(etcd: LocalEtcd, prefix: str) -> None:
    told: asyncio.Queue[NotifyBrokerRoleChanged] = asyncio.Queue()

    def on_requests(_: object, commands: list[Command]) -> None:
        for command in commands:
            told.put_nowait(NotifyBrokerRoleChanged.from_command(command))

    listener = Listener(on_requests, lambda connection: None)
    port = free_ports()
    await listener.listen("127.0.0.1", port)
    try:
        async with _pool() as first, _pool() as pool, _controller(etcd, prefix) as server:
            await _until_leads(pool, server)
            await _join(first, server.address, "127.0.0.1:1", 1)
            await pool.call(server.address, ControllerElectMaster("C", "broker-a", 1, False))
            broker = f"127.0.0.1:{port}"
            await _join(pool, server.address, broker, 2)
            server.controller.settings.enable_elect_unclean_master = True
            await first.close()  # the master's process ends
            async with asyncio.timeout(LIMIT_SECONDS):
                notice = await told.get()
            assert (notice.master_address, notice.master_broker_id, notice.master_epoch) == (broker, 2, 2)
    finally:
        await listener.close()


async def test_a_store_without_a_majority_decides_nothing_until_it_is_back(tmp_path: Path) -> None:
    need("etcd")
    with LocalEtcd(tmp_path, members=3) as etcd:
        async with _pool() as pool, _controller(etcd, "/p", store_timeout_ms=500) as server:
            await _until_leads(pool, server)
            etcd.signal(signal.SIGKILL, *etcd.names[:2])
            with pytest.raises(BrokerRefused) as refused:
                await pool.call(server.address, ControllerApplyBrokerId("C", "b", 1, "127.0.0.1:1;1"), 5000)
            assert refused.value.code in (
                ResponseCode.CONTROLLER_NOT_LEADER,
                ResponseCode.CONTROLLER_JRAFT_INTERNAL_ERROR,
            )

            async def leads_no_more() -> bool:
                return not (await _metadata(pool, server)).is_leader

            await _until(leads_no_more)
            etcd.start(*etcd.names[:2])
            await _until_leads(pool, server)


async def test_a_member_that_does_not_answer_is_passed_over(etcd: LocalEtcd, prefix: str) -> None:
    dead = f"127.0.0.1:{free_ports()}"
    settings = ControllerSettings(store_address=f"etcd://{dead},{etcd.endpoints[0]}", store_prefix=prefix)
    store = open_store(settings)
    await store.open()
    assert list(await store.read()) == ["identity"]
    await store.close()


async def test_a_paused_store_is_too_slow(tmp_path: Path) -> None:
    need("etcd")
    with LocalEtcd(tmp_path) as etcd:
        store = open_store(ControllerSettings(store_address=etcd.address, store_timeout_ms=300))
        await store.open()
        etcd.signal(signal.SIGSTOP)
        with pytest.raises(NoMajority, match="too slow"):
            await store.open()
        etcd.signal(signal.SIGCONT)
        await store.close()


async def test_controllers_of_two_clusters_do_not_share_a_prefix(etcd: LocalEtcd, prefix: str) -> None:
    own = open_store(_settings(etcd, prefix, controller_group="east"))
    await own.open()
    other = open_store(_settings(etcd, prefix, controller_group="west"))
    with pytest.raises(ForeignStore, match="belongs to the controllers of 'east'"):
        await other.open()
    await own.close()
    await other.close()


async def test_members_of_two_etcd_clusters_are_noticed(etcd: LocalEtcd, prefix: str, tmp_path: Path) -> None:
    with LocalEtcd(tmp_path) as another:
        store = open_store(
            ControllerSettings(
                store_address=f"etcd://{another.endpoints[0]},{etcd.endpoints[0]}", store_prefix=prefix
            )
        )
        await store.open()
        another.signal(signal.SIGKILL)
        with pytest.raises(ForeignStore, match="two clusters"):
            await store.open()
        await store.close()


async def test_a_wiped_store_is_noticed(tmp_path: Path) -> None:
    need("etcd")
    with LocalEtcd(tmp_path) as etcd:
        store = open_store(ControllerSettings(store_address=etcd.address))
        await store.open()
        etcd.signal(signal.SIGKILL)
        etcd.wipe()
        etcd.start()
        with pytest.raises(StoreWiped, match="restore"):
            await store.open()
        await store.close()


async def test_a_change_counts_only_while_the_guard_holds(etcd: LocalEtcd, prefix: str) -> None:
    store = open_store(_settings(etcd, prefix))
    await store.open()
    lease = (await store.grant(2)).id
    guard = await store.create("members/leader", "c1", lease)
    assert guard is not None
    assert await store.create("members/leader", "c1", (await store.grant(2)).id) is None
    many = {f"groups/{number}": "text" for number in range(230)}
    assert await store.commit(many, guard)
    assert len(await store.read("groups/")) == 230
    await store.revoke(lease)
    assert not await store.commit({"groups/0": None}, guard)
    assert "groups/0" in await store.read("groups/")
    with pytest.raises(LeaseLost):
        await store.renew(lease)
    await store.close()


@pytest.mark.needs("etcd", "openssl")
async def test_the_certificate_of_the_store_is_checked(tmp_path: Path) -> None:
    authority, stranger = Authority(tmp_path / "a"), Authority(tmp_path / "b")
    own = authority.issue("etcd")
    with LocalEtcd(tmp_path / "etcd", tls=(own.cert, own.key)) as etcd:
        trusting = open_store(
            ControllerSettings(store_address=etcd.address, store_ca_path=str(authority.cert))
        )
        await trusting.open()
        await trusting.close()
        doubting = open_store(
            ControllerSettings(store_address=etcd.address, store_ca_path=str(stranger.cert))
        )
        with pytest.raises(StoreUntrusted, match="storeCaPath"):
            await doubting.open()
        await doubting.close()
