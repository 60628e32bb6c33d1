"""A slave of one make follows a master of the other, killed within records: one log, byte for byte."""

from __future__ import annotations

import random
import signal
from contextlib import ExitStack
from pathlib import Path

import pytest

from orbitmq import Message
from orbitmq.net.blocking import BlockingConnection
from orbitmq.protocol.errors import OrbitError
from orbitmq.protocol.requests.admin import GetBrokerRuntimeInfo
from orbitmq.sync import Producer
from tests.peers.apache import Apache
from tests.peers.machine import LOOPBACK, Process, free_port
from tests.peers.orbitmq_process import OrbitMQ, program

SEGMENT = 4 << 20
COMMON = {"mappedFileSizeCommitLog": SEGMENT, "haSendHeartbeatInterval": 500, "brokerName": "broker-a"}
SLAVE = {**COMMON, "brokerRole": "SLAVE", "brokerId": 1}

pytestmark = pytest.mark.timeout(600)


class Slave:
    """A slave that can die and come back on its store."""

    def __init__(self, make: str, master: Apache | OrbitMQ, store: Path) -> None:
        self._make, self._master, self.store = make, master, store
        self.address = ""
        self.process: Process

    def start(self) -> None:
        if self._make == "apache":
            apache = Apache.start(self.store, SLAVE, self._master.namesrv)
            self.address, self.process = apache.broker, apache.broker_process
            return
        port, ready = free_port((-2, 0, 1)), self.store.with_name("ready")
        ready.unlink(missing_ok=True)
        command = [
            *program(self.store.parent),
            "broker",
            f"--namesrv={self._master.namesrv}",
            f"--port={port}",
        ]
        command += [f"--data-dir={self.store}", "--broker-id=1", f"--ready-file={ready}"]
        for name, value in SLAVE.items():
            command += ["--set", f"{name}={value}"] if name != "brokerId" else []
        self.address = f"{LOOPBACK}:{port}"
        self.process = Process(command, self.store.with_name("slave.out"))
        self.process.wait_until("the slave is ready", ready.exists, 60)

    def kill(self) -> None:
        self.process.end(signal.SIGKILL)


def log_end(address: str) -> int:
    try:
        with BlockingConnection(address) as connection:
            body = connection.call(GetBrokerRuntimeInfo()).body
    except OrbitError:  # Apache's broker cannot say so in its first second
        return -1
    return int((body.table or {})["commitLogMaxOffset"])


def log_bytes(store: Path, begin: int, end: int) -> bytes:
    data = b"".join(
        (store / "commitlog" / f"{start:020d}").read_bytes() for start in range(begin, end, SEGMENT)
    )
    return data[: end - begin]


def first_segment(store: Path) -> int:
    return min(int(path.name) for path in (store / "commitlog").iterdir() if path.name.isdigit())


@pytest.mark.parametrize(
    ("master_make", "slave_make", "kills"),
    [
        ("orbitmq", "apache", 1),
        pytest.param("orbitmq", "apache", 2, marks=pytest.mark.nightly),
        pytest.param("apache", "orbitmq", 2, marks=pytest.mark.nightly),
    ],
)
def test_one_log_after_kills_in_the_middle_of_records(
    tmp_path: Path, master_make: str, slave_make: str, kills: int
) -> None:
    sizes = random.Random(3)
    with ExitStack() as stack:
        start = Apache.start if master_make == "apache" else OrbitMQ.start
        master = start(tmp_path / "master", COMMON)
        stack.callback(master.kill)
        slave = Slave(slave_make, master, tmp_path / "slave")
        with Producer(group="P", namesrv=master.namesrv) as producer:

            def send(count: int) -> None:
                for _ in range(count):
                    body = sizes.randbytes(sizes.choice([20, 3_000, 90_000]))
                    assert producer.send(Message("T", body)).status.name == "SEND_OK"

            send(100)
            slave.start()
            stack.callback(slave.kill)
            for _ in range(kills):
                send(60)
                slave.kill()
                slave.start()
            send(60)
        end = log_end(master.broker)
        slave.process.wait_until("the slave has all of the log", lambda: log_end(slave.address) == end, 60)
        begin = max(first_segment(master.store), first_segment(slave.store))
        assert end - begin > SEGMENT // 2
        assert log_bytes(slave.store, begin, end) == log_bytes(master.store, begin, end)
