"""Backup and restore of a real etcd and a real ZooKeeper, and of a whole cluster with it."""

from __future__ import annotations

import shutil
import signal
import threading
from pathlib import Path

import pytest

from orbitmq import FIRST_OFFSET, Message, ReceivedMessage
from orbitmq.cli.app import run
from orbitmq.controller.backup import groups_in
from orbitmq.controller.group import BrokerGroup
from orbitmq.controller.options import ControllerSettings
from orbitmq.server.controller.backup import StoreInUse, read_decisions, write_decisions
from orbitmq.server.controller.consensus import ConsensusError
from orbitmq.server.controller.stores import open_store
from orbitmq.store.snapshot import take_snapshot
from orbitmq.sync import Producer, PushConsumer
from orbitmq.testing import LocalCluster
from orbitmq.testing.local_etcd import LocalEtcd
from tests.kit.brokers import others_at_night
from tests.needs import need
from tests.peers.zookeeper import ZooKeeper

GROUP = BrokerGroup(cluster="c", name="g").to_text()
TEXTS = {"groups/g": GROUP, "options": "a=b\n"}
KINDS = ("etcd", "zookeeper")


def servers(kind: str, folder: Path) -> LocalEtcd | ZooKeeper:
    if kind == "etcd":
        need("etcd")
        return LocalEtcd(folder)
    need("java", "mvn")
    return ZooKeeper(folder)


@pytest.mark.parametrize("kind", others_at_night(KINDS, ["etcd"]))
async def test_decisions_are_written_to_a_store_without_controllers_alone(kind: str, tmp_path: Path) -> None:
    with servers(kind, tmp_path / kind) as consensus:
        store = open_store(ControllerSettings(store_address=consensus.address, store_prefix="/p"))
        try:
            with pytest.raises(
                ConsensusError, match="holds no broker group: check the address and storePrefix"
            ):
                await read_decisions(store)
            await write_decisions(store, TEXTS)
            assert groups_in(await read_decisions(store)) == ["g"]
            with pytest.raises(StoreInUse, match=r"broker groups already \(g\): --replace"):
                await write_decisions(store, TEXTS)
            # More than one transaction takes, with what goes.
            other = {f"groups/{number} of ä/b": GROUP for number in range(150)}
            await write_decisions(store, other, replaces=True)
            found = await read_decisions(store)
            assert {key: found[key] for key in found if key.startswith(("groups/", "options"))} == other
            lease = await store.grant(10)
            await store.put("members/id/1", "127.0.0.1:1", lease.id)
            with pytest.raises(StoreInUse, match="stop all of them first"):
                await write_decisions(store, TEXTS, replaces=True)
            await store.revoke(lease.id)
            await write_decisions(store, TEXTS, replaces=True)
            assert groups_in(await read_decisions(store)) == ["g"]
        finally:
            await store.close()


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", KINDS)
def test_a_whole_cluster_comes_back_from_snapshots_and_the_decisions_of_its_controllers(
    kind: str, tmp_path: Path
) -> None:
    """The brokers' copies are of different times, and the newest one is that of the slave."""
    backup = tmp_path / "backup"
    backup.mkdir()
    cluster = LocalCluster(tmp_path / "c", slaves=1, mode="sync-master", failover=True)
    cluster.nodes = tuple(node for node in cluster.nodes if node.kind != "etcd")
    with servers(kind, tmp_path / kind) as consensus:
        for node in cluster.nodes:
            if node.kind == "controller":
                node.options["storeAddress"] = consensus.address
        with cluster as made:
            story(made, consensus, backup)


def story(made: LocalCluster, consensus: LocalEtcd | ZooKeeper, backup: Path) -> None:
    store = f"--store={consensus.address}"

    def send(first: int, end: int) -> None:
        with Producer(group="P", namesrv=made.namesrv, delivery_timeout_ms=60_000) as producer:
            for number in range(first, end):
                assert producer.send(Message("T", b"%d" % number)).status.name == "SEND_OK"

    send(0, 10)
    assert run(["admin", "store", "backup", str(backup / "decisions.json"), store]) == 0
    master = made.master()
    assert master is not None
    names = sorted((node.name for node in made.nodes if node.group), key=lambda one: one != master.name)
    for number, name in enumerate(names):
        take_snapshot(made.data_folder(name), backup / name)
        send(10 + 10 * number, 20 + 10 * number)
    made.halt()
    consensus.signal(signal.SIGKILL)
    consensus.wipe()
    for name in names:
        shutil.rmtree(made.data_folder(name))
        shutil.copytree(backup / name, made.data_folder(name))
    consensus.start()
    assert run(["admin", "store", "restore", str(backup / "decisions.json"), store]) == 0
    made.start()
    send(100, 101)
    got: set[bytes] = set()
    done = threading.Event()

    def handle(message: ReceivedMessage) -> None:
        got.add(message.body)
        if b"100" in got and len(got) >= 21:
            done.set()

    with PushConsumer("G", made.namesrv, consume_from_where=FIRST_OFFSET) as consumer:
        consumer.subscribe("T", "*", handle)
        assert done.wait(60), got
    assert {b"%d" % number for number in range(20)} <= got
