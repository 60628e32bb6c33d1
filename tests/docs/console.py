"""Runs the `console` blocks of a document as a reader would type them, in one shell's order.

    ```console
    $ orbitmq standalone --data-dir data &
    $ orbitmq ping --wait 30
    … is healthy: …
    ```

A line after `$ ` is a command (a trailing backslash goes on in the next line). The text below it is its
output, in which `…` may be anything. Servers are started with `&`; here they get free ports.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tests.needs import need
from tests.peers import zookeeper
from tests.peers.machine import LOOPBACK, Process, free_port

DEFAULT_NAMESRV = "127.0.0.1:9876"
DEFAULT_BROKER = "127.0.0.1:10911"
DEFAULT_ETCD = "127.0.0.1:2379"
DEFAULT_ZOOKEEPER_PORT = "2181"
DEFAULT_DELAY = "127.0.0.1:8090"
CONTROLLER_PORTS = ("19876", "19877")


JAVA_TERMINATED = 128 + signal.SIGTERM


@dataclass(slots=True)
class Step:
    """One command and the output that the document shows."""

    command: str
    shown: list[str] = field(default_factory=list)


def steps(text: str) -> list[Step]:
    """Every command of a document's `console` blocks."""
    found: list[Step] = []
    for block in re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append(Step(line[2:]))
            elif found[-1].command.endswith("\\"):
                found[-1].command = found[-1].command[:-1] + line.strip()
            else:
                found[-1].shown.append(line)
    return found


class Shell:
    """A working folder, an environment, and the servers that were started in it.

    Nothing waits for a server: what a document shows has to do that itself.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.namesrv_port = free_port()
        self.broker_port = free_port((-2, 0, 1))
        self.etcd_port = free_port()
        self.zookeeper_port = free_port()
        self.delay = f"{LOOPBACK}:{free_port()}"
        self.controller_ports = {port: str(free_port()) for port in CONTROLLER_PORTS}
        self.environment = {
            "ORBITMQ_CONTROLLERS": f"{LOOPBACK}:{self.controller_ports[CONTROLLER_PORTS[0]]}",
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "NAMESRV_ADDR": f"{LOOPBACK}:{self.namesrv_port}",
            "ORBITMQ_DELAY_HTTP": self.delay,
            "COLUMNS": "120",
        }
        self._servers: list[Process] = []

    def run(self, step: Step) -> None:
        """Runs the command; fails unless it ends with 0 and prints what the document shows."""
        step = Step(self.here(step.command), [self.here(line) for line in step.shown])
        command = step.command
        if command.endswith("&"):
            self._serve(shlex.split(command[:-1]))
            return
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, f"$ {command}\nexit code {done.returncode}\n{done.stdout}{done.stderr}"
        compare(step, done.stdout + done.stderr)

    def here(self, text: str) -> str:
        """A document's text with the address of this shell's name server."""
        text = text.replace(DEFAULT_NAMESRV, f"{LOOPBACK}:{self.namesrv_port}")
        text = text.replace(DEFAULT_BROKER, f"{LOOPBACK}:{self.broker_port}")
        text = text.replace(DEFAULT_DELAY, self.delay)
        text = text.replace(DEFAULT_ETCD, f"{LOOPBACK}:{self.etcd_port}")
        text = text.replace(DEFAULT_ZOOKEEPER_PORT, str(self.zookeeper_port))
        for port, here in self.controller_ports.items():
            text = text.replace(f"--port {port}", f"--port {here}").replace(f":{port}", f":{here}")
        return text

    def _serve(self, words: list[str]) -> None:
        need(*({words[0]} & {"etcd"}))
        if words[0] == "zkServer.sh":
            self._start(zookeeper.command(Path(words[2])))
            return
        client, peer = f"http://{LOOPBACK}:{self.etcd_port}", f"http://{LOOPBACK}:{free_port()}"
        ports: list[object] = {
            "standalone": ["--namesrv-port", self.namesrv_port, "--broker-port", self.broker_port],
            "namesrv": ["--port", self.namesrv_port],
            "broker": ["--port", self.broker_port],
            "controller": [],
            "delay": [],
            "etcd": [
                *("--listen-client-urls", client, "--advertise-client-urls", client),
                *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
                *("--initial-cluster", f"default={peer}"),
            ],
        }[words[0] if words[0] == "etcd" else words[1]]
        given = [str(word) for word in ports]
        self._start([*words, *given])

    def _start(self, command: list[str]) -> None:
        log = self.folder / f"server-{len(self._servers)}.log"
        self._servers.append(Process(["env", "-C", str(self.folder), *command], log, self.environment))

    def close(self) -> None:
        """Stops all servers, the last one first; each ends with 0, or a foreign one by the signal."""
        codes = [(server, server.end(signal.SIGTERM)) for server in reversed(self._servers)]
        for server, code in codes:
            assert code in (0, -signal.SIGTERM, JAVA_TERMINATED), server.tail()


def compare(step: Step, output: str) -> None:
    """Fails unless the output holds the lines that the document shows, in their order."""
    said = [line.rstrip() for line in output.splitlines()]
    for line in step.shown:
        pattern = re.compile(".*".join(re.escape(part) for part in line.rstrip().split("…")))
        while said and not pattern.fullmatch(said[0]):
            said.pop(0)
        assert said, f"$ {step.command}\nthe document shows:\n{line}\nbut it printed:\n{output}"
        said.pop(0)
