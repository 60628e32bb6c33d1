"""Apache RocketMQ 5.4.0 from Maven Central, as a peer: name server and broker on a store directory.

`python -m tests.peers.apache STORE [NAME=VALUE ...]` runs it until Ctrl-C, to look at something by hand.
"""

from __future__ import annotations

import signal
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.kit import class_archives
from tests.kit.class_archives import QUICK_START
from tests.needs import java
from tests.peers.machine import LOOPBACK, Process, ended_on_error, free_port, jars, registered

POM = Path(__file__).parent / "judge" / "apache" / "pom.xml"
OLD_POM = Path(__file__).parent / "judge" / "apache-4.9" / "pom.xml"
"""4.9.7, the last release before 5.0 that Maven Central has."""

OPENS = [
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
]
"""Flags that Apache needs of Java 17 and later."""


class Apache:
    """A running name server and broker (`broker-a`, id 0, of DefaultCluster), both on free ports."""

    name = "apache"
    path = (POM, "apache-5.4.0")
    """The list of jars, and the name of their folder."""

    def __init__(self, store: Path, home: Path, namesrv_port: int, broker_port: int) -> None:
        self.store = store
        self.home = home
        self.namesrv = f"{LOOPBACK}:{namesrv_port}"
        """The name server's address."""
        self.broker = f"{LOOPBACK}:{broker_port}"
        """The broker's address."""
        self._processes: list[Process] = []

    @classmethod
    def start(
        cls,
        store_dir: Path,
        broker_props: Mapping[str, object] | None = None,
        namesrv: str = "",
        broker_port: int = 0,
    ) -> Apache:
        """Starts both on `store_dir` (made if it is not there) and returns once the broker is registered.

        `broker_props` are lines of broker.conf: they win over what is set here. With the address of a name
        server the broker alone is started, and registers there; on a port of your choice or on a free one.
        """
        home = Path(tempfile.mkdtemp(prefix="apache-"))
        store_dir.mkdir(parents=True, exist_ok=True)
        started = cls(store_dir, home, free_port(), broker_port or free_port((-2, 0, 1)))
        if namesrv:
            started.namesrv = namesrv
            started._run_broker(broker_props or {})
        else:
            started.run(broker_props or {})
        return started

    def run(self, broker_props: Mapping[str, object]) -> None:
        port = self.namesrv.rpartition(":")[2]
        namesrv = self._java(
            "namesrv",
            ["-Xmx256m", "org.apache.rocketmq.namesrv.NamesrvStartup"],
            {
                "listenPort": port,
                "bindAddress": LOOPBACK,
                "kvConfigPath": self.home / "kv.json",
                "configStorePath": self.home / "namesrv.properties",
            },
        )
        with ended_on_error(namesrv):
            namesrv.wait_until("the name server boots", lambda: "boot success" in namesrv.tail(), 90)
            self._run_broker(broker_props)
        self._processes.append(namesrv)

    def _run_broker(self, broker_props: Mapping[str, object]) -> None:
        broker = self._java(
            "broker",
            ["-Xmx1g", "-XX:MaxDirectMemorySize=2g", "org.apache.rocketmq.broker.BrokerStartup"],
            {
                "brokerClusterName": "DefaultCluster",
                "brokerName": "broker-a",
                "brokerId": 0,
                "namesrvAddr": self.namesrv,
                "listenPort": self.broker.rpartition(":")[2],
                "haListenPort": int(self.broker.rpartition(":")[2]) + 1,
                "bindAddress": LOOPBACK,
                "brokerIP1": LOOPBACK,
                "brokerIP2": LOOPBACK,
                "storePathRootDir": self.store,
                "storePathCommitLog": self.store / "commitlog",
                "flushDiskType": "ASYNC_FLUSH",
                # A busy machine with a full disk is no reason to refuse a test's messages.
                "diskMaxUsedSpaceRatio": 95,
                "diskSpaceCleanForciblyRatio": 97,
                "diskSpaceWarningLevelRatio": 98,
                "waitTimeMillsInSendQueue": 10000,
                # Comparing the timer wheel with its file each second takes half a core.
                "timerFlushIntervalMs": 600_000,
                **broker_props,
            },
        )
        with ended_on_error(broker):
            broker.wait_until(
                "the broker boots and registers",
                lambda: "boot success" in broker.tail() and registered(self.namesrv, self.broker),
                120,
            )
        self._processes = [broker]

    @classmethod
    def controller(cls, folder: Path, raft: str = "DLedger") -> tuple[str, Process]:
        """Starts one controller on DLedger or jRaft; its address, and its process, which the caller ends."""
        home = Path(tempfile.mkdtemp(prefix="apache-"))
        started = cls(folder, home, 0, 0)
        port = free_port((0, 1))
        address = f"{LOOPBACK}:{port if raft == 'DLedger' else port + 1}"
        process = started._java(
            "controller",
            ["-Xmx256m", "org.apache.rocketmq.controller.ControllerStartup"],
            {
                "controllerType": raft,
                "controllerDLegerGroup": "tests",
                "controllerDLegerPeers": f"n0-{address}",
                "controllerDLegerSelfId": "n0",
                "jRaftGroupId": "tests",
                "jRaftServerId": f"{LOOPBACK}:{port}",
                "jRaftInitConf": f"{LOOPBACK}:{port}",
                "jRaftControllerRPCAddr": f"{LOOPBACK}:{port + 1}",
                "controllerStorePath": folder,
                "mappedFileSize": 16 << 20,
                "bindAddress": LOOPBACK,
                "listenPort": free_port(),
                "scanNotActiveBrokerInterval": 1000,
                "scanInactiveMasterInterval": 1000,
            },
        )
        with ended_on_error(process):
            process.wait_until("the controller boots", lambda: "boot success" in process.tail(), 90)
        return address, process

    def _java(self, name: str, what: list[str], settings: Mapping[str, object]) -> Process:
        conf = self.home / f"{name}.conf"
        conf.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        homes = [
            f"-Duser.home={self.home}",
            f"-Drocketmq.home.dir={self.home}",
            f"-Drocketmq.log.dir={self.home}/logs",
        ]
        path = f"{jars(*self.path)}/*"
        command = [java(), *homes, *OPENS, *self._quick_start(name), "-cp", path, *what, "-c", str(conf)]
        return Process(command, self.home / f"{name}.out")

    def _quick_start(self, name: str) -> list[str]:
        return [*QUICK_START, *class_archives.flags(self.path[1])]

    @property
    def broker_process(self) -> Process:
        """The broker's process."""
        return self._processes[0]

    def alive(self) -> bool:
        """True if both processes run."""
        return all(process.alive() for process in self._processes)

    def tail(self) -> str:
        """The end of the broker's output."""
        return self._processes[0].tail()

    def stop(self) -> None:
        """An orderly stop: SIGTERM, and both processes gone."""
        for process in self._processes:
            process.end(signal.SIGTERM)

    def kill(self) -> None:
        """A process death: SIGKILL."""
        for process in self._processes:
            process.end(signal.SIGKILL)


class OldApache(Apache):
    """A name server and a broker of 4.9."""

    path = (OLD_POM, "apache-4.9.7")

    def _java(self, name: str, what: list[str], settings: Mapping[str, object]) -> Process:
        logs = self.home / "conf"
        logs.mkdir(exist_ok=True)
        (logs / f"logback_{name}.xml").write_text("<configuration/>")
        return super()._java(name, what, settings)


def main(store: str, *settings: str) -> None:
    """Runs until Ctrl-C."""
    apache = Apache.start(Path(store).resolve(), dict(one.split("=", 1) for one in settings))
    print(f"name server {apache.namesrv}, broker {apache.broker}, logs in {apache.home}; Ctrl-C ends it")
    try:
        signal.pause()
    except KeyboardInterrupt:
        apache.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
