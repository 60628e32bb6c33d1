"""A broker group of Apache's brokers, and perhaps of ours, whose master our controllers elect."""

from __future__ import annotations

import json
import signal
import subprocess
from contextlib import ExitStack
from pathlib import Path

from orbitmq.testing.local_etcd import LocalEtcd
from tests.peers.apache import Apache
from tests.peers.machine import LOOPBACK, Process, free_port
from tests.peers.mqadmin_shell import Shell
from tests.peers.orbitmq_process import program


class Group:
    """A name server, two controllers, and brokers: two of Apache's, or one of ours and one of Apache's."""

    def __init__(self, folder: Path, stack: ExitStack, *, mixed: bool = False) -> None:
        self.folder = folder
        self._stack = stack
        self._ports: dict[str, int] = {}
        etcd = stack.enter_context(LocalEtcd(folder / "etcd"))
        self.namesrv = f"{LOOPBACK}:{free_port()}"
        self._server("namesrv", f"--port={self.namesrv.rpartition(':')[2]}", "--data-dir", str(folder / "ns"))
        addresses = [f"{LOOPBACK}:{free_port()}" for _ in range(2)]
        self.controllers = {
            address: self._server(
                "controller", f"--store={etcd.address}", f"--port={address.rpartition(':')[2]}"
            )
            for address in addresses
        }
        self.brokers = [] if mixed else [self.apaches(f"b{number}") for number in (1, 2)]

    def _server(self, kind: str, *arguments: str) -> Process:
        name = f"{kind}-{len(list(self.folder.glob('*.out')))}"
        ready = self.folder / f"{name}.ready"
        command = [*program(self.folder), kind, *arguments, f"--ready-file={ready}"]
        process = Process(command, self.folder / f"{name}.out")
        self._stack.callback(process.end, signal.SIGKILL)
        process.wait_until(f"the {kind} is ready", ready.exists, 60)
        return process

    def ours(self, name: str) -> tuple[str, Process]:
        """Address and process of a broker of ours, started on its folder."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        port = self._port(name)
        values = {**self._properties(), "storePathRootDir": folder / "store", "namesrvAddr": self.namesrv}
        (folder / "broker.conf").write_text("".join(f"{key}={value}\n" for key, value in values.items()))
        process = self._server("broker", f"--config={folder / 'broker.conf'}", f"--port={port}")
        return f"{LOOPBACK}:{port}", process

    def apaches(self, name: str) -> Apache:
        """A broker of Apache's, started on its folder."""
        broker = Apache.start(self.folder / name, self._properties(), self.namesrv, self._port(name))
        self._stack.callback(broker.kill)
        return broker

    def _port(self, name: str) -> int:
        """The port of a broker: the same each time, for its group knows it by its address."""
        if name not in self._ports:
            self._ports[name] = free_port((-2, 0, 1))
        return self._ports[name]

    def _properties(self) -> dict[str, object]:
        return {
            "enableControllerMode": "true",
            "controllerAddr": ";".join(self.controllers),
            "allAckInSyncStateSet": "true",
            "brokerRole": "SYNC_MASTER",
            "syncBrokerMetadataPeriod": 1000,
            "checkSyncStateSetPeriod": 500,
            "syncControllerMetadataPeriod": 1000,
            "haSendHeartbeatInterval": 500,
            "mappedFileSizeCommitLog": 4 << 20,
        }

    def shell(self) -> Shell:
        """`mqadmin` for this cluster."""
        shell = Shell(self.namesrv, self.folder / "mqadmin")
        self._stack.callback(shell.close)
        return shell

    def ask(self, *arguments: str) -> object:
        """The answer of `orbitmq admin controller`, as JSON."""
        command = [*program(self.folder), "admin", "controller", *arguments]
        command += ["--json", "--namesrv", self.namesrv] if "list" not in arguments else ["--json"]
        command += ["--controller", ";".join(self.controllers)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def leader(self) -> str | None:
        """The controller that says that it leads."""
        return next((one["address"] for one in self.ask("list") if one["state"] == "leads"), None)  # type: ignore[attr-defined]

    def members(self) -> list[dict[str, object]]:
        return self.ask("groups", "broker-a")  # type: ignore[return-value]

    def in_sync(self) -> int:
        return sum(bool(one["inSync"]) and one["state"] == "alive" for one in self.members())

    def master(self) -> object:
        return next((one["address"] for one in self.members() if one["role"] == "master"), None)
