"""A broker, OrbitMQ's or Apache's, with a proxy before it as a process of its own: ours, or Apache's."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from tests.kit.class_archives import QUICK_START
from tests.needs import java
from tests.peers.apache import OPENS, Apache
from tests.peers.machine import LOOPBACK, Process, ended_on_error, free_port, jars
from tests.peers.orbitmq_process import OrbitMQ

APACHE_POM = Path(__file__).parent / "judge" / "apache-proxy" / "pom.xml"


class BehindProxy:
    """The same interface as that of the broker, and the addresses of the proxy."""

    def __init__(self, broker: OrbitMQ | Apache) -> None:
        self._broker = broker
        self._process: Process
        self.namesrv = broker.namesrv
        self.home = broker.home
        grpc, remoting = free_port(), free_port()
        self.proxy = f"{LOOPBACK}:{grpc}"
        """Where clients of RocketMQ 5 connect to."""
        self.remoting = f"{LOOPBACK}:{remoting}"
        """What clients of RocketMQ 4 take for their name server."""

    @classmethod
    def start(cls, broker: OrbitMQ | Apache) -> Self:
        """Starts a proxy before a running broker; returns once it is ready."""
        started = cls(broker)
        started._process = started._run()
        return started

    def _run(self) -> Process:
        ready = self.home / "proxy-ready"
        command = [
            *(str(Path(sys.executable).with_name("orbitmq")), "proxy", f"--namesrv={self.namesrv}"),
            *(
                f"--port={self.proxy.rpartition(':')[2]}",
                f"--remoting-port={self.remoting.rpartition(':')[2]}",
            ),
            f"--ready-file={ready}",
        ]
        process = Process(command, self.home / "proxy.out")
        with ended_on_error(process):
            process.wait_until("the ready file of the proxy is there", ready.exists, 60)
        return process

    @property
    def pid(self) -> int:
        """The proxy's process."""
        return self._process.pid

    def end(self) -> None:
        """Kills the proxy; the broker goes on."""
        self._process.end(signal.SIGKILL)

    def alive(self) -> bool:
        return self._process.alive() and self._broker.alive()

    def tail(self) -> str:
        return f"{self._broker.tail()}\nand the proxy: {self._process.tail()}"

    def stop(self) -> None:
        """An orderly stop of both; the proxy must end with exit code 0."""
        code = self._process.end(signal.SIGTERM)
        self._broker.stop()
        assert code == 0, f"exit code {code} of the proxy after SIGTERM; {self._process.tail()}"


class BehindApacheProxy(BehindProxy):
    """Apache's proxy 5.4.0 in cluster mode."""

    java_options: Sequence[str] = QUICK_START

    def _run(self) -> Process:
        conf = self.home / "conf"
        conf.mkdir(exist_ok=True)
        settings = {
            "rocketMQClusterName": "DefaultCluster",
            "namesrvAddr": self.namesrv,
            "proxyMode": "CLUSTER",
            "grpcServerPort": int(self.proxy.rpartition(":")[2]),
            "remotingListenPort": int(self.remoting.rpartition(":")[2]),
            "localServeAddr": LOOPBACK,
            "useEndpointPortFromRequest": True,
        }
        (conf / "rmq-proxy.json").write_text(json.dumps(settings))
        homes = [f"-D{name}={self.home}" for name in ("user.home", "rocketmq.home.dir", "rocketmq.log.dir")]
        path = f"{jars(APACHE_POM, 'apache-proxy-5.4.0')}/*"
        command = [
            java(),
            *homes,
            *OPENS,
            *self.java_options,
            "-Xmx512m",
            "-XX:MaxDirectMemorySize=1g",
            "-cp",
            path,
        ]
        main = ["org.apache.rocketmq.proxy.ProxyStartup", "-n", self.namesrv]
        process = Process([*command, *main, "-pc", str(conf / "rmq-proxy.json")], self.home / "proxy.out")
        with ended_on_error(process):
            process.wait_until("Apache's proxy boots", lambda: "startup successfully" in process.tail(), 120)
        return process

    def stop(self) -> None:
        """An orderly stop of the broker; the proxy is of no interest then."""
        self.end()
        self._broker.stop()
