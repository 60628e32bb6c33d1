"""`orbitmq broker --shards N`: several brokers of one cluster below one supervisor, as real processes."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orbitmq.cli.app import run
from orbitmq.server.turn.listener import free_ports

PATIENCE_SECONDS = 120
SMALL = [
    *("--set", "mappedFileSizeCommitLog=1048576", "--set", "maxHashSlotNum=1000"),
    *("--set", "maxIndexNum=2000", "--set", "diskMaxUsedSpaceRatio=95"),
]
DISTANCES = (-2, 1, 5, 8, 10, 11)
"""From the port of the first shard to all others that two shards and a name server take."""


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def is_alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


class Cluster:
    """A name server and a broker of two shards."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        port = free_ports(*DISTANCES)
        self.ports = [port, port + 10]
        self.namesrv = f"127.0.0.1:{port + 5}"
        self.log = (folder / "log").open("w+")
        self._processes: list[subprocess.Popen[str]] = []
        self._start("namesrv", "--port", port + 5, "--data-dir", folder / "namesrv")
        self.broker = self._start(
            *("broker", "--shards", 2, "--namesrv", self.namesrv, "--port", port, "--name", "b"),
            *("--data-dir", folder / "data", "--ready-file", folder / "ready"),
            *("--log-format", "json", "--log-level", "info"),
            *SMALL,
        )
        assert self.broker.stdout is not None
        self.line = self.broker.stdout.readline().strip()

    def _start(self, *arguments: object) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, "-m", "orbitmq", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
        )
        self._processes.append(process)
        return process

    def shards(self) -> dict[str, int]:
        """The process of each shard that is alive, by broker name."""
        found = {}
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError, IndexError):
                if entry.name.isdigit() and is_alive(int(entry.name)):
                    parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
                    words = (entry / "cmdline").read_text().split("\0")
                    if int(parent) == self.broker.pid and "--supervised" in words:
                        found[words[words.index("--name") + 1]] = int(entry.name)
        return found

    def logged(self) -> list[dict[str, str]]:
        lines = (self.folder / "log").read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    def orbitmq(self, *arguments: object) -> int:
        return run([*map(str, arguments), "--namesrv", self.namesrv])

    def close(self) -> None:
        for process in reversed(self._processes):
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()
        self.log.close()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    try:
        yield made
    finally:
        left = made.shards().values()
        made.close()
        wait_until(lambda: not any(map(is_alive, left)), "shards outlive their supervisor")


def held_by_shards(cluster: Cluster, capfd: pytest.CaptureFixture[str]) -> dict[str, int]:
    """Number of messages of the topic in each shard, of those that routes name."""
    capfd.readouterr()
    if cluster.orbitmq("admin", "topic", "status", "T", "--json") != 0:
        return {}
    held: dict[str, int] = {}
    for row in json.loads(capfd.readouterr().out):
        held[row["broker"]] = held.get(row["broker"], 0) + row["maxOffset"]
    return held


