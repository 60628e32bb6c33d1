"""A clean stop of one of two brokers, as the Java client sees it: told to go away, it moves at once."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from orbitmq.cli.app import run
from tests.kit.class_archives import QUICK_START
from tests.needs import java, need
from tests.peers.machine import LOOPBACK, Process, ended_on_error, free_port
from tests.peers.orbitmq_process import program
from tests.peers.suites import JUDGE, environment

pytestmark = pytest.mark.timeout(600)

MOVING = Path(__file__).parent / "java" / "Moving.java"
TOPIC = "moving"
LONGEST_SEND_MS = 8000
"""A client that is not told waits for its request to time out (10 s here), and then asks for a new route."""


class Pair:
    """A name server and two masters."""

    def __init__(self, home: Path) -> None:
        self.namesrv = f"{LOOPBACK}:{free_port()}"
        self.brokers: dict[str, Process] = {}
        port = self.namesrv.rpartition(":")[2]
        self.processes = [
            self._start(home, "namesrv", ["namesrv", f"--port={port}", f"--data-dir={home / 'ns'}"])
        ]
        for name in ("broker-a", "broker-b"):
            words = ["broker", f"--namesrv={self.namesrv}", f"--name={name}", f"--data-dir={home / name}"]
            words.append(f"--port={free_port((-2, 0, 1))}")
            self.brokers[name] = self._start(home, name, words)
            self.processes.append(self.brokers[name])

    @staticmethod
    def _start(home: Path, name: str, words: list[str]) -> Process:
        ready = home / f"{name}.ready"
        process = Process([*program(home), *words, f"--ready-file={ready}"], home / f"{name}.out")
        with ended_on_error(process):
            process.wait_until("the ready file is there", ready.exists, 60)
        return process


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    need("java", "mvn")
    pair = Pair(tmp_path)
    yield pair
    for process in pair.processes:
        process.end(signal.SIGKILL)


def client_jars() -> Path:
    """The jars of the Java client, which the suites download."""
    subprocess.run(
        [str(JUDGE / "java" / "run.sh"), "--list"], env=environment(), check=True, capture_output=True
    )
    return next(Path(environment()["JUDGE_WORK"]).glob("java-*/lib"))


def test_a_client_of_a_broker_that_stops_moves_to_the_other_at_once(pair: Pair, tmp_path: Path) -> None:
    assert run(["admin", "topic", "create", TOPIC, "--queues", "4", "--namesrv", pair.namesrv]) == 0
    command = [
        *(java(), *QUICK_START, f"-Duser.home={tmp_path}", "-cp", f"{client_jars()}/*"),
        *(str(MOVING), pair.namesrv, TOPIC),
    ]  # fmt: skip
    out = tmp_path / "java.out"
    with (
        out.open("w") as sink,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=sink, stderr=sink, text=True) as client,
    ):

        def sends() -> list[list[str]]:
            return [line.split(" ", 3) for line in out.read_text().splitlines() if line.startswith("sent ")]

        def wait_for(count: int) -> None:
            deadline = time.monotonic() + 90
            while len(sends()) < count:
                assert client.poll() is None, out.read_text()[-2000:]
                assert time.monotonic() < deadline, out.read_text()[-2000:]
                time.sleep(0.1)

        wait_for(200)
        before = len(sends())
        assert {words[2] for words in sends()} == {"broker-a", "broker-b"}
        assert pair.brokers["broker-a"].end(signal.SIGTERM) == 0
        after = len(sends())
        wait_for(after + 200)
        assert client.stdin is not None
        client.stdin.write("stop\n")
        client.stdin.flush()
        assert client.wait(60) == 0
    found = sends()
    assert [words for words in found if words[2] == "none"] == []
    assert max(int(words[1]) for words in found[before:]) < LONGEST_SEND_MS
    assert {words[2] for words in found[after + 20 :]} == {"broker-b"}
