import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from orbitmq.server.lifecycle import sd_notify
from orbitmq.server.lifecycle.process import serve
from orbitmq.server.lifecycle.sd_notify import Notifier


class Systemd:
    """The end of the socket that a service manager holds."""

    def __init__(self, address: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("\0" + address[1:] if address.startswith("@") else address)
        self.socket.setblocking(False)
        self.environment = {"NOTIFY_SOCKET": address}

    def heard(self) -> list[str]:
        lines: list[str] = []
        while True:
            try:
                lines += self.socket.recv(4096).decode().split("\n")
            except BlockingIOError:
                return lines


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[Systemd]:
    manager = Systemd(str(tmp_path / "notify"))
    yield manager
    manager.socket.close()


def test_ready_and_stopping_are_told(systemd: Systemd) -> None:
    notifier = Notifier(systemd.environment)
    notifier.ready("two\nlines")
    notifier.stopping()
    assert systemd.heard() == ["READY=1", "STATUS=two lines", "STOPPING=1", "STATUS=stopping"]


def test_an_abstract_address_is_reached() -> None:
    manager = Systemd(f"@orbitmq-test-{os.getpid()}")
    Notifier(manager.environment).ready("here")
    assert manager.heard() == ["READY=1", "STATUS=here"]
    manager.socket.close()


@pytest.mark.parametrize("environment", [{}, {"NOTIFY_SOCKET": ""}, {"NOTIFY_SOCKET": "relative"}])
async def test_nothing_is_said_where_nobody_listens(environment: dict[str, str]) -> None:
    notifier = Notifier(environment)
    assert not notifier.is_wanted
    notifier.ready("nobody hears it")
    await notifier.keep_alive()


def test_a_manager_that_is_gone_harms_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    Notifier({"NOTIFY_SOCKET": str(tmp_path / "gone")}).ready("ready")
    assert "cannot be notified of READY=1" in caplog.text


async def test_the_watchdog_is_fed_while_the_loop_turns(systemd: Systemd) -> None:
    pid = str(os.getpid())
    notifier = Notifier({**systemd.environment, "WATCHDOG_USEC": "20000", "WATCHDOG_PID": pid})
    task = asyncio.create_task(notifier.keep_alive())
    loop = asyncio.get_running_loop()
    fed = 0
    while fed < 3:
        await loop.sock_recv(systemd.socket, 4096)
        fed += 1
    task.cancel()


async def test_a_long_start_asks_for_time_a_running_service_does_not(
    systemd: Systemd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sd_notify, "EXTENSION_SECONDS", 0.03)
    notifier = Notifier(systemd.environment)
    task = asyncio.create_task(notifier.keep_alive())
    loop = asyncio.get_running_loop()
    for _ in range(2):
        assert (await loop.sock_recv(systemd.socket, 4096)).startswith(b"EXTEND_TIMEOUT_USEC=")
    notifier.ready("ready")
    systemd.heard()
    await asyncio.sleep(0.05)
    assert systemd.heard() == []
    task.cancel()


@pytest.mark.parametrize(
    "environment", [{"WATCHDOG_USEC": "1000", "WATCHDOG_PID": "1"}, {"WATCHDOG_USEC": "rubbish"}]
)
async def test_a_watchdog_of_another_process_or_without_an_interval_is_not_fed(
    systemd: Systemd, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]
) -> None:
    monkeypatch.setattr(sd_notify, "EXTENSION_SECONDS", 0.003)
    task = asyncio.create_task(Notifier({**systemd.environment, **environment}).keep_alive())
    loop = asyncio.get_running_loop()
    heard = [await loop.sock_recv(systemd.socket, 4096) for _ in range(4)]
    task.cancel()
    assert all(line.startswith(b"EXTEND_TIMEOUT_USEC=") for line in heard)


class Nothing:
    """A server that does nothing, and says when it was told to."""

    def __init__(self) -> None:
        self.did: list[str] = []

    async def start(self) -> None:
        self.did.append("start")

    async def stop(self) -> None:
        self.did.append("stop")


async def test_a_served_process_tells_its_manager(
    systemd: Systemd, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", systemd.environment["NOTIFY_SOCKET"])
    server = Nothing()
    serving = asyncio.create_task(serve(server, ready_line="ready: all"))
    loop = asyncio.get_running_loop()
    heard = ""
    while "READY=1" not in heard:
        heard += (await loop.sock_recv(systemd.socket, 4096)).decode() + "\n"
    assert server.did == ["start"]
    os.kill(os.getpid(), 15)
    await serving
    assert server.did == ["start", "stop"]
    assert "STATUS=ready: all" in heard
    assert "STOPPING=1" in systemd.heard()
