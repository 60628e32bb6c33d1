import resource
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from orbitmq.console import connections
from tests.kit.running_console import PATIENCE_SECONDS, RunningConsole

Connect = Callable[..., socket.socket]


@pytest.fixture
def console(tmp_path: Path) -> Iterator[RunningConsole]:
    with RunningConsole(tmp_path, gone="127.0.0.1:1") as running:
        yield running


@pytest.fixture
def connect(console: RunningConsole) -> Iterator[Connect]:
    """Opens a connection of 127.0.0.1, or of another address of this machine."""
    host, port = console.url.removeprefix("http://").split(":")
    with ExitStack() as open_ones:

        def one(source: str = "127.0.0.1") -> socket.socket:
            made = socket.create_connection((host, int(port)), PATIENCE_SECONDS, (source, 0))
            return open_ones.enter_context(made)

        yield one


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


def test_500_silent_connections_of_this_machine_do_not_lock_the_console(
    console: RunningConsole, connect: Connect
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        silent = [connect() for _ in range(510)]
        assert console.client().get("/api/session").status_code == 200
        for one in silent:
            one.close()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: local"])
def test_a_connection_without_a_whole_request_is_closed_after_a_time(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(connections, "REQUEST_SECONDS", 0.2)
    one = connect()
    one.sendall(sent)
    assert one.recv(1) == b""


def test_a_connection_without_a_further_request_is_closed_after_a_time(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = connect()
    one.sendall(get("/api/session"))
    assert one.recv(100).startswith(b"HTTP/1.1 200 ")
    monkeypatch.setattr(connections, "REQUEST_SECONDS", 0.2)  # it has begun: the next answer begins the time
    one.sendall(get("/api/session"))
    answer = b"".join(iter(lambda: one.recv(65536), b""))
    assert b"HTTP/1.1 200 " in answer


def test_the_oldest_silent_connection_of_a_peer_gives_way_to_its_next(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MOST_PER_PEER", 3)
    other, first, second, third, fourth = connect("127.0.0.2"), *(connect() for _ in range(4))
    assert first.recv(1) == b""
    for one in (other, second, third, fourth):
        one.sendall(get("/api/session"))
        assert one.recv(100).startswith(b"HTTP/1.1 200 ")


def test_open_streams_are_never_in_the_way_and_more_of_them_are_refused(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MOST_PER_PEER", 2)
    streams = [connect(), connect()]
    for one in streams:
        one.sendall(get("/api/clusters/gone/overview/events"))
        assert one.recv(100).startswith(b"HTTP/1.1 200 ")
    further = connect()
    further.sendall(get("/api/session"))
    assert further.recv(100).startswith(b"HTTP/1.1 503 ")
    other = connect("127.0.0.2")
    other.sendall(get("/api/session"))
    assert other.recv(100).startswith(b"HTTP/1.1 200 ")


def test_a_body_that_does_not_come_is_answered_after_a_time(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orbitmq.console.api.endpoint.BODY_SECONDS", 0.2)
    one = connect()
    head = "POST /api/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    one.sendall(f"{head}Content-Length: 40\r\n\r\n{{".encode())
    assert one.recv(4096).startswith(b"HTTP/1.1 408 ")
