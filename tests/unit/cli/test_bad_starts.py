"""Servers that cannot start: one line, an exit code, and nothing left behind or running.

They start in this process, which takes a tenth of the time, but where another process has what they need.
"""

import contextlib
import errno
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orbitmq.cli.app import run
from orbitmq.server.turn.listener import free_ports
from orbitmq.testing.local_broker import LocalBroker

SMALL = [
    "--set",
    "mappedFileSizeCommitLog=1048576",
    "--set",
    "maxHashSlotNum=1000",
    "--set",
    "maxIndexNum=2000",
]


LOGGED = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} (INFO|WARNING) ")


Start = Callable[..., tuple[int, list[str]]]
"""Runs a command; its exit code and the lines on standard error, without those of the log."""


@pytest.fixture
def orbitmq(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Start:
    """A start in this process."""
    for name in os.environ:
        if name.startswith(("ORBITMQ_", "NAMESRV")):
            monkeypatch.delenv(name)

    def start(*arguments: object) -> tuple[int, list[str]]:
        code = run([*map(str, arguments)])
        out, errors = capsys.readouterr()
        assert out == "", "nothing that could be taken for readiness"
        return code, [line for line in errors.splitlines() if not LOGGED.match(line)]

    return start


def own_process(*arguments: object) -> tuple[int, list[str]]:
    """A start as a user has it."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("ORBITMQ_", "NAMESRV"))
    }
    done = subprocess.run(
        [sys.executable, "-m", "orbitmq", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=100,
        env=environment,
    )
    assert done.stdout == "", "nothing that could be taken for readiness"
    return done.returncode, [line for line in done.stderr.splitlines() if not LOGGED.match(line)]


def standalone(start: Start, folder: Path, *arguments: object) -> tuple[int, list[str]]:
    port = free_ports(-2, 1, 2)
    return start(
        "standalone",
        "--data-dir",
        folder,
        "--broker-port",
        port,
        "--namesrv-port",
        port + 2,
        *SMALL,
        *arguments,
    )


@contextlib.contextmanager
def taken(port: int = 0) -> Iterator[int]:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", port))
        holder.listen()
        yield holder.getsockname()[1]


def test_port_of_the_name_server_taken(tmp_path: Path) -> None:
    with taken() as port:
        code, lines = own_process("namesrv", "--port", port, "--data-dir", tmp_path)
    assert (code, lines) == (
        3,
        [f"orbitmq: cannot listen on 127.0.0.1:{port}: the port is taken by another process"],
    )


@pytest.mark.parametrize("distance", [0, 2])
def test_port_or_vip_port_of_the_broker_taken_leaves_the_folder_free(
    orbitmq: Start, tmp_path: Path, distance: int
) -> None:
    ready = tmp_path / "ready"
    broker = free_ports(-2, 1, 2)
    with taken(broker - distance) as port:
        code, lines = orbitmq(
            *("standalone", "--data-dir", tmp_path / "data", "--broker-port", broker),
            *("--namesrv-port", broker + 2, "--ready-file", ready, *SMALL),
        )
    assert (code, lines) == (
        3,
        [f"orbitmq: cannot listen on 127.0.0.1:{port}: the port is taken by another process"],
    )
    assert not ready.exists()
    with LocalBroker(tmp_path / "data", mappedFileSizeCommitLog=1048576):
        pass


def test_an_address_that_is_not_ours(orbitmq: Start, tmp_path: Path) -> None:
    code, [line] = orbitmq("namesrv", "--listen", "192.0.2.1", "--port", free_ports(), "--data-dir", tmp_path)
    assert code == 3
    assert "192.0.2.1" in line
    assert "no such address" in line


def test_data_folder_in_use_by_another_broker(tmp_path: Path) -> None:
    with LocalBroker(tmp_path):
        code, [line] = standalone(own_process, tmp_path)
    assert code == 4
    assert line.startswith(f"orbitmq: {tmp_path} is in use by")


def test_data_folder_locked_as_apaches_broker_locks_it(tmp_path: Path) -> None:
    """Apache's FileChannel.lock(0, 1, false) is a POSIX record lock on byte 0 of the file `lock`."""
    (tmp_path / "lock").write_bytes(b"lock")
    script = (
        "import fcntl, sys; f = open(sys.argv[1], 'r+b'); fcntl.lockf(f, fcntl.LOCK_EX, 1, 0); "
        "print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        code, [line] = standalone(own_process, tmp_path)
        holder.communicate("")
    assert code == 4
    assert str(tmp_path) in line


def test_a_file_where_the_data_folder_should_be(orbitmq: Start, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("x")
    code, lines = standalone(orbitmq, path)
    assert code == 5
    assert str(path) in lines[-1]


def test_segments_of_another_size(orbitmq: Start, tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "commitlog" / "00000000000000000000").write_bytes(bytes(12345))
    code, lines = standalone(orbitmq, tmp_path)
    assert code == 5
    assert "commitlog" in lines[-1]
    assert (tmp_path / "commitlog" / "00000000000000000000").stat().st_size == 12345


def test_a_table_that_cannot_be_read_nor_its_predecessor(orbitmq: Start, tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    for name in ("topics.json", "topics.json.bak"):
        (tmp_path / "config" / name).write_text("{{{")
    code, lines = standalone(orbitmq, tmp_path)
    assert code == 5
    assert "topics.json" in lines[-1]
    assert (tmp_path / "config" / "topics.json").read_text() == "{{{"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written(orbitmq: Start, tmp_path: Path) -> None:
    folder = tmp_path / "mine-not"
    folder.mkdir(mode=0o500)
    code, lines = standalone(orbitmq, folder)
    assert code == 5
    assert "Permission denied" in lines[-1]


def test_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    port = free_ports(-2, 1, 2)
    ports = ["--broker-port", str(port), "--namesrv-port", str(port + 2)]
    assert run(["standalone", "--data-dir", str(tmp_path), *ports, *SMALL]) == 6
    assert "orbitmq: the disk is full" in capsys.readouterr().err


def test_an_option_in_a_file_that_is_none(orbitmq: Start, tmp_path: Path) -> None:
    config = tmp_path / "broker.conf"
    config.write_text("# mine\n\nbrokerNane = x\n")
    code, lines = orbitmq("standalone", "--config", config)
    assert (code, lines) == (
        2,
        [f"orbitmq: {config} line 3: unknown option brokerNane; did you mean brokerName?"],
    )


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("broker.conf", "brokerName=a\nlistenPort=9z\n", "line 2: listenPort=9z is not valid; expected"),
        ("broker.conf", "a\\\n=1\nlogLevel=loud\n", "line 1: unknown option a"),
        ("broker.conf", "# x\nlogLevel=loud\n", "line 2: logLevel=loud is not valid"),
        ("broker.conf", "\nnamesrvAddr=http://ns:9876/\n", "line 2: namesrvAddr: 'http://ns:9876/' is a URL"),
        ("broker.conf", "x\n\nbrokerId=1", "line 1: unknown option x"),
        ("broker.conf", "initAuthenticationUser=ann\n", "line 1: initAuthenticationUser has to be"),
        ("broker.toml", '[broker]\n\nflush_disk_type = "SYNC"\n', "line 3: flushDiskType=SYNC is not valid"),
        ("broker.toml", "listen_port = true\n", "line 1: listenPort=true is not valid"),
    ],
)
def test_a_wrong_option_in_a_file_names_file_line_and_key(
    tmp_path: Path, name: str, text: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / name
    config.write_text(text)
    assert run(["broker", "--config", str(config)]) == 2
    assert capsys.readouterr().err.startswith(f"orbitmq: {config} {said}")


@pytest.mark.parametrize("server", ["standalone", "namesrv"])
def test_a_folder_of_something_else_is_left_alone_unless_init_is_given(
    orbitmq: Start, tmp_path: Path, server: str
) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    (folder / "beach.jpg").write_bytes(b"jpg")
    start = standalone if server == "standalone" else namesrv
    code, [line] = start(orbitmq, folder)
    assert code == 5
    assert line.startswith(f"orbitmq: {folder} is not empty and holds no data of OrbitMQ or RocketMQ")
    assert "found beach.jpg" in line
    assert "--init" in line
    assert [entry.name for entry in folder.iterdir()] == ["beach.jpg"]
    with taken() as port:
        # It comes as far as to the port: the folder was taken.
        named = "--namesrv-port" if server == "standalone" else "--port"
        code, [line] = start(orbitmq, folder, "--init", named, port)
    assert (code, line) == (
        3,
        f"orbitmq: cannot listen on 127.0.0.1:{port}: the port is taken by another process",
    )


def namesrv(start: Start, folder: Path, *arguments: object) -> tuple[int, list[str]]:
    return start("namesrv", "--data-dir", folder, "--port", free_ports(), *arguments)


def test_a_ready_file_that_cannot_be(orbitmq: Start, tmp_path: Path) -> None:
    path = tmp_path / "none" / "ready"
    code, lines = orbitmq("namesrv", "--ready-file", path)
    assert (code, lines) == (2, [f"orbitmq: --ready-file {path}: there is no folder {path.parent}"])
    code, lines = orbitmq("namesrv", "--ready-file", tmp_path)
    assert code == 2
    assert str(tmp_path) in lines[0]


def test_a_ready_file_of_a_server_that_was_killed_goes_before_the_start(
    orbitmq: Start, tmp_path: Path
) -> None:
    ready = tmp_path / "ready"
    ready.write_text("ready: long ago\n")
    with taken() as port:
        assert orbitmq("namesrv", "--ready-file", ready, "--port", port, "--data-dir", tmp_path)[0] == 3
    assert not ready.exists()


def test_a_broker_without_a_name_server_starts_and_says_so(tmp_path: Path) -> None:
    """Name servers may come up later: a broker does not end for want of one."""
    port = free_ports(-2, 1)
    arguments = [
        "broker",
        "--namesrv",
        "127.0.0.1:1",
        "--port",
        str(port),
        "--data-dir",
        str(tmp_path / "data"),
    ]
    with subprocess.Popen(
        [sys.executable, "-m", "orbitmq", *arguments, *SMALL, "--log-format", "json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(f"ready: broker 127.0.0.1:{port}, data folder {tmp_path}")
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=100)
    assert process.returncode == 0
    entries = [json.loads(line) for line in errors.splitlines()]
    assert any(entry["level"] == "warning" and "127.0.0.1:1" in entry["message"] for entry in entries), (
        entries
    )
