"""A live cluster moves from Apache's broker to OrbitMQ's and back: nothing that was acknowledged is lost."""

from __future__ import annotations

import asyncio
import itertools
import json
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from orbitmq import FIRST_OFFSET, Message, OrbitError
from orbitmq.admin import Admin
from orbitmq.admin.acls import put_rules
from orbitmq.admin.topics import create_topic
from orbitmq.admin.users import create_user
from orbitmq.cli.app import run
from orbitmq.protocol.bodies.topic import TopicConfig
from orbitmq.sync import Producer, PushConsumer
from tests.docs.console import steps
from tests.kit.class_archives import QUICK_START
from tests.needs import java
from tests.peers.apache import Apache
from tests.peers.conftest import GUARDED
from tests.peers.machine import LOOPBACK, REPOSITORY, Process, free_port, jars
from tests.peers.orbitmq_process import program

COMMON = {"mappedFileSizeCommitLog": 16 << 20, "haSendHeartbeatInterval": 500}
IDS = Path(__file__).parent / "java" / "Ids.java"
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


def until(is_so: Callable[[], bool], look_seconds: float = 0.1) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(look_seconds)


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


def until_ready(namesrv: str, *arguments: str, group: str = "broker-a") -> None:
    """Returns once the slave lacks nothing but what is on its way. Nothing is ever in the way."""

    def is_ready() -> bool:
        rows = migrate(namesrv, "check", group, *arguments)
        assert not [row for row in rows if row["state"] == "blocked"], rows
        states = {row["subject"]: row["state"] for row in rows}
        return states.get("slave") == states.get("topics") == "done"

    # A slave of Apache's fetches the topics once a minute; each look is a process.
    until(is_ready, look_seconds=2)


class Switching:
    """`orbitmq migrate switch` in a process of its own."""

    def __init__(self, folder: Path, namesrv: str, *arguments: str, group: str = "broker-a") -> None:
        ran.add(" ".join(["orbitmq", "migrate", "switch", group, *arguments[:2]]))
        self._said = folder / "switch.out"
        self._from = self._said.stat().st_size if self._said.exists() else 0
        command = [sys.executable, "-m", "orbitmq", "migrate", "switch", group, "--drain", "1"]
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


def planned_start(namesrv: str, *arguments: str, group: str = "broker-a") -> str:
    """The command, or the lines of a configuration, by which the plan starts the new slave of a group."""
    (step,) = [
        row
        for row in migrate(namesrv, "plan", group, *arguments)
        if (row["command"] or "").startswith(("orbitmq broker", "broker.conf:"))
    ]
    assert step["state"] == "open"
    command: str = step["command"]
    return command


def start_slave(folder: Path, planned: str, store: Path, *more: str) -> tuple[Process, str]:
    """Starts a slave of OrbitMQ on a store by the command of the plan."""
    folder.mkdir(exist_ok=True)
    port, ready = free_port((-2, 0, 1)), folder / "ready"
    told = planned.replace("DIR", str(store)).replace("ADDRESS", LOOPBACK)
    command = [
        *program(folder),
        *shlex.split(told)[1:],
        "--port",
        str(port),
        "--ready-file",
        str(ready),
        *more,
    ]
    process = Process(command, folder / "ours.out")
    process.wait_until("the slave is ready", ready.exists, PATIENCE_SECONDS)
    return process, f"{LOOPBACK}:{port}"


def start_planned_slave(folder: Path, namesrv: str) -> tuple[Process, str]:
    """Starts the slave on an empty store by the command that the plan shows."""
    assert migrate(namesrv, "plan")
    return start_slave(folder, planned_start(namesrv), folder / "ours")


def move_back(folder: Path, stack: ExitStack, namesrv: str, ours: Process) -> None:
    """Makes Apache's broker the master of broker-a again."""
    port = free_port((-2, 0, 1))
    follower = {**COMMON, "brokerRole": "SLAVE", "brokerId": 1}
    (conf,) = [row for row in migrate(namesrv, "plan", "broker-a", "--to", "apache") if row["command"]][:1]
    assert "brokerRole=SLAVE" in conf["command"]
    slave = Apache.start(folder / "back", follower, namesrv, port)
    stack.callback(slave.kill)
    until_ready(namesrv, "--to", "apache")
    switching = Switching(folder, namesrv, "--to", "apache", "--stop-command", f"kill {ours.pid}")
    switching.until_it_says(f"start the broker of {slave.broker} again now")
    slave.broker_process.end(signal.SIGTERM)
    master = Apache.start(folder / "back", {**COMMON, "brokerRole": "ASYNC_MASTER"}, namesrv, port)
    stack.callback(master.kill)
    switching.ends_well()


