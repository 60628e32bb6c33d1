"""Runs servers as processes of their own and never leaves them behind."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

START_LIMIT_S = 120
STOP_LIMIT_S = 30


class NotStarted(Exception):
    """The broker cannot run here; the text says why and what to do."""


@dataclass(slots=True, frozen=True)
class Broker:
    """A broker that is up."""

    namesrv: str
    pid: int
    log: Path
    ready_after_s: float


def check_ports(namesrv_port: int, broker_port: int) -> None:
    """Raises NotStarted when a port the broker needs is taken: the broker's own, and the one two below."""
    for port, option in (
        (namesrv_port, "--namesrv-port"),
        (broker_port, "--broker-port"),
        (broker_port - 2, "--broker-port"),
    ):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError as error:
                raise NotStarted(
                    f"port {port} cannot be used ({error.strerror}): choose another {option}"
                ) from None


@contextlib.contextmanager
def standalone(folder: Path, namesrv_port: int, broker_port: int) -> Iterator[Broker]:
    """Starts name server and broker over `folder`/store and stops them at the end of the block.

    Raises NotStarted with the end of the log when the process ends before it is ready.
    """
    check_ports(namesrv_port, broker_port)
    began = time.monotonic()
    arguments = (
        "standalone",
        f"--data-dir={folder / 'store'}",
        f"--namesrv-port={namesrv_port}",
        f"--broker-port={broker_port}",
    )
    with _server("broker", folder, arguments) as (process, _):
        log = folder / "broker.log"
        yield Broker(f"127.0.0.1:{namesrv_port}", process.pid, log, time.monotonic() - began)


@contextlib.contextmanager
def live_console(folder: Path, namesrv: str, *options: str) -> Iterator[str]:
    """Serves the console on port 8080, or on a free one, until the end of the block; gives its address.

    Raises NotStarted.
    """
    port = f"--port={_free_port(8080)}"
    arguments = ("console", f"--namesrv={namesrv}", port, f"--data-dir={folder / 'console'}", *options)
    with _server("console", folder, arguments) as (_, ready):
        yield ready.read_text().split()[-1]


@contextlib.contextmanager
def delay_service(folder: Path, *clusters: str) -> Iterator[str]:
    """Runs the delay service on port 8090, or on a free one, until the end of the block; gives its address.

    Raises NotStarted.
    """
    address = f"127.0.0.1:{_free_port(8090)}"
    options = [f"--cluster={cluster}" for cluster in clusters]
    arguments = ("delay", "serve", f"--data-dir={folder / 'delay'}", f"--http={address}", *options)
    with _server("delay service", folder, arguments):
        yield f"http://{address}"


@contextlib.contextmanager
def _server(
    name: str, folder: Path, arguments: Sequence[str]
) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A process and its ready file, from when it is ready to the end of the block. Raises NotStarted."""
    folder.mkdir(parents=True, exist_ok=True)
    ready, log = folder / f"{name}-ready", folder / f"{name}.log"
    ready.unlink(missing_ok=True)
    command = [str(Path(sys.executable).with_name("orbitmq")), *arguments, f"--ready-file={ready}"]
    began = time.monotonic()
    with log.open("ab") as out, child(command, stdout=out, stderr=subprocess.STDOUT) as process:
        while not ready.exists():
            if process.poll() is not None:
                raise NotStarted(f"the {name} ended with code {process.returncode}:\n{_tail(log)}")
            if time.monotonic() - began > START_LIMIT_S:
                raise NotStarted(f"the {name} is not ready after {START_LIMIT_S} s:\n{_tail(log)}")
            time.sleep(0.02)
        yield process, ready


def _free_port(wanted: int) -> int:
    for port in (wanted, 0):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)) as free:
            return int(free.getsockname()[1])
    raise NotStarted("no port is free")


@contextlib.contextmanager
def child(command: Sequence[str], **streams: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A process in a session of its own, ended with all it has started however the block is left.

    Ctrl-C reaches this process alone, at any moment, also while the child is being started.
    """
    process = None
    try:
        with interrupts_held():
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True, **streams)
        yield process
    finally:
        if process is not None:
            with interrupts_held():
                _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    for step in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, step)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_LIMIT_S)
            break
    # Whatever the process has started and not ended itself.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


@contextlib.contextmanager
def interrupts_held() -> Iterator[None]:
    """Puts Ctrl-C off until the block is done: what it starts or ends is then started or ended."""
    pending = False

    def hold(*_: object) -> None:
        nonlocal pending
        pending = True

    before = signal.signal(signal.SIGINT, hold)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if pending:
        raise KeyboardInterrupt


def _tail(log: Path, lines: int = 10) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
