"""Times without service when a master is lost: OrbitMQ's group and Apache's, fault by fault in turn.

`python -m tests.peers.outages FOLDER [ROUNDS]` prints them. Each group is two brokers under controllers of
their own kind, with the same time limits, a name server of OrbitMQ and the same producer, OrbitMQ's. Brokers
and controllers are all that differs.
"""

from __future__ import annotations

import itertools
import os
import re
import signal
import statistics
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from orbitmq import Message
from orbitmq.net.blocking import BlockingConnection
from orbitmq.protocol.errors import OrbitError
from orbitmq.protocol.requests.controller import ControllerGetReplicaInfo
from orbitmq.sync import Admin, Producer
from orbitmq.testing import LocalCluster
from tests.peers.apache import Apache

GROUP = "broker-a"
SETTINGS: dict[str, object] = {
    "enableControllerMode": "true",
    "allAckInSyncStateSet": "true",
    "brokerRole": "SYNC_MASTER",
    "controllerHeartBeatTimeoutMills": 3_000,
    "checkSyncStateSetPeriod": 500,
    "syncControllerMetadataPeriod": 1_000,
    "syncBrokerMetadataPeriod": 1_000,
}
FAULTS = ("kill -9", "SIGSTOP")
LIMIT_SECONDS = 180


def until(what: str, is_so: Callable[[], bool]) -> None:
    """Returns once something holds."""
    end = time.monotonic() + LIMIT_SECONDS
    while not is_so():
        assert time.monotonic() < end, what
        time.sleep(0.02)


class Brokers(ABC):
    """A group of two brokers whose master a controller decides; entered, it runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.namesrv = ""
        self.controllers: list[str] = []

    def replica_info(self) -> tuple[str, int]:
        """Address of the master, and the number of in-sync brokers, by the leading controller's word."""
        for address in self.controllers:
            try:
                with BlockingConnection(address) as connection:
                    reply = connection.call(ControllerGetReplicaInfo(GROUP))
            except OrbitError:
                continue
            ids = set() if reply.body is None else reply.body.sync_state_set or set()
            return reply.master_address or "", len(ids)
        return "", 0

    def both_in_sync(self) -> None:
        """Waits for it."""
        until("both are in sync", lambda: self.replica_info()[1] == 2)

    @abstractmethod
    def pid(self, address: str) -> int:
        """The process of a broker."""

    @abstractmethod
    def start_again(self, address: str) -> None:
        """Starts a broker whose process was killed."""

    @abstractmethod
    def logs(self) -> list[bytes]:
        """All bytes of each broker's commit log."""

    @abstractmethod
    def __enter__(self) -> Brokers: ...

    @abstractmethod
    def __exit__(self, *_: object) -> None: ...


class OrbitMQBrokers(Brokers):
    """OrbitMQ's brokers under two controllers on one etcd."""

    def __enter__(self) -> Brokers:
        self._cluster = LocalCluster(self.folder, slaves=1, mode="sync-master", failover=True, **SETTINGS)
        self._cluster.start()
        self.namesrv = self._cluster.namesrv
        self.controllers = [node.address for node in self._cluster.nodes if node.kind == "controller"]
        return self

    def __exit__(self, *_: object) -> None:
        self._cluster.halt()

    def _name(self, address: str) -> str:
        return next(node.name for node in self._cluster.nodes if node.address == address)

    def pid(self, address: str) -> int:
        return self._cluster.pid(self._name(address))

    def start_again(self, address: str) -> None:
        self._cluster.start_node(self._name(address))

    def logs(self) -> list[bytes]:
        names = [node.name for node in self._cluster.nodes if node.group == GROUP]
        return [_log(self.folder / name / "data" / "commitlog") for name in names]


