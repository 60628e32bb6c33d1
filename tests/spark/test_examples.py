"""The demo as a user runs it, with fewer flights: twice, and interrupted."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.peers.machine import REPOSITORY, free_port

pytestmark = pytest.mark.timeout(900)

STEPS = [
    "3. ",
    *(pytest.param(step, marks=pytest.mark.nightly) for step in ("1. ", "2. ", "4. ", "5. ", "6. ")),
]
"""Where something new begins to run. By the third one, the broker and those that send run."""


def command(folder: Path, ports: Sequence[int], *more: str) -> list[str]:
    return [
        sys.executable,
        str(REPOSITORY / "examples" / "demo.py"),
        f"--data-dir={folder}",
        f"--namesrv-port={ports[0]}",
        f"--broker-port={ports[1]}",
        *more,
    ]


@pytest.fixture
def ports() -> tuple[int, int]:
    return free_port(), free_port((-2, 0, 1))


def processes_that_name(folder: Path) -> list[str]:
    """Command lines of whatever still runs over this folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if str(folder) in line:
                found.append(line)
    return found


@pytest.mark.parametrize("times", [1, pytest.param(2, marks=pytest.mark.nightly)])
@pytest.mark.usefixtures("java_for_spark")
def test_the_demo_and_the_demo_again(times: int, tmp_path: Path, ports: tuple[int, int]) -> None:
    """Again, it counts what earlier runs have left."""
    for before in range(times):
        run = subprocess.run(command(tmp_path, ports, "--rows=3000"), capture_output=True, text=True)
        assert run.returncode == 0, run.stdout + run.stderr
        assert "acknowledged by the broker: 3,000" in run.stdout
        assert "flights in the Parquet files: 3,000" in run.stdout
        assert "flights archived: 3,000" in run.stdout
        assert "lag of group flights-archive, as every admin tool sees it: 0" in run.stdout
        assert run.stdout.count("every aircraft's flights are in one queue, in order") == 2
        assert (f"{3000 * before:,} messages of earlier runs" in run.stdout) == (before > 0)
    assert sorted(path.name for path in (tmp_path / "flights.parquet").glob("origin=*")) == [
        "origin=EWR",
        "origin=JFK",
        "origin=LGA",
    ]
    nothing_is_left(tmp_path, ports)


def interrupted(given: list[str], at: str) -> str:
    """Runs the demo, sends Ctrl-C at the beginning of a step; all it printed."""
    run = subprocess.Popen(given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert run.stdout is not None
    printed = ""
    with run:
        for line in run.stdout:
            printed += line
            if line.startswith(at):
                run.send_signal(signal.SIGINT)
                break
        printed += run.stdout.read()
    assert run.returncode == 130, printed
    assert "Nothing is left running" in printed
    return printed


def nothing_is_left(folder: Path, ports: Sequence[int]) -> None:
    assert processes_that_name(folder) == []
    for port in ports:
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", port)) != 0


@pytest.mark.parametrize("at", STEPS)
@pytest.mark.usefixtures("java_for_spark")
def test_interrupted_it_leaves_nothing_running(tmp_path: Path, ports: tuple[int, int], at: str) -> None:
    """At the beginning of a step."""
    interrupted(command(tmp_path, ports, "--rows=20000" if at == "3. " else "--rows=2000"), at)
    nothing_is_left(tmp_path, ports)


def test_a_taken_port_is_said(tmp_path: Path, ports: tuple[int, int]) -> None:
    with socket.create_server(("127.0.0.1", ports[1])):
        run = subprocess.run(command(tmp_path, ports), capture_output=True, text=True)
    assert run.returncode == 1
    assert f"port {ports[1]} cannot be used" in run.stdout
    assert "--broker-port" in run.stdout
