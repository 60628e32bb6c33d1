"""Controllers on a real etcd and a real ZooKeeper: one leads, others follow, each trouble has its name."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from aetcd import rpc
from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError
from kazoo.security import make_digest_acl

from orbitmq.controller.options import ControllerSettings
from orbitmq.net.pool import ConnectionPool
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import BrokerRefused, OrbitError
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
    ConsensusStore,
    ForeignStore,
    LeaseLost,
    NoMajority,
    StoreRefused,
    StoreUnreachable,
    StoreUntrusted,
    StoreWiped,
)
from orbitmq.server.controller.server import ControllerServer
from orbitmq.server.controller.stores import open_store
from orbitmq.server.controller.zookeeper_client import ZooKeeperClient
from orbitmq.server.turn.listener import Listener, free_ports
from orbitmq.testing.local_etcd import LocalEtcd
from tests.certificates import Authority
from tests.kit.brokers import others_at_night
from tests.needs import need
from tests.peers.machine import LOOPBACK, Process
from tests.peers.orbitmq_process import program
from tests.peers.zookeeper import ZooKeeper

pytestmark = pytest.mark.timeout(600)
LIMIT_SECONDS = 60
LONG_LEASE_SECONDS = 45
"""Longer than a test waits for what has to come at once."""

HOLDER = """
import asyncio, sys, time
from orbitmq.controller.options import ControllerSettings
from orbitmq.server.controller.stores import open_store
from orbitmq.server.controller.zookeeper_client import ZooKeeperClient

async def hold(address, prefix):
    store = open_store(ControllerSettings(store_address=address, store_prefix=prefix))
    await store.open()
    lease = await store.grant(2)
    await store.put("members/id/1", "here", lease.id)
    while True:
        began = time.monotonic()
        await store.renew(lease.id)
        print(began, lease.holds_ms, flush=True)
        await asyncio.sleep(lease.holds_ms / 8000)

