"""OrbitMQ as a user starts it: `orbitmq standalone` as a process of its own."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.peers.machine import LOOPBACK, Process, ended_on_error, free_port

NOTES = "served.json"
"""In the home of a server that was started with ORBITMQ_PEERS_RECORD=1: see `tests.peers.recording`."""


def program(home: Path) -> list[str]:
    """The `orbitmq` command of this environment, or the one that notes what it was asked."""
    if os.environ.get("ORBITMQ_PEERS_RECORD") == "1":
        return [sys.executable, "-m", "tests.peers.recording", str(home / NOTES)]
    return [str(Path(sys.executable).with_name("orbitmq"))]


class OrbitMQ:
    """A running standalone; the same interface as `tests.peers.apache.Apache`."""

    name = "orbitmq"

    def __init__(self, store: Path, home: Path, namesrv_port: int, broker_port: int) -> None:
        self.store = store
        self.home = home
        self.namesrv = f"{LOOPBACK}:{namesrv_port}"
        self.broker = f"{LOOPBACK}:{broker_port}"
        self._process: Process

    @classmethod
    def start(cls, store_dir: Path, broker_props: Mapping[str, object] | None = None) -> OrbitMQ:
        """Starts on `store_dir` with Apache's property names as `--set`; returns once it is ready."""
        home = Path(tempfile.mkdtemp(prefix="orbitmq-"))
        namesrv_port, broker_port = free_port(), free_port((-2, 0, 1))
        started = cls(store_dir, home, namesrv_port, broker_port)
        ready = home / "ready"
        command = [
            *program(home),
            "standalone",
            f"--data-dir={store_dir}",
            f"--namesrv-port={namesrv_port}",
            f"--broker-port={broker_port}",
            f"--ready-file={ready}",
        ]
        # A busy machine comes to sends late: no broker of a test refuses them for it, Apache's neither.
        for key, value in {"waitTimeMillsInSendQueue": 10_000, **(broker_props or {})}.items():
            command += ["--set", f"{key}={value}"]
        process = Process(command, home / "orbitmq.out")
        with ended_on_error(process):
            process.wait_until("the ready file is there", ready.exists, 180)
        started._process = process
        return started

    def alive(self) -> bool:
        return self._process.alive()

    def tail(self) -> str:
        return self._process.tail()

    def stop(self) -> None:
        """An orderly stop; it must end with exit code 0."""
        code = self._process.end(signal.SIGTERM)
        assert code == 0, f"exit code {code} after SIGTERM; {self.tail()}"

    def kill(self) -> None:
        self._process.end(signal.SIGKILL)
