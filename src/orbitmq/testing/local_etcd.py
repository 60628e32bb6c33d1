"""etcd on the loopback, as a process: the consensus store of local clusters and of tests."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Self

from orbitmq.server.turn.listener import free_ports
from orbitmq.testing.local_broker import START_SECONDS, StartFailed

LOOPBACK = "127.0.0.1"
HEARTBEAT_MS = 50
ELECTION_MS = 300
"""Its members are on one machine: a lost one is replaced faster than by default."""
_STEP_SECONDS = 0.02


def etcd_command(
    data_dir: Path, name: str, client_port: int, peers: dict[str, int], tls: tuple[Path, Path] | None = None
) -> list[str]:
    """The command of one member; `peers` are the peer ports of all members by name.

    With `tls`, a certificate and its key, clients have to use TLS.

    Raises StartFailed if there is no etcd on the PATH.
    """
    program = shutil.which("etcd")
    if program is None:
        raise StartFailed(
            "there is no program `etcd` on the PATH, and controllers need one: install it "
            "(Debian: apt-get install etcd-server; others: https://etcd.io/docs/latest/install/)"
        )
    client = f"{'http' if tls is None else 'https'}://{LOOPBACK}:{client_port}"
    peer = f"http://{LOOPBACK}:{peers[name]}"
    members = ",".join(f"{one}=http://{LOOPBACK}:{port}" for one, port in peers.items())
    return [
        program,
        *("--name", name, "--data-dir", str(data_dir), "--log-level", "error", "--logger", "zap"),
        *("--listen-client-urls", client, "--advertise-client-urls", client),
        *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
        *("--initial-cluster", members, "--initial-cluster-token", f"orbitmq-{min(peers.values())}"),
        *(() if tls is None else ("--cert-file", str(tls[0]), "--key-file", str(tls[1]))),
        *("--heartbeat-interval", str(HEARTBEAT_MS), "--election-timeout", str(ELECTION_MS)),
    ]


class LocalEtcd:
    """A cluster of `members` etcd processes below a folder, for as long as it is entered.

    With `tls`, a certificate and its key, clients have to use TLS.
    """

    def __init__(self, folder: Path, members: int = 1, tls: tuple[Path, Path] | None = None) -> None:
        self._folder = folder
        self._tls = tls
        names = [f"etcd-{number}" for number in range(members)]
        self._peers = {name: free_ports() for name in names}
        self._ports = {name: free_ports() for name in names}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def endpoints(self) -> list[str]:
        """Addresses of all members for clients."""
        return [f"{LOOPBACK}:{port}" for port in self._ports.values()]

    @property
    def address(self) -> str:
        """Address that controllers are given."""
        return f"etcd://{','.join(self.endpoints)}"

    @property
    def names(self) -> list[str]:
        """The members."""
        return list(self._ports)

    def start(self, *names: str) -> None:
        """Starts members, by default all; returns once they listen. Raises StartFailed."""
        chosen = names or tuple(self._ports)
        self._folder.mkdir(parents=True, exist_ok=True)
        for name in chosen:
            command = etcd_command(self._folder / name, name, self._ports[name], self._peers, self._tls)
            with (self._folder / f"{name}.log").open("ab") as log:
                self._processes[name] = subprocess.Popen(
                    command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
                )
        for name in chosen:
            self._await(name)

    def _await(self, name: str) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            with contextlib.suppress(OSError), socket.create_connection((LOOPBACK, self._ports[name]), 1):
                return
            if self._processes[name].poll() is not None or time.monotonic() > deadline:
                said = (self._folder / f"{name}.log").read_text(errors="replace")[-2000:]
                raise StartFailed(f"{name} does not listen: {said}")
            time.sleep(_STEP_SECONDS)

    def signal(self, number: signal.Signals, *names: str) -> None:
        """Sends a signal to members, by default all; waits until those that it ends or pauses are so."""
        for name in names or tuple(self._processes):
            process = self._processes[name]
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, number)
            if number in (signal.SIGKILL, signal.SIGTERM):
                process.wait()
            elif number == signal.SIGSTOP and process.poll() is None:
                # The signal is pending while a thread of theirs is on another core, and answers meanwhile.
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
            if process.poll() is None:
                process.kill()
                process.wait()