@pytest.mark.parametrize("back", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_a_group_moves_to_orbitmq_and_back_while_clients_work(back: bool, tmp_path: Path) -> None:
    with ExitStack() as stack:
        apache = Apache.start(tmp_path / "theirs", COMMON)
        stack.callback(apache.kill)
        namesrv = apache.namesrv
        flow = stack.enter_context(traffic(namesrv))
        flow.goes_on()

        ours, address = start_planned_slave(tmp_path, namesrv)
        stack.callback(ours.end, signal.SIGKILL)
        until_ready(namesrv)
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

        if back:
            move_back(tmp_path, stack, namesrv, ours)
            flow.goes_on()
        flow.over.set()
        until(lambda: flow.acknowledged <= flow.arrived)
    if back:
        assert {step.command for step in steps(GUIDE)} <= ran, "the guide shows what runs"


KEYS = {"ORBITMQ_ACCESS_KEY": "judge", "ORBITMQ_SECRET_KEY": "judge12345678"}
MOVER = ("mover", "mover-secret")
RULES = {"Topic:moved": ["pub", "sub", "get"], "Group:java-*": ["sub", "get", "update"]}


class JavaTraffic:
    """The ids that Apache's Java client sends and consumes, as a user with rules."""

    def __init__(self, folder: Path, namesrv: str) -> None:
        self._said = folder / "java.out"
        command = [
            *(java(), *QUICK_START, f"-Duser.home={folder}", "-cp", f"{jars(*Apache.path)}/*"),
            *(str(IDS), namesrv, "moved", *MOVER, str(LOOK_MS)),
        ]  # fmt: skip
        with self._said.open("w") as out:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=out, text=True)

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def ids(self, what: str) -> set[str]:
        lines = self._said.read_text(errors="replace").splitlines()
        return {line.partition(" ")[2] for line in lines if line.startswith(f"{what} ")}

    def goes_on(self) -> None:
        """Returns once messages are acknowledged and consumed that were not before."""
        before = len(self.ids("acked"))
        self._until(lambda: len(self.ids("acked")) >= before + 20)
        seen = self.ids("acked")
        self._until(lambda: seen <= self.ids("got"))

    def end_sending(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("stop\n")
        self.process.stdin.flush()
        self._until(lambda: "\nsent\n" in self._said.read_text(errors="replace"))

    def _until(self, is_so: Callable[[], bool]) -> None:
        def is_so_or_over() -> bool:
            assert self.process.poll() is None, self._said.read_text(errors="replace")[-2000:]
            return is_so()

        until(is_so_or_over)


async def make_user(namesrv: str, brokers: list[str], name: str, secret: str) -> None:
    """Makes the topic and a user of it on some brokers."""
    async with Admin(namesrv, access_key="judge", secret_key="judge12345678") as admin:
        for broker in brokers:
            await create_topic(admin, broker, TopicConfig("moved", 2, 2))
            await create_user(admin, broker, name, secret)
            for resource, actions in RULES.items():
                await put_rules(admin, broker, name, [resource], actions)


def start_ours(folder: Path, planned: str, group: str, store: Path) -> tuple[Process, str]:
    """Starts a slave of OrbitMQ by the command of the plan, with the credentials that brokers have."""
    folder.mkdir(exist_ok=True)
    config = folder / f"{group}.conf"
    config.write_text(
        f"innerClientAuthenticationCredentials={GUARDED['innerClientAuthenticationCredentials']}\n"
    )
    return start_slave(folder / group, planned, store, "--config", str(config))


def check_that_an_unsafe_switch_changes_nothing(
    folder: Path, namesrv: str, master: Apache, flow: JavaTraffic
) -> None:
    """The master of broker-a is not stopped: nobody is promoted beside it, and it can be taken back."""
    late = Switching(folder, namesrv, "--wait", "5")
    assert late.process.wait(PATIENCE_SECONDS) == 1
    assert "still answers" in late.said() or "is not level" in late.said()
    Switching(folder, namesrv, "--undo").ends_well()
    flow.goes_on()
    found = [row for row in migrate(namesrv, "check", "broker-a") if row["subject"] == "master"]
    assert master.broker in found[0]["detail"]
    assert (folder / "journal.json").exists()


def moved_to_orbitmq(
    folder: Path,
    namesrv: str,
    group: str,
    master: Apache,
    slave: Apache,
    before_switch: Callable[[], None] = lambda: None,
) -> tuple[Process, str, str]:
    """The broker of OrbitMQ that is master of a group now, on the store of its slave, with its address."""
    planned = planned_start(namesrv, group=group)
    slave.broker_process.end(signal.SIGTERM)
    ours, address = start_ours(folder, planned, group, slave.store)
    try:
        until_ready(namesrv, group=group)
        before_switch()
        stop = ["--stop-command", f"kill {master.broker_process.pid}"]
        Switching(folder / group, namesrv, *stop, group=group).ends_well()
    except BaseException:
        ours.end(signal.SIGKILL)
        raise
    return ours, address, planned


def blocked(namesrv: str, group: str, *arguments: str) -> dict[str, str]:
    """The findings in the way of a group."""
    rows = migrate(namesrv, "check", group, *arguments)
    return {row["subject"]: row["detail"] for row in rows if row["state"] == "blocked"}


@pytest.mark.nightly
def test_groups_with_access_control_move_on_the_stores_of_their_slaves_once_it_is_safe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    guarded = {**COMMON, **GUARDED}
    of_slave = {**guarded, "brokerRole": "SLAVE", "brokerId": 1}
    with ExitStack() as stack:
        first = Apache.start(tmp_path / "a0", guarded)
        stack.callback(first.kill)
        namesrv = first.namesrv
        with ThreadPoolExecutor(3) as pool:
            starts = [
                pool.submit(Apache.start, tmp_path / store, {**options, "brokerName": group}, namesrv)
                for store, group, options in (
                    ("a1", "broker-a", of_slave), ("b0", "broker-b", guarded), ("b1", "broker-b", of_slave),
                )
            ]  # fmt: skip
            slave, second, second_slave = [start.result() for start in starts]
        for broker in (slave, second, second_slave):
            stack.callback(broker.kill)
        asyncio.run(make_user(namesrv, [first.broker, second.broker], *MOVER))
        flow = JavaTraffic(tmp_path, namesrv)
        stack.callback(flow.kill)
        flow.goes_on()

        (tmp_path / "broker-a").mkdir()
        early = Switching(tmp_path / "broker-a", namesrv)
        assert early.process.wait(PATIENCE_SECONDS) == 1
        assert "no slave of OrbitMQ" in early.said()
        ours, _, _ = moved_to_orbitmq(
            tmp_path, namesrv, "broker-a", first, slave,
            lambda: check_that_an_unsafe_switch_changes_nothing(
                tmp_path / "broker-a", namesrv, first, flow
            ),
        )  # fmt: skip
        stack.callback(ours.end, signal.SIGKILL)
        flow.goes_on()
        theirs, theirs_at, planned = moved_to_orbitmq(tmp_path, namesrv, "broker-b", second, second_slave)
        stack.callback(theirs.end, signal.SIGKILL)
        flow.goes_on()

        # And back, for one of them: on the store of a slave of ours, which was that of the old master.
        second.broker_process.end(signal.SIGTERM)  # its ports are closed before it lets go of its store
        after, _ = start_ours(tmp_path / "after", planned, "broker-b", second.store)
        stack.callback(after.end, signal.SIGKILL)
        planned = planned_start(namesrv, "--to", "apache", group="broker-b")
        conf = dict(pair.split("=", 1) for pair in shlex.split(planned.removeprefix("broker.conf: ")))
        assert after.end(signal.SIGTERM) == 0
        port = free_port((-2, 0, 1))
        back = Apache.start(second.store, {**guarded, **conf}, namesrv, port)
        stack.callback(back.kill)
        # Apache's broker knows the users that it had; of one who came since then nobody tells it.
        asyncio.run(make_user(namesrv, [theirs_at], "late", "late-secret"))
        assert "User:late" in blocked(namesrv, "broker-b", "--to", "apache")["users"]
        for what in ("user", "acl"):
            assert run(["admin", what, "copy", theirs_at, back.broker, "--namesrv", namesrv]) == 0
        until_ready(namesrv, "--to", "apache", group="broker-b")
        switching = Switching(
            tmp_path / "broker-b",
            namesrv,
            *("--to", "apache", "--stop-command", f"kill {theirs.pid}"),
            group="broker-b",
        )
        switching.until_it_says(f"start the broker of {back.broker} again now")
        back.broker_process.end(signal.SIGTERM)
        of_master = {**guarded, **conf, "brokerRole": "ASYNC_MASTER", "brokerId": 0}
        again = Apache.start(second.store, of_master, namesrv, port)
        stack.callback(again.kill)
        switching.ends_well()
        flow.goes_on()
        flow.end_sending()
        until(lambda: flow.ids("acked") <= flow.ids("got"))
