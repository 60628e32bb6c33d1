"""Apache ZooKeeper 3.9 from Maven Central, as a peer: an ensemble on the loopback."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
from pathlib import Path
from typing import Self

from tests.kit.class_archives import QUICK_START
from tests.needs import java
from tests.peers.machine import LOOPBACK, Process, free_port, jars

POM = Path(__file__).parent / "judge" / "zookeeper" / "pom.xml"
TICK_MS = 500
MAX_SESSION_MS = 120_000


def command(conf: Path) -> list[str]:
    """The command of one server with a `zoo.cfg`."""
    path = f"{jars(POM, 'zookeeper-3.9.5')}/*"
    return [
        java(), *QUICK_START, "-Xmx96m", "-cp", path,
        "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(conf),
    ]  # fmt: skip


class ZooKeeper:
    """An ensemble of `members` processes below a folder, for as long as it is entered.

    With `tls`, a certificate and its key, clients have to use TLS.
    """

    def __init__(self, folder: Path, members: int = 1, tls: tuple[Path, Path] | None = None) -> None:
        self._folder = folder
        self._tls = tls
        names = [f"zookeeper-{number}" for number in range(members)]
        self._ports = {name: free_port() for name in names}
        self._peers = {name: (free_port(), free_port()) for name in names}
        self._processes: dict[str, Process] = {}

    @property
    def endpoints(self) -> list[str]:
        """Addresses of all members for clients."""
        return [f"{LOOPBACK}:{port}" for port in self._ports.values()]

    @property
    def address(self) -> str:
        """Address that controllers are given."""
        return f"zookeeper://{','.join(self.endpoints)}"

    @property
    def names(self) -> list[str]:
        """The members."""
        return list(self._ports)

    def _conf(self, name: str) -> Path:
        data = self._folder / name
        data.mkdir(parents=True, exist_ok=True)
        values: dict[str, object] = {
            "tickTime": TICK_MS,
            "initLimit": 20,
            "syncLimit": 10,
            "maxSessionTimeout": MAX_SESSION_MS,
            "dataDir": data,
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "srvr",
        }
        if self._tls is None:
            values |= {"clientPort": self._ports[name], "clientPortAddress": LOOPBACK}
        else:
            cert, key = self._tls
            pem = self._folder / f"{name}.pem"
            pem.write_text(key.read_text() + cert.read_text())
            values |= {
                "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
                "secureClientPort": self._ports[name],
                "secureClientPortAddress": LOOPBACK,
                "ssl.keyStore.location": pem,
                "ssl.clientAuth": "none",
            }
        if len(self._ports) > 1:
            for number, (peer, election) in enumerate(self._peers.values()):
                values[f"server.{number}"] = f"{LOOPBACK}:{peer}:{election}"
            (data / "myid").write_text(str(self.names.index(name)))
        conf = self._folder / f"{name}.cfg"
        conf.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
        return conf

    def start(self, *names: str) -> None:
        """Starts members, by default all; returns once they serve, and so once they have a majority."""
        self._folder.mkdir(parents=True, exist_ok=True)
        chosen = names or tuple(self._ports)
        for name in chosen:
            self._processes[name] = Process(command(self._conf(name)), self._folder / f"{name}.out")
        for name in chosen:
            self._processes[name].wait_until(f"{name} serves", lambda name=name: self._serves(name), 90)  # type: ignore[misc]

    def _serves(self, name: str) -> bool:
        with (
            contextlib.suppress(OSError),
            socket.create_connection((LOOPBACK, self._ports[name]), 5) as peer,
        ):
            if self._tls is not None:
                return True
            peer.settimeout(5)
            peer.sendall(b"srvr")
            with peer.makefile("rb") as stream:
                return b"Mode: " in stream.read()
        return False

    def signal(self, number: signal.Signals, *names: str) -> None:
        """Sends a signal to members, by default all; waits until those that it ends or pauses are so."""
        for name in names or tuple(self._processes):
            process = self._processes[name]
            if number in (signal.SIGKILL, signal.SIGTERM):
                process.end(number)
                continue
            os.kill(process.pid, number)
            if number == signal.SIGSTOP:
                os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def wipe(self, *names: str) -> None:
        """Removes the data of members that were ended, by default of all."""
        for name in names or tuple(self._ports):
            shutil.rmtree(self._folder / name, ignore_errors=True)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes.values():
            if process.alive():
                process.end(signal.SIGKILL)