asyncio.run(hold(*sys.argv[1:]))
"""

Servers = LocalEtcd | ZooKeeper
KINDS = ("etcd", "zookeeper")
BOTH = pytest.mark.parametrize("servers", KINDS, indirect=True)
NEEDS = {"etcd": ("etcd",), "zookeeper": ("java", "mvn")}


def _servers(kind: str, folder: Path, members: int = 1, tls: tuple[Path, Path] | None = None) -> Servers:
    need(*NEEDS[kind])
    return LocalEtcd(folder, members, tls) if kind == "etcd" else ZooKeeper(folder, members, tls)


@pytest.fixture(scope="module", params=others_at_night(KINDS, ["etcd"]))
def servers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with _servers(request.param, tmp_path_factory.mktemp(request.param)) as running:
        yield running


@pytest.fixture(params=others_at_night(KINDS, ["etcd"]))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def prefix(request: pytest.FixtureRequest) -> str:
    return f"/{request.node.name}"


def _settings(servers: Servers, prefix: str, **more: object) -> ControllerSettings:
    values = {"store_lease_seconds": 8, "store_timeout_ms": 5_000, **more}
    return ControllerSettings(
        store_address=servers.address,
        store_prefix=prefix,
        scan_not_active_broker_interval=50,
        **values,  # type: ignore[arg-type]
    )


@contextlib.asynccontextmanager
async def _controller(servers: Servers, prefix: str, **more: object) -> AsyncIterator[ControllerServer]:
    settings = _settings(servers, prefix, **more)
    server = ControllerServer(settings, open_store(settings), port=0)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@contextlib.asynccontextmanager
async def _store(servers: Servers, prefix: str, **more: object) -> AsyncIterator[ConsensusStore]:
    store = open_store(_settings(servers, prefix, **more))
    try:
        await store.open()
        yield store
    finally:
        await store.close()


@contextlib.asynccontextmanager
async def _pool() -> AsyncIterator[ConnectionPool]:
    pool = ConnectionPool()
    try:
        yield pool
    finally:
        await pool.close()


async def _metadata(pool: ConnectionPool, address: str) -> MetadataReply:
    return await pool.call(address, ControllerGetMetadataInfo())


async def _until(is_so: Callable[[], Awaitable[bool]], seconds: float = LIMIT_SECONDS) -> None:
    async with asyncio.timeout(seconds):
        for _ in itertools.count():
            if await is_so():
                return
            await asyncio.sleep(0.02)


async def _until_leads(pool: ConnectionPool, address: str, seconds: float = LIMIT_SECONDS) -> None:
    async def leads() -> bool:
        return (await _metadata(pool, address)).is_leader

    await _until(leads, seconds)


async def _join(pool: ConnectionPool, address: str, broker: str, broker_id: int) -> None:
    assert (await pool.call(address, ControllerGetNextBrokerId("C", "broker-a"))).next_broker_id == broker_id
    await pool.call(address, ControllerApplyBrokerId("C", "broker-a", broker_id, f"{broker};1"))
    await pool.call(address, ControllerRegisterBroker("C", "broker-a", broker_id, broker))
    await pool.call(address, BrokerHeartbeat("C", broker, "broker-a", broker_id, 0, 0, 0, 6000, 1))


async def _trouble(store: ConsensusStore) -> Exception:
    """The trouble that a store has once it answers again."""
    async with asyncio.timeout(LIMIT_SECONDS):
        while True:
            try:
                await store.open()
            except (StoreUnreachable, NoMajority):
                await asyncio.sleep(0.05)
            except OrbitError as error:
                return error


@BOTH
async def test_one_controller_leads_and_the_next_takes_over_what_it_decided(
    servers: Servers, prefix: str
) -> None:
    lease = {"store_lease_seconds": LONG_LEASE_SECONDS}
    async with _pool() as pool, _controller(servers, prefix, **lease) as first:
        await _until_leads(pool, first.address)
        await _join(pool, first.address, "127.0.0.1:1", 1)
        elected = await pool.call(first.address, ControllerElectMaster("C", "broker-a", 1, False))
        assert (elected.master_broker_id, elected.master_epoch) == (1, 1)
        async with _controller(servers, prefix, **lease) as second:

            async def know_each_other() -> bool:
                return first.address in ((await _metadata(pool, second.address)).peers or "")

            await _until(know_each_other)
            said = await _metadata(pool, second.address)
            assert (said.is_leader, said.controller_leader_address) == (False, first.address)
            with pytest.raises(BrokerRefused) as refused:
                await pool.call(second.address, ControllerGetReplicaInfo("broker-a"))
            assert refused.value.code == ResponseCode.CONTROLLER_NOT_LEADER
            await first.stop()
            # It gave its lease back.
            await _until_leads(pool, second.address, LONG_LEASE_SECONDS / 2)
            info = await pool.call(second.address, ControllerGetReplicaInfo("broker-a"))
            assert (info.master_broker_id, info.master_epoch) == (1, 1)


@BOTH
async def test_a_controller_that_is_killed_is_replaced(servers: Servers, prefix: str, tmp_path: Path) -> None:
    async with _pool() as pool:
        ports = [free_ports(), free_ports()]
        processes = []
        try:
            for number, port in enumerate(ports):
                command = [*program(tmp_path), "controller", f"--store={servers.address}", f"--port={port}"]
                command += [f"--set=storePrefix={prefix}", "--set=storeLeaseSeconds=2"]
                processes.append(Process(command, tmp_path / f"{number}.out"))

                async def listens(address: str = f"{LOOPBACK}:{port}") -> bool:
                    with contextlib.suppress(OrbitError):
                        return bool((await _metadata(pool, address)).controller_leader_address)
                    return False

                await _until(listens)
            await _until_leads(pool, f"{LOOPBACK}:{ports[0]}")
            processes[0].end(signal.SIGKILL)
            await _until_leads(pool, f"{LOOPBACK}:{ports[1]}")
        finally:
            for process in processes:
                process.end(signal.SIGKILL)


async def test_the_brokers_of_a_group_are_told_of_its_new_master(servers: Servers, prefix: str) -> None:
    told: asyncio.Queue[NotifyBrokerRoleChanged] = asyncio.Queue()

    def on_requests(_: object, commands: list[Command]) -> None:
        for command in commands:
            told.put_nowait(NotifyBrokerRoleChanged.from_command(command))

    listener = Listener(on_requests, lambda connection: None)
    port = free_ports()
    await listener.listen("127.0.0.1", port)
    try:
        async with _pool() as first, _pool() as pool, _controller(servers, prefix) as server:
            await _until_leads(pool, server.address)
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


async def test_a_store_without_a_majority_decides_nothing_until_it_is_back(kind: str, tmp_path: Path) -> None:
    with _servers(kind, tmp_path, members=3) as servers:
        lease = {"store_timeout_ms": 1000, "store_lease_seconds": 4}
        async with _pool() as pool, _controller(servers, "/p", **lease) as server:
            await _until_leads(pool, server.address)
            apply = ControllerApplyBrokerId("C", "a", 1, "127.0.0.1:1;1")
            await pool.call(server.address, apply, 30_000)
            for name in servers.names[:2]:
                servers.signal(signal.SIGKILL, name)
            with pytest.raises(BrokerRefused) as refused:
                await pool.call(server.address, ControllerApplyBrokerId("C", "b", 1, "127.0.0.1:1;1"), 30_000)
            assert refused.value.code in (
                ResponseCode.CONTROLLER_NOT_LEADER,
                ResponseCode.CONTROLLER_JRAFT_INTERNAL_ERROR,
            )

            async def leads_no_more() -> bool:
                return not (await _metadata(pool, server.address)).is_leader

            await _until(leads_no_more)
            servers.start(*servers.names[:2])
            await _until_leads(pool, server.address)
            info = await pool.call(server.address, ControllerGetNextBrokerId("C", "a"))
            assert info.next_broker_id == 2, "what was decided before is there"


async def test_a_watch_of_etcd_ends_where_requests_go_to_another_member(tmp_path: Path) -> None:
    with _servers("etcd", tmp_path, members=3) as servers:
        async with (
            _store(servers, "/p", store_timeout_ms=1_000) as store,
            contextlib.aclosing(store.watch("members/")) as changes,
            asyncio.timeout(LIMIT_SECONDS),
        ):
            await anext(changes)
            servers.signal(signal.SIGSTOP)
            with pytest.raises(NoMajority):
                await store.read()
            with pytest.raises(StoreUnreachable):
                await anext(changes)


async def test_a_member_that_does_not_answer_is_passed_over(servers: Servers, prefix: str) -> None:
    dead = f"127.0.0.1:{free_ports()}"
    settings = _settings(servers, prefix)
    settings.store_address = settings.store_address.replace("://", f"://{dead},")
    store = open_store(settings)
    await store.open()
    assert list(await store.read()) == ["identity"]
    await store.close()


async def test_a_paused_store_is_too_slow(kind: str, tmp_path: Path) -> None:
    with _servers(kind, tmp_path) as servers:
        store = open_store(_settings(servers, "/p"))
        await store.open()
        await store.close()
        servers.signal(signal.SIGSTOP)
        store = open_store(_settings(servers, "/p", store_timeout_ms=300))
        with pytest.raises(NoMajority, match="too slow"):
            await store.open()
        servers.signal(signal.SIGCONT)
        await store.close()


async def test_controllers_of_two_clusters_do_not_share_a_prefix(servers: Servers, prefix: str) -> None:
    async with _store(servers, prefix, controller_group="east"):
        other = open_store(_settings(servers, prefix, controller_group="west"))
        with pytest.raises(ForeignStore, match="belongs to the controllers of 'east'"):
            await other.open()
        await other.close()


async def test_members_of_two_clusters_are_noticed(servers: Servers, prefix: str, tmp_path: Path) -> None:
    kind = servers.address.partition(":")[0]
    with _servers(kind, tmp_path) as another:
        settings = _settings(another, prefix)
        settings.store_address += f",{servers.endpoints[0]}"
        store = open_store(settings)
        if kind == "etcd":
            # Members of etcd are told apart by what they answer, when they are asked.
            await store.open()
            another.signal(signal.SIGKILL)
        with pytest.raises(ForeignStore, match="its members are of two"):
            await store.open()
        await store.close()


async def test_a_wiped_store_is_noticed(kind: str, tmp_path: Path) -> None:
    with _servers(kind, tmp_path) as servers:
        async with _store(servers, "/p", store_timeout_ms=1000) as store:
            servers.signal(signal.SIGKILL)
            servers.wipe()
            servers.start()
            trouble = await _trouble(store)
            assert isinstance(trouble, StoreWiped)
            assert "restore" in str(trouble)


async def test_a_change_counts_only_while_the_guard_holds(servers: Servers, prefix: str) -> None:
    async with _store(servers, prefix) as store:
        lease, other = await store.grant(8), await store.grant(8)
        guard = await store.create("members/leader", "c1", lease.id)
        assert guard is not None
        assert await store.create("members/leader", "c1", lease.id) == guard, "made twice, it is once"
        assert await store.create("members/leader", "c2", other.id) is None
        many: dict[str, str | None] = {f"groups/{number}": "text" * 3000 for number in range(230)}
        assert await store.commit(many, guard)
        assert await store.commit(many, guard), "made twice, it is once"
        assert await store.read("groups/") == many
        assert await store.commit({"groups/1": None, "groups/none": None}, guard)
        await store.renew(lease.id)
        await store.revoke(lease.id)
        assert not await store.commit({"groups/0": None}, guard)
        assert await store.create("members/leader", "c2", other.id) not in (None, guard)
        assert not await store.commit({"groups/0": None}, guard), "somebody else's key is no guard"
        assert "groups/0" in await store.read("groups/")
        assert "groups/1" not in await store.read("groups/")
        with pytest.raises(LeaseLost):
            await store.renew(lease.id)


@pytest.mark.parametrize("comes", ["before the next try", "after the next change"])
async def test_a_change_that_the_store_makes_late_takes_nothing_back(
    servers: Servers, prefix: str, comes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with _store(servers, prefix) as store:
        lease = await store.grant(LONG_LEASE_SECONDS)
        guard = await store.create("members/leader", "c1", lease.id)
        assert guard is not None
        make_late = _keep_next_change(servers, monkeypatch)
        with pytest.raises(NoMajority):
            await store.commit({"groups/1": "older"}, guard)
        if comes == "before the next try":
            await make_late()
        guard = await store.commit({"groups/1": "older"}, guard)
        assert guard is not None
        guard = await store.commit({"groups/1": "newer"}, guard)
        assert guard is not None
        if comes == "after the next change":
            await make_late()
        assert await store.read("groups/") == {"groups/1": "newer"}
        assert await store.commit({"groups/2": "text"}, guard) is not None


def _keep_next_change(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], Coroutine[None, None, None]]:
    """The next change does not get to the store, until the result is called."""
    kept: list[Any] = []

    def keep(*change: Any) -> None:
        kept.append(change)
        monkeypatch.undo()
        raise NoMajority("no answer")

    if isinstance(servers, LocalEtcd):

        class Stub:
            def __init__(self, _: Any) -> None:
                pass

            async def Txn(self, request: Any, **_: Any) -> None:  # noqa: N802 (etcd's name)
                keep(request)

        async def make_late() -> None:
            async with rpc.insecure_channel(servers.endpoints[0]) as channel:
                await rpc.KVStub(channel).Txn(*kept.pop())

        monkeypatch.setattr(rpc, "KVStub", Stub)
    else:
        transact = ZooKeeperClient.transact

        async def keep_operations(*arguments: Any) -> None:
            keep(*arguments)

        async def make_late() -> None:
            with contextlib.suppress(BadVersionError):
                await transact(*kept.pop())

        monkeypatch.setattr(ZooKeeperClient, "transact", keep_operations)
    return make_late


async def test_keys_of_a_lease_go_with_it_and_watches_tell(servers: Servers, prefix: str) -> None:
    async with _store(servers, prefix) as store, _store(servers, prefix) as another:
        lease = await store.grant(8)
        assert 0 < lease.holds_ms <= 8000
        await store.put("members/id/../a b:1", "once", lease.id)
        async with contextlib.aclosing(another.watch("members/")) as changes, asyncio.timeout(LIMIT_SECONDS):
            await anext(changes)
            await store.put("members/id/../a b:1", "twice", lease.id)
            async for _ in changes:
                if await another.read("members/id/") == {"members/id/../a b:1": "twice"}:
                    break
            await store.revoke(lease.id)
            async for _ in changes:
                if not await another.read("members/"):
                    break


async def test_a_lease_lasts_longer_than_its_holder_counts_on_it(
    servers: Servers, prefix: str, tmp_path: Path
) -> None:
    """The holder is a process that is paused, as a whole machine may be."""
    async with _store(servers, prefix) as store:
        (tmp_path / "holder.py").write_text(HOLDER)
        command = [sys.executable, str(tmp_path / "holder.py"), servers.address, prefix]
        holder = Process(command, tmp_path / "out")

        def renewals() -> list[list[str]]:
            lines = (tmp_path / "out").read_text().split("\n")[:-1]
            return [line.split() for line in lines]

        async def has_renewed() -> bool:
            assert holder.alive(), holder.tail()
            return len(renewals()) > 3

        try:
            await _until(has_renewed)
            os.kill(holder.pid, signal.SIGSTOP)
            how = os.WSTOPPED | os.WEXITED | os.WNOWAIT
            await asyncio.get_running_loop().run_in_executor(None, os.waitid, os.P_PID, holder.pid, how)

            async def is_gone() -> bool:
                return not await store.read("members/")

            await _until(is_gone)
            renewed, holds_ms = renewals()[-1]
            assert time.monotonic() - float(renewed) > int(holds_ms) / 1000
        finally:
            holder.end(signal.SIGKILL)


async def test_an_etcd_with_users_is_named(tmp_path: Path) -> None:
    with _servers("etcd", tmp_path) as servers:
        async with rpc.insecure_channel(servers.endpoints[0]) as channel:
            auth = rpc.AuthStub(channel)
            await auth.UserAdd(rpc.AuthUserAddRequest(name="root", password="secret"))
            await auth.UserGrantRole(rpc.AuthUserGrantRoleRequest(user="root", role="root"))
            await auth.AuthEnable(rpc.AuthEnableRequest())
        store = open_store(_settings(servers, "/p"))
        with pytest.raises(StoreRefused, match="does not allow it"):
            await store.open()
        await store.close()


@pytest.mark.parametrize("servers", ["zookeeper"], indirect=True)
async def test_a_store_that_does_not_allow_it_is_named(servers: Servers, prefix: str) -> None:
    def shut() -> None:
        client = KazooClient(hosts=servers.endpoints[0])
        client.start(LIMIT_SECONDS)
        acl = make_digest_acl("operator", "secret", all=True)
        client.create(prefix, b"", acl=[acl])
        client.stop()
        client.close()

    await asyncio.get_running_loop().run_in_executor(None, shut)
    store = open_store(_settings(servers, prefix))
    with pytest.raises(StoreRefused, match="does not allow it"):
        await store.open()
    await store.close()


@pytest.mark.needs("openssl")
async def test_the_certificate_of_the_store_is_checked(kind: str, tmp_path: Path) -> None:
    authority, stranger = Authority(tmp_path / "a"), Authority(tmp_path / "b")
    own = authority.issue("store")
    with _servers(kind, tmp_path / kind, tls=(own.cert, own.key)) as servers:
        async with _store(servers, "/p", store_ca_path=str(authority.cert)) as trusting:
            assert list(await trusting.read()) == ["identity"]
        doubting = open_store(_settings(servers, "/p", store_ca_path=str(stranger.cert)))
        with pytest.raises(StoreUntrusted, match="storeCaPath"):
            await doubting.open()
        await doubting.close()
