"""The parts of this machine that foreign peers see: a place for downloads, free ports, processes."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from orbitmq.server.turn.listener import free_ports
from tests.kit.class_archives import QUICK_START
from tests.needs import javac

REPOSITORY = Path(__file__).parents[2]
LOOPBACK = "127.0.0.1"


def cache() -> Path:
    """Where jars, Go programs and their logs are kept between runs: ORBITMQ_PEERS_CACHE or .cache/peers."""
    path = Path(os.environ.get("ORBITMQ_PEERS_CACHE") or REPOSITORY / ".cache" / "peers")
    path.mkdir(parents=True, exist_ok=True)
    return path


def jars(pom: Path, name: str) -> Path:
    """The folder with what `pom` lists and all it depends on, fetched once from Maven Central."""
    # By what is listed, not by when: another clone with the same cache may be in the middle of a run.
    folder = cache() / f"{name}-{hashlib.sha256(pom.read_bytes()).hexdigest()[:12]}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = folder / "done"
        if not done.exists():
            shutil.rmtree(folder / "lib", ignore_errors=True)
            goal = [
                "dependency:copy-dependencies",
                "-DincludeScope=runtime",
                f"-DoutputDirectory={folder}/lib",
            ]
            subprocess.run(["mvn", "-q", "-B", "-f", str(pom), *goal], check=True)
            done.touch()
    return folder / "lib"


def compiled(source: Path, libraries: Path) -> Path:
    """The jar of a Java program of one file, compiled once: `java Program.java` does it at each start, in 2 s
    of CPU time.
    """
    given = source.read_bytes() + str(libraries).encode()
    folder = cache() / f"{source.stem}-{hashlib.sha256(given).hexdigest()[:12]}"
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / f"{source.stem}.jar"
    with (folder / "lock").open("w") as lock, tempfile.TemporaryDirectory() as classes:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            quick = [f"-J{flag}" for flag in QUICK_START]
            command = [javac(), *quick, "-nowarn", "-cp", f"{libraries}/*", "-d", classes, str(source)]
            subprocess.run(command, check=True, capture_output=True)
            packed = shutil.make_archive(str(folder / "new"), "zip", classes)
            Path(packed).replace(made)
    return made


def free_port(offsets: Sequence[int] = (0,)) -> int:
    """A port P such that P plus each of `offsets` is free on the loopback (a broker binds P-2, P and P+1)."""
    return free_ports(*(offset for offset in offsets if offset), host=LOOPBACK)


class Process:
    """One server process in a session of its own, with its output in a file."""

    def __init__(
        self, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.log = log
        with log.open("wb") as out:
            self._popen = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=None if environment is None else {**os.environ, **environment},
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._popen.pid

    def alive(self) -> bool:
        return self._popen.poll() is None

    def end(self, how: signal.Signals, limit_s: float = 60) -> int:
        """Sends `how` to the process and waits for its end; its exit code. Killed where it does not end."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, how)
        try:
            return self._popen.wait(limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(self.pid, signal.SIGKILL)
            self._popen.wait()
            raise AssertionError(f"not gone {limit_s} s after {how.name}; {self.tail()}") from None

    def tail(self, lines: int = 30) -> str:
        """The last lines of its output, for a failure message."""
        text = "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
        return f"the end of its output:\n{text}" if text else "it printed nothing"

    def wait_until(self, what: str, condition: Callable[[], bool], limit_s: float) -> None:
        """Waits until `condition()` holds; fails when the process ends before, or when the time is over."""
        deadline = time.monotonic() + limit_s
        while not condition():
            assert self.alive(), f"ended before {what}; {self.tail()}"
            assert time.monotonic() < deadline, f"not within {limit_s} s: {what}; {self.tail()}"
            time.sleep(0.05)


def registered(namesrv: str, broker: str) -> bool:
    """True if the name server knows the broker's address: one bare request (GET_BROKER_CLUSTER_INFO)."""
    return f'"{broker}"'.encode() in _ask(namesrv, 106)


def _ask(address: str, code: int) -> bytes:
    """The frame that answers a request without fields, or nothing where nobody answers."""
    header = {"code": code, "flag": 0, "language": "OTHER", "opaque": 1, "version": 493}
    text = json.dumps(header).encode()
    host, _, port = address.rpartition(":")
    with (
        contextlib.suppress(OSError),
        socket.create_connection((host, int(port)), 5) as peer,
        peer.makefile("rb") as stream,
    ):
        peer.sendall(struct.pack(">II", 4 + len(text), len(text)) + text)
        length = stream.read(4)
        return stream.read(int.from_bytes(length, "big")) if len(length) == 4 else b""
    return b""


@contextlib.contextmanager
def ended_on_error(*processes: Process) -> Iterator[None]:
    """Kills the processes when the block fails, so that a start that went wrong leaves nothing running."""
    try:
        yield
    except BaseException:
        for process in processes:
            process.end(signal.SIGKILL)
        raise
