"""A live cluster moves from Apache's broker to OrbitMQ's and back: nothing that was acknowledged is lost."""

from __future__ import annotations

import itertools
import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from orbitmq import FIRST_OFFSET, Message, OrbitError
from orbitmq.sync import Producer, PushConsumer
from tests.docs.console import steps
from tests.peers.apache import Apache
from tests.peers.machine import LOOPBACK, REPOSITORY, Process, free_port
from tests.peers.orbitmq_process import program

COMMON = {"mappedFileSizeCommitLog": 16 << 20, "haSendHeartbeatInterval": 500}
PATIENCE_SECONDS = 300
LOOK_MS = 500
"""Clients look routes up this often: by default, that is half of the time that a move takes."""

pytestmark = pytest.mark.timeout(1200)


GUIDE = (REPOSITORY / "docs" / "operate" / "migrate.md").read_text()
ran: set[str] = set()
"""Commands of the guide that were run."""


@dataclass
class Traffic:
    """Unique ids that go through the topic all the time."""

    acknowledged: set[str] = field(default_factory=set)
    arrived: set[str] = field(default_factory=set)
    over: threading.Event = field(default_factory=threading.Event)

    def send(self, namesrv: str) -> None:
        with Producer(
            "movers", namesrv, delivery_timeout_ms=1_000, poll_name_server_interval_ms=LOOK_MS
        ) as producer:
            for number in itertools.count():
                if self.over.is_set():
                    return
                name = f"m-{number}"
                try:
                    if producer.send(Message("moved", name)).status.name == "SEND_OK":
                        self.acknowledged.add(name)
                except OrbitError:  # the group takes no messages while its master changes
                    time.sleep(0.2)
                time.sleep(0.02)

    def goes_on(self) -> None:
        """Returns once messages are acknowledged and consumed that were not before."""
        before = len(self.acknowledged)
        until(lambda: len(self.acknowledged) >= before + 20)
        seen = set(self.acknowledged)
        until(lambda: seen <= self.arrived)


@contextmanager
def traffic(namesrv: str) -> Iterator[Traffic]:
    flow = Traffic()
    sending = threading.Thread(target=flow.send, args=(namesrv,))
    with PushConsumer(
        "watchers",
        namesrv,
        consume_from_where=FIRST_OFFSET,
        poll_name_server_interval_ms=LOOK_MS,
        persist_consumer_offset_interval_ms=LOOK_MS,
    ) as consumer:
        consumer.subscribe("moved", "*", lambda message: flow.arrived.add(message.body.decode()))
        sending.start()
        try:
            yield flow
        finally:
            flow.over.set()
            sending.join()


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def migrate(namesrv: str, *arguments: str) -> list[dict[str, str]]:
    ran.add(" ".join(["orbitmq", "migrate", *arguments]))
    command = [
        sys.executable,
        "-m",
        "orbitmq",
        "migrate",
        *arguments,
        "--namesrv",
        namesrv,
        "--timeout",
        "20",
        "--json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows: list[dict[str, str]] = json.loads(done.stdout)
    return rows


def is_ready(namesrv: str, *arguments: str) -> bool:
    """True if nothing is in the way, and the slave lacks nothing but what is on its way."""
    rows = migrate(namesrv, "check", "broker-a", *arguments)
    assert not [row for row in rows if row["state"] == "blocked"], rows
    states = {row["subject"]: row["state"] for row in rows}
    return states.get("slave") == states.get("topics") == "done"


class Switching:
    """`orbitmq migrate switch` in a process of its own."""

    def __init__(self, folder: Path, namesrv: str, *arguments: str) -> None:
        ran.add(" ".join(["orbitmq", "migrate", "switch", "broker-a", *arguments[:2]]))
        self._said = folder / "switch.out"
        self._from = self._said.stat().st_size if self._said.exists() else 0
        command = [sys.executable, "-m", "orbitmq", "migrate", "switch", "broker-a", "--drain", "1"]
        command += [
            "--namesrv",
            namesrv,
            "--timeout",
            "20",
            "--journal",
            str(folder / "journal.json"),
            *arguments,
        ]
        with self._said.open("ab") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=out)

    def said(self) -> str:
        return self._said.read_bytes()[self._from :].decode()

    def until_it_says(self, text: str) -> None:
        until(lambda: text in self.said() or self.process.poll() is not None)
        assert text in self.said(), self.said()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def ends_well(self) -> None:
        assert self.process.wait(PATIENCE_SECONDS) == 0, self.said()