class ApacheBrokers(Brokers):
    """Apache's brokers under one controller on DLedger."""

    def __enter__(self) -> Brokers:
        self._stack = ExitStack()
        names = self._stack.enter_context(LocalCluster(self.folder / "names", masters=0))
        self.namesrv = names.namesrv
        address, controller = Apache.controller(self.folder / "controller")
        self._stack.callback(controller.end, signal.SIGKILL)
        self.controllers = [address]
        self._running: dict[Path, Apache] = {}
        for name in ("one", "two"):
            self._start(self.folder / name)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _start(self, store: Path) -> None:
        settings = {**SETTINGS, "controllerAddr": self.controllers[0], "mappedFileSizeCommitLog": 16 << 20}
        broker = self._running[store] = Apache.start(store, settings, self.namesrv)
        self._stack.callback(broker.kill)

    def _store(self, address: str) -> Path:
        return next(store for store, broker in self._running.items() if broker.broker == address)

    def pid(self, address: str) -> int:
        return self._running[self._store(address)].broker_process.pid

    def start_again(self, address: str) -> None:
        self._start(self._store(address))

    def logs(self) -> list[bytes]:
        return [_log(store / "commitlog") for store in self._running]


def _log(folder: Path) -> bytes:
    return b"".join(segment.read_bytes() for segment in sorted(folder.iterdir()))


class Load:
    """A producer that sends one message after another, and the times of its acknowledgements."""

    def __init__(self, namesrv: str) -> None:
        with Admin(namesrv) as admin:
            admin.create_topic("outages", queues=4)
        self._namesrv = namesrv
        self._stop = threading.Event()
        self._acknowledged: list[float] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self.more(50)

    @property
    def count(self) -> int:
        """Number of acknowledged messages, which have the bodies `message 0.`, `message 1.` and so on."""
        return len(self._acknowledged)

    def _run(self) -> None:
        with Producer("p", self._namesrv, delivery_timeout_ms=LIMIT_SECONDS * 1000) as producer:
            while not self._stop.is_set():
                producer.send(Message("outages", b"message %d." % self.count))
                self._acknowledged.append(time.monotonic())

    def more(self, count: int) -> None:
        """Waits until so many more are acknowledged."""
        seen = self.count
        until("messages are acknowledged", lambda: self.count >= seen + count)

    def longest_pause(self, since: int) -> float:
        """The longest time between two acknowledgements behind the first `since`."""
        times = self._acknowledged[since:]
        return max(after - before for before, after in itertools.pairwise(times))

    def stop(self) -> None:
        """Ends it."""
        self._stop.set()
        self._thread.join()


def outage(brokers: Brokers, load: Load, fault: str) -> float:
    """The time without service when the master is killed or paused, and the group as it was before."""
    brokers.both_in_sync()
    master, _ = brokers.replica_info()
    load.more(50)
    since = load.count - 1
    pid = brokers.pid(master)
    os.kill(pid, signal.SIGKILL if fault == "kill -9" else signal.SIGSTOP)
    until("another master", lambda: brokers.replica_info()[0] not in ("", master))
    load.more(50)
    pause = load.longest_pause(since)
    if fault == "kill -9":
        brokers.start_again(master)
    else:
        os.kill(pid, signal.SIGCONT)
    return pause


def lost(brokers: Brokers, load: Load) -> int:
    """Acknowledged messages that one of the brokers does not have in the end."""
    brokers.both_in_sync()
    time.sleep(1)
    held = [set(re.findall(rb"message (\d+)\.", log)) for log in brokers.logs()]
    return sum(any(b"%d" % number not in one for one in held) for number in range(load.count))


def measure(folder: Path, rounds: int, kinds: tuple[type[Brokers], ...], faults: tuple[str, ...]) -> None:
    """Prints the outages of each kind under each fault, and what was lost."""
    with ExitStack() as stack:
        groups = [stack.enter_context(kind(folder / kind.__name__)) for kind in kinds]
        loads = [Load(group.namesrv) for group in groups]
        for fault in faults:
            found: list[list[float]] = [[] for _ in groups]
            for _ in range(rounds):
                for group, load, pauses in zip(groups, loads, found, strict=True):
                    pauses.append(outage(group, load, fault))
            for group, pauses in zip(groups, found, strict=True):
                shown = " ".join(f"{one:.2f}" for one in sorted(pauses))
                print(
                    f"{fault:8} {type(group).__name__:15} median {statistics.median(pauses):.2f} s; {shown}",
                    flush=True,
                )
        for group, load in zip(groups, loads, strict=True):
            load.stop()
            print(
                f"{type(group).__name__}: {lost(group, load)} of {load.count} acknowledged messages lost",
                flush=True,
            )


if __name__ == "__main__":
    given_rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    measure(Path(sys.argv[1]).resolve(), given_rounds, (OrbitMQBrokers, ApacheBrokers), FAULTS)
