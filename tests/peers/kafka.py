"""Apache Kafka 3.9 from Maven Central, as a peer: one broker that is its own controller, on the loopback."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from tests.certificates import Pair
from tests.kit.class_archives import QUICK_START
from tests.needs import java
from tests.peers.machine import LOOPBACK, Process, free_port, jars

POM = Path(__file__).parent / "judge" / "kafka" / "pom.xml"
START_SECONDS = 120


class Kafka:
    """A broker below a folder, for as long as it is entered. Topics are not made by themselves."""

    path = (POM, "kafka-3.9.1")
    """The list of jars, those of its client among them, and the name of their folder."""

    def __init__(self, folder: Path, tls: Pair | None = None, users: Mapping[str, str] | None = None) -> None:
        """With `tls`, there is a second address, with TLS and with the names and secrets of `users`."""
        self._folder = folder
        self._tls, self._users = tls, users or {}
        self._port, self._controller_port, self._guarded_port = free_port(), free_port(), free_port()
        self._process: Process | None = None

    @property
    def address(self) -> str:
        """Address for clients."""
        return f"{LOOPBACK}:{self._port}"

    @property
    def guarded_address(self) -> str:
        """Address for clients with TLS and a user."""
        return f"{LOOPBACK}:{self._guarded_port}"

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
        if self._tls is not None:
            options.update(self._guarded(self._tls, options))
        text = "".join(f"{name}={value}\n" for name, value in options.items())
        (self._folder / "server.properties").write_text(text)
        (data / "meta.properties").write_text(
            "version=1\ncluster.id=b3JiaXRtcS10ZXN0cw0KMQ\nnode.id=1\ndirectory.id=b3JiaXRtcS10ZXN0cw0KMg\n"
        )
        self.start()
        return self

    def _guarded(self, tls: Pair, options: Mapping[str, str]) -> dict[str, str]:
        pem = self._folder / "server.pem"
        pem.write_text(tls.key.read_text() + tls.cert.read_text())
        users = " ".join(f'user_{name}="{secret}"' for name, secret in self._users.items())
        login = f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"
        listener = f",SASL_SSL://{self.guarded_address}"
        protocols = "listener.security.protocol.map"
        return {
            "listeners": options["listeners"] + listener,
            "advertised.listeners": options["advertised.listeners"] + listener,
            protocols: f"{options[protocols]},SASL_SSL:SASL_SSL",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_ssl.plain.sasl.jaas.config": login,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(pem),
        }

    def __exit__(self, *_: object) -> None:
        self.kill()
