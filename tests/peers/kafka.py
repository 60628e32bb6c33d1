"""Apache Kafka 3.9 from Maven Central, as a peer: one broker that is its own controller, on the loopback."""

from __future__ import annotations

import signal
import socket
import time
from pathlib import Path
from typing import Self

from tests.kit.class_archives import QUICK_START
from tests.needs import java
from tests.peers.machine import LOOPBACK, Process, free_port, jars

POM = Path(__file__).parent / "judge" / "kafka" / "pom.xml"
START_SECONDS = 120


class Kafka:
    """A broker below a folder, for as long as it is entered. Topics are not made by themselves."""

    path = (POM, "kafka-3.9.1")
    """The list of jars, those of its client among them, and the name of their folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port, self._controller_port = free_port(), free_port()
        self._process: Process | None = None

    @property
    def address(self) -> str:
        """Address for clients."""
        return f"{LOOPBACK}:{self._port}"

    def start(self) -> None:
        """Returns when it accepts connections."""
        log = self._folder / "kafka.log"
        self._process = Process(
            [
                java(), *QUICK_START, "-Xms64m", "-Xmx256m", "-cp", f"{jars(*self.path)}/*",
                "kafka.Kafka", str(self._folder / "server.properties"),
            ],
            log,
        )  # fmt: skip
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                socket.create_connection((LOOPBACK, self._port), 1).close()
                return
            except OSError:
                assert time.monotonic() < deadline, self._process.tail()
                time.sleep(0.05)

    def kill(self) -> None:
        """Ends it as kill -9 does."""
        assert self._process is not None
        self._process.end(signal.SIGKILL)

    def __enter__(self) -> Self:
        data = self._folder / "data"
        data.mkdir(parents=True)
        options = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{LOOPBACK}:{self._controller_port}",
            "listeners": f"PLAINTEXT://{self.address},CONTROLLER://{LOOPBACK}:{self._controller_port}",
            "advertised.listeners": f"PLAINTEXT://{self.address}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": str(data),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            "auto.create.topics.enable": "false",
            "log.cleaner.dedupe.buffer.size": "2097152",
            "log.segment.bytes": "16777216",
        }
        text = "".join(f"{name}={value}\n" for name, value in options.items())
        (self._folder / "server.properties").write_text(text)
        (data / "meta.properties").write_text(
            "version=1\ncluster.id=b3JiaXRtcS10ZXN0cw0KMQ\nnode.id=1\ndirectory.id=b3JiaXRtcS10ZXN0cw0KMg\n"
        )
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
