"""A name server and a broker as processes of their own, started and stopped as scripts do."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from orbitmq.cli.app import run
from orbitmq.server.turn.listener import free_ports


class Server:
    """`orbitmq ...` until it is ready; `stop` gives its exit code."""

    def __init__(self, folder: Path, *arguments: object) -> None:
        self.ready = folder / f"{arguments[0]}.ready"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "orbitmq", *map(str, arguments), "--ready-file", str(self.ready)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.line = self.process.stdout.readline().rstrip("\n")

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        code = self.process.wait(120)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[dict[str, Server]]:
    namesrv_port, broker_port = free_ports(), free_ports(-2, 1)
    started: dict[str, Server] = {}
    try:
        started["namesrv"] = Server(
            tmp_path, "namesrv", "--port", namesrv_port, "--data-dir", tmp_path / "namesrv"
        )
        started["broker"] = Server(
            *(tmp_path, "broker", "--namesrv", f"127.0.0.1:{namesrv_port}", "--port", broker_port),
            *(
                "--data-dir",
                tmp_path / "data",
                "--name",
                "earth",
                "--cluster",
                "sun",
                "--advertise",
                "localhost",
            ),
            *(
                "--set",
                "mappedFileSizeCommitLog=16777216",
                "--set",
                "maxIndexNum=4000",
                "--set",
                "maxHashSlotNum=1000",
            ),
        )
        yield started
    finally:
        for server in started.values():
            server.process.kill()
            server.process.wait()
            assert server.process.stdout is not None
            server.process.stdout.close()


def test_two_processes_serve_and_end_in_order(
    servers: dict[str, Server], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    namesrv, broker = servers["namesrv"], servers["broker"]
    address = namesrv.line.removeprefix("ready: name server ")
    assert broker.line.startswith("ready: broker localhost:")
    assert broker.line.endswith(f", data folder {tmp_path / 'data'}, name servers {address}")
    assert broker.ready.read_text() == broker.line + "\n"
    assert run(["produce", "--namesrv", address, "--topic", "T", "--body", "there"]) == 0
    arguments = ["--namesrv", address, "--topic", "T", "--group", "G", "--from", "first", "--max", "1"]
    capfd.readouterr()
    assert run(["consume", *arguments]) == 0
    assert capfd.readouterr().out == "there\n"
    assert run(["admin", "cluster", "list", "--namesrv", address]) == 0
    assert "sun" in capfd.readouterr().out
    assert broker.stop() == 0
    assert not broker.ready.exists()
    deadline = time.monotonic() + 60
    while run(["admin", "cluster", "list", "--namesrv", address]) == 0 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert "no broker" in capfd.readouterr().err, "it said farewell"
    assert namesrv.stop(signal.SIGINT) == 0
    assert not namesrv.ready.exists()
