"""Facts of the kernel about a broker: CPU time, memory, ports. Linux only."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Self

import click

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def process_tree(pid: int) -> list[int]:
    """`pid` and every process below it that is alive."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                children.setdefault(_stat_fields(int(entry.name))[1], []).append(int(entry.name))
    tree, rest = [], [pid]
    while rest:
        one = rest.pop()
        tree.append(one)
        rest.extend(children.get(one, ()))
    return tree


def _stat_fields(pid: int) -> list[int]:
    """State as 0, then ppid and the rest of /proc/PID/stat: the command may hold blanks and brackets."""
    text = Path(f"/proc/{pid}/stat").read_text()
    return [0] + [int(word) for word in text[text.rindex(")") + 4 :].split()]


def cpu_seconds(pid: int) -> float:
    """Utime + stime of a process and those below it, those that have ended included."""
    ticks = 0
    for one in process_tree(pid):
        with contextlib.suppress(OSError):
            fields = _stat_fields(one)
            ticks += sum(fields[11:15])  # its own, and what it was told of its children when they ended
    return ticks / TICKS_PER_SECOND


class WatchedCpu:
    """CPU seconds of a process and those below it while it is watched, those that come and go included.

    Looked at four times a second: not every parent is told what a child of its has used when that ends.
    """

    INTERVAL_S = 0.25

    def __init__(self, pid: int, without: Collection[int] = ()) -> None:
        self._pid = pid
        self._without = without
        self._first: dict[int, int] = {}
        self._last: dict[int, int] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watched-cpu", daemon=True)

    def __enter__(self) -> Self:
        self._look()
        self._first = dict(self._last)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._look()

    @property
    def seconds(self) -> float:
        """Processor time that they have used since the begin."""
        ticks = sum(last - self._first.get(pid, 0) for pid, last in self._last.items())
        return ticks / TICKS_PER_SECOND

    def _watch(self) -> None:
        while not self._ended.wait(self.INTERVAL_S):
            self._look()

    def _look(self) -> None:
        left_out = {below for pid in self._without for below in process_tree(pid)}
        for pid in process_tree(self._pid):
            if pid not in left_out:
                with contextlib.suppress(OSError):
                    fields = _stat_fields(pid)
                    self._last[pid] = sum(fields[11:13])


def anonymous_bytes(pid: int) -> int:
    """RssAnon + RssShmem of a process and those below it: mapped log pages belong to no one."""
    total = 0
    for one in process_tree(pid):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{one}/status").read_text().splitlines():
                if line.startswith(("RssAnon:", "RssShmem:")):
                    total += int(line.split()[1]) * 1024
    return total


def disk_bytes(pid: int) -> int:
    """Bytes that a process and those below it have made the kernel write to the disk, mapped pages
    included.
    """
    total = 0
    for one in process_tree(pid):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{one}/io").read_text().splitlines():
                if line.startswith("write_bytes:"):
                    total += int(line.split()[1])
    return total


@contextlib.contextmanager
def stopped_at_exit(process: subprocess.Popen[bytes], name: str) -> Iterator[subprocess.Popen[bytes]]:
    """Ends a process that leads its own session, politely first, whatever happens in the block."""
    try:
        yield process
    finally:
        # A second Ctrl-C must not cut short what the first one set off.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        for step in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, step)
                os.killpg(process.pid, signal.SIGCONT)
            try:
                process.wait(timeout=30)
                break
            except subprocess.TimeoutExpired:
                print(f"{name} did not stop on {step.name}")
        signal.signal(signal.SIGINT, before)


def wait_for_port(port: int, process: subprocess.Popen[bytes], log: Path, limit_s: float = 300) -> None:
    """Returns when 127.0.0.1:`port` accepts connections; raises when the process ends before."""
    deadline = time.monotonic() + limit_s
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        if process.poll() is not None or time.monotonic() > deadline:
            raise click.ClickException(f"nothing listens on port {port}; end of {log}:\n{tail(log)}")
        time.sleep(0.02)


def tail(path: Path, lines: int = 15) -> str:
    """The last lines of a log, for an error message."""
    try:
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return "(no output)"