def start_planned_slave(folder: Path, namesrv: str) -> tuple[Process, str]:
    """Starts the slave by the command that the plan shows."""
    assert migrate(namesrv, "plan")
    (step,) = [
        row
        for row in migrate(namesrv, "plan", "broker-a")
        if (row["command"] or "").startswith("orbitmq broker")
    ]
    assert step["state"] == "open"
    port, ready = free_port((-2, 0, 1)), folder / "ready"
    told = step["command"].replace("DIR", str(folder / "ours")).replace("0.0.0.0", LOOPBACK)
    command = [*program(folder), *shlex.split(told)[1:], "--port", str(port), "--ready-file", str(ready)]
    process = Process(command, folder / "ours.out")
    process.wait_until("the slave is ready", ready.exists, PATIENCE_SECONDS)
    return process, f"{LOOPBACK}:{port}"


def test_a_group_moves_to_orbitmq_and_back_while_clients_work(tmp_path: Path) -> None:
    with ExitStack() as stack:
        apache = Apache.start(tmp_path / "theirs", COMMON)
        stack.callback(apache.kill)
        namesrv = apache.namesrv
        flow = stack.enter_context(traffic(namesrv))
        flow.goes_on()

        ours, address = start_planned_slave(tmp_path, namesrv)
        stack.callback(ours.end, signal.SIGKILL)
        until(lambda: is_ready(namesrv))
        switching = Switching(tmp_path, namesrv)
        switching.until_it_says(f"stop {apache.broker} now")
        switching.kill()
        apache.broker_process.end(signal.SIGTERM)
        # Killed in the middle, and run again.
        again = Switching(tmp_path, namesrv)
        again.ends_well()
        assert "going on with a switch that was level" in again.said()
        assert f"{address} is the master of broker-a" in again.said()
        flow.goes_on()
        assert [
            row["state"] for row in migrate(namesrv, "check", "broker-a") if row["subject"] == "master"
        ] == ["done"]

        port = free_port((-2, 0, 1))
        follower = {**COMMON, "brokerRole": "SLAVE", "brokerId": 1}
        (conf,) = [row for row in migrate(namesrv, "plan", "broker-a", "--to", "apache") if row["command"]][
            :1
        ]
        assert "brokerRole=SLAVE" in conf["command"]
        slave = Apache.start(tmp_path / "back", follower, namesrv, port)
        stack.callback(slave.kill)
        until(lambda: is_ready(namesrv, "--to", "apache"))
        back = Switching(tmp_path, namesrv, "--to", "apache", "--stop-command", f"kill {ours.pid}")
        back.until_it_says(f"start the broker of {slave.broker} again now")
        slave.broker_process.end(signal.SIGTERM)
        master = Apache.start(tmp_path / "back", {**COMMON, "brokerRole": "ASYNC_MASTER"}, namesrv, port)
        stack.callback(master.kill)
        back.ends_well()
        flow.goes_on()
        flow.over.set()
        until(lambda: flow.acknowledged <= flow.arrived)
    assert {step.command for step in steps(GUIDE)} <= ran, "the guide shows what runs"


def test_a_switch_that_cannot_be_safe_changes_nothing_and_can_be_taken_back(tmp_path: Path) -> None:
    with ExitStack() as stack:
        apache = Apache.start(tmp_path / "theirs", COMMON)
        stack.callback(apache.kill)
        namesrv = apache.namesrv
        early = Switching(tmp_path, namesrv)
        assert early.process.wait(PATIENCE_SECONDS) == 1
        assert "no slave of OrbitMQ" in early.said()
        flow = stack.enter_context(traffic(namesrv))
        flow.goes_on()
        ours, _ = start_planned_slave(tmp_path, namesrv)
        stack.callback(ours.end, signal.SIGKILL)
        until(lambda: is_ready(namesrv))
        # The master is not stopped: nobody is promoted beside it.
        late = Switching(tmp_path, namesrv, "--wait", "5")
        assert late.process.wait(PATIENCE_SECONDS) == 1
        assert "still answers" in late.said() or "is not level" in late.said()
        before = len(flow.acknowledged)
        taken_back = Switching(tmp_path, namesrv, "--undo")
        taken_back.ends_well()
        flow.goes_on()
        assert len(flow.acknowledged) > before
        master = [row for row in migrate(namesrv, "check", "broker-a") if row["subject"] == "master"]
        assert apache.broker in master[0]["detail"]
        assert os.path.exists(tmp_path / "journal.json")