def test_shards_are_one_cluster_and_one_that_dies_comes_back(
    cluster: Cluster, capfd: pytest.CaptureFixture[str]
) -> None:
    first, second = (f"127.0.0.1:{port}" for port in cluster.ports)
    assert cluster.line == (
        f"ready: 2 shards of cluster DefaultCluster: b-0 {first}, b-1 {second}, "
        f"data folder {cluster.folder / 'data'}, name servers {cluster.namesrv}"
    )
    assert (cluster.folder / "ready").read_text() == cluster.line + "\n"
    assert sorted(path.name for path in (cluster.folder / "data").iterdir()) == ["shard-0", "shard-1"]

    # A topic made on the cluster is on all of them, and what is sent to it spreads over them.
    assert cluster.orbitmq("admin", "topic", "create", "T", "--cluster", "DefaultCluster", "--queues", 2) == 0
    wait_until(lambda: held_by_shards(cluster, capfd).keys() == {"b-0", "b-1"}, "routes to both")
    assert cluster.orbitmq("produce", "--topic", "T", "--body", "hello", "--count", 40) == 0
    held = held_by_shards(cluster, capfd)
    assert sum(held.values()) == 40
    assert min(held.values()) > 0

    # One is killed: the log says so, it is started again, and nothing is lost.
    before = cluster.shards()
    os.kill(before["b-1"], signal.SIGKILL)

    def is_back() -> bool:
        return any("shard b-1 is back" in entry["message"] for entry in cluster.logged())

    wait_until(is_back, "the shard that was killed")
    after = cluster.shards()
    assert after["b-0"] == before["b-0"]
    assert after["b-1"] != before["b-1"]
    said = [entry for entry in cluster.logged() if "killed by signal 9" in entry["message"]]
    assert [entry["level"] for entry in said] == ["error"]
    assert {entry.get("broker") for entry in cluster.logged()} >= {None, "b-1"}, "who says it"
    arguments = ["consume", "--topic", "T", "--group", "G", "--from", "first", "--max", 40]
    assert cluster.orbitmq(*arguments) == 0
    assert capfd.readouterr().out.count("hello\n") == 40

    # It stops in order: every shard writes what it has and says farewell.
    cluster.broker.send_signal(signal.SIGTERM)
    assert cluster.broker.wait(PATIENCE_SECONDS) == 0
    assert not any(map(is_alive, after.values()))
    assert not (cluster.folder / "ready").exists()
    assert not list((cluster.folder / "data").glob("shard-*/abort")), "the mark of an unclean end"
    wait_until(lambda: cluster.orbitmq("admin", "cluster", "list") != 0, "the farewell")


def test_shards_end_when_their_supervisor_is_killed(cluster: Cluster) -> None:
    pids = cluster.shards().values()
    assert len(pids) == 2
    cluster.broker.kill()
    wait_until(lambda: not any(map(is_alive, pids)), "they stop by themselves")
    assert not list((cluster.folder / "data").glob("shard-*/abort")), "and in order"


def broker(folder: Path, *arguments: object) -> tuple[int, str]:
    """Exit code and standard error of a broker that does not start."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "orbitmq", "broker", "--namesrv", "127.0.0.1:1"),
            *("--data-dir", str(folder), *map(str, arguments), *SMALL),
        ],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    assert done.stdout == "", "nothing that could be taken for readiness"
    return done.returncode, done.stderr


def test_a_port_of_one_shard_taken_ends_all(tmp_path: Path) -> None:
    first = free_ports(-2, 1, 8, 10, 11)
    taken = first + 10
    with socket.create_server(("127.0.0.1", taken)):
        code, errors = broker(tmp_path, "--shards", 2, "--port", first, "--name", "b")
    assert code == 3
    assert f"cannot listen on 127.0.0.1:{taken}: the port is taken" in errors
    assert errors.splitlines()[-1].startswith("orbitmq: shard b-1 did not start (ended with code 3)")


@pytest.mark.parametrize("count", ["0", "-1", "257", "two"])
def test_a_number_of_shards_that_is_none(count: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["broker", "--namesrv", "127.0.0.1:1", "--shards", count]) == 2
    assert "--shards" in capsys.readouterr().err


def refused(folder: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = run(["broker", "--namesrv", "127.0.0.1:1", "--data-dir", str(folder), *arguments])
    return code, capsys.readouterr().err


def test_ports_beyond_the_last(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = refused(tmp_path, capsys, "--shards", "3", "--port", "65520")
    assert code == 2
    assert "listenPort=65520" in said
    assert "65540" in said


def test_a_folder_with_more_shards_than_are_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(4):
        (tmp_path / f"shard-{number}").mkdir()
    code, said = refused(tmp_path, capsys, "--shards", "2")
    assert code == 5
    assert "holds 4 shards" in said
    assert "shard-2, shard-3" in said
    assert "--shards 4" in said


def test_a_folder_of_shards_without_the_flag(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "shard-0").mkdir()
    code, said = refused(tmp_path, capsys)
    assert code == 5
    assert "--shards 1" in said
    assert run(["standalone", "--data-dir", str(tmp_path)]) == 5
    assert "--shards 1" in capsys.readouterr().err


def test_a_folder_of_a_broker_without_shards(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "commitlog").mkdir()
    code, said = refused(tmp_path, capsys, "--shards", "2")
    assert code == 5
    assert "without shards" in said
    assert list(tmp_path.iterdir()) == [tmp_path / "commitlog"]
