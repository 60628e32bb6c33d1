"""Brokers of Apache and ours under controllers: a killed master is replaced, nothing acknowledged is lost."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from orbitmq import Message
from orbitmq.net.blocking import BlockingConnection
from orbitmq.protocol.errors import OrbitError
from orbitmq.protocol.requests.controller import ControllerGetReplicaInfo
from orbitmq.protocol.requests.offset import GetMaxOffset
from orbitmq.sync import Admin, Producer
from orbitmq.testing import LocalCluster
from tests.kit.brokers import others_at_night
from tests.needs import need
from tests.peers.apache import Apache
from tests.peers.controlled_group import Group

pytestmark = pytest.mark.timeout(600)
MESSAGES = 200


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Group]:
    need("java", "mvn", "etcd")
    with ExitStack() as stack:
        yield Group(tmp_path, stack)


def _max_offset(address: str, topic: str) -> int:
    with BlockingConnection(address) as connection:
        return sum(connection.call(GetMaxOffset(topic, queue)).offset for queue in range(4))


@pytest.mark.nightly
def test_apaches_brokers_follow_our_controllers(group: Group) -> None:
    first, second = group.brokers
    first.broker_process.wait_until("both are in sync", lambda: group.in_sync() == 2, 60)
    assert group.master() == first.broker
    with Admin(group.namesrv) as admin:
        admin.create_topic("kept", queues=4)
    with Producer(
        "p",
        group.namesrv,
        delivery_timeout_ms=60_000,
        retry_times_when_send_failed=100,
        poll_name_server_interval_ms=1000,
    ) as producer:
        for number in range(MESSAGES):
            producer.send(Message("kept", str(number).encode()))
        leader = group.leader()
        assert leader is not None
        group.controllers[leader].end(signal.SIGKILL)
        first.kill()
        second.broker_process.wait_until(
            "the other controller leads", lambda: group.leader() not in (None, leader), 30
        )
        second.broker_process.wait_until(
            "the other one is master", lambda: group.master() == second.broker, 60
        )
        for number in range(MESSAGES, 2 * MESSAGES):
            producer.send(Message("kept", str(number).encode()))
    assert _max_offset(second.broker, "kept") >= 2 * MESSAGES
    # A master that a busy machine keeps from its heartbeats is elected again, in the next epoch.
    epochs = [one["epoch"] for one in group.ask("events", "broker-a")]  # type: ignore[attr-defined]
    assert len(epochs) >= 2
    assert epochs == list(range(1, len(epochs) + 1)), "an epoch stands for one election"

    shell = group.shell()
    one = next(address for address in group.controllers if address != leader)
    printed = shell.run(f"updateControllerConfig -a {one} -k notifyBrokerRoleChanged -v false")
    assert not printed.thrown(), printed.err
    assert "notifyBrokerRoleChanged=false" in shell.run(f"getControllerConfig -a {one}").out.replace(" ", "")
    assert shell.run(f"cleanBrokerMetadata -a {one} -bn broker-a -b 2 -c DefaultCluster").thrown(), "it lives"
    printed = shell.run(f"cleanBrokerMetadata -a {one} -bn broker-a -b 1 -c DefaultCluster")
    assert not printed.thrown(), printed.err
    assert [member["id"] for member in group.members()] == [2]


def test_a_broker_of_ours_and_one_of_apaches_take_each_others_place(tmp_path: Path) -> None:
    need("java", "mvn", "etcd")
    with ExitStack() as stack:
        group = Group(tmp_path, stack, mixed=True)
        ours, process = group.ours("ours")
        process.wait_until("ours is master", lambda: group.master() == ours, 120)
        apache = group.apaches("theirs")
        process.wait_until("both are in sync", lambda: group.in_sync() == 2, 60)
        with Admin(group.namesrv) as admin:
            admin.create_topic("kept", queues=4)
        apache.broker_process.wait_until("the topic is there", lambda: _knows(apache.broker, "kept"), 60)
        with Producer("p", group.namesrv, delivery_timeout_ms=60_000) as producer:

            def send(first: int) -> None:
                for number in range(first, first + MESSAGES):
                    producer.send(Message("kept", b"message %d." % number))

            send(0)
            process.end(signal.SIGKILL)
            apache.broker_process.wait_until(
                "Apache's is master", lambda: group.master() == apache.broker, 60
            )
            send(MESSAGES)
            ours, process = group.ours("ours")
            process.wait_until("both are in sync again", lambda: group.in_sync() == 2, 60)
            apache.kill()
            process.wait_until("ours is master again", lambda: group.master() == ours, 60)
            send(2 * MESSAGES)
        log = b"".join(
            segment.read_bytes() for segment in sorted((tmp_path / "ours" / "store" / "commitlog").iterdir())
        )
        assert [number for number in range(3 * MESSAGES) if b"message %d." % number not in log] == []
        assert [one["epoch"] for one in group.ask("events", "broker-a")] == [1, 2, 3]  # type: ignore[attr-defined]


@pytest.mark.parametrize("raft", others_at_night(["DLedger", "jRaft"], ["DLedger"]))
def test_brokers_of_ours_follow_apaches_controller(raft: str, tmp_path: Path) -> None:
    need("java", "mvn")
    address, controller = Apache.controller(tmp_path / "controller", raft)
    try:
        with LocalCluster(
            tmp_path / "cluster",
            slaves=1,
            mode="sync-master",
            brokerRole="SYNC_MASTER",
            enableControllerMode="true",
            allAckInSyncStateSet="true",
            controllerAddr=address,
            checkSyncStateSetPeriod=200,
        ) as cluster:
            controller.wait_until("both are in sync", lambda: _in_sync(address) == 2, 60)
            with Producer("p", cluster.namesrv, delivery_timeout_ms=60_000) as producer:
                for number in range(MESSAGES):
                    producer.send(Message("kept", b"message %d." % number))
                first = cluster.master()
                assert first is not None
                cluster.kill(first.name)
                for number in range(MESSAGES, 2 * MESSAGES):
                    producer.send(Message("kept", b"message %d." % number))
            second = cluster.master()
            assert second is not None
            assert second.name != first.name
            folder = cluster.data_dir / second.name / "data" / "commitlog"
            log = b"".join(segment.read_bytes() for segment in sorted(folder.iterdir()))
            assert [one for one in range(2 * MESSAGES) if b"message %d." % one not in log] == []
    finally:
        controller.end(signal.SIGKILL)


def _in_sync(controller: str) -> int:
    with BlockingConnection(controller) as connection:
        body = connection.call(ControllerGetReplicaInfo("broker-a")).body
        return 0 if body is None else len(body.sync_state_set or ())


def _knows(address: str, topic: str) -> bool:
    try:
        _max_offset(address, topic)
    except OrbitError:
        return False
    return True
