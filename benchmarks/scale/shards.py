"""`--shards N`: messages per CPU-second for 1, 2 and 4 shards, each held to the same share of a processor.

A machine with two cores cannot show four shards at full speed. So each shard gets the same quota of CPU time:
whoever has used it up stands still (SIGSTOP) until its next period, as the kernel's own quotas do it, but
without their rights. Messages per CPU-second that do not depend on the number of shards say that shards take
nothing from one another: on a machine with a core for each, N of them carry N times as much.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.processes import process_tree, stopped_at_exit, tail
from benchmarks.scale.probe import send_request
from orbitmq.net.address import parse_address
from orbitmq.net.blocking import BlockingConnection
from orbitmq.protocol.remoting.frame import encode_command
from orbitmq.server.turn.listener import free_ports

COUNTS = (1, 2, 4)
QUOTA = 0.15
"""Of a processor, for each shard: four of them and who loads them fit on one and a half."""
PERIOD_SECONDS = 0.1
STEP_SECONDS = 0.004
BURST = 64
"""Sends that a connection has under way; the next ones go out when all of them are answered."""
CONNECTIONS = 2
"""For each shard."""
BODY_BYTES = 128


def measure(count: int, seconds: float, folder: Path) -> dict[str, Any]:
    """Starts so many shards, loads all of them, and counts what they took for what CPU time."""
    with _shards(folder, count) as (pids, addresses):
        shares = [_Share(pid) for pid in pids]
        loads = [_Load(address) for address in addresses for _ in range(CONNECTIONS)]
        try:
            _run(shares, loads, 2.0)
            before = [share.cpu_ns() for share in shares]
            sent = [load.answered for load in loads]
            began = time.perf_counter()
            _run(shares, loads, seconds)
            elapsed = time.perf_counter() - began
            used = sum(share.cpu_ns() - at for share, at in zip(shares, before, strict=True)) / 1e9
            messages = sum(load.answered - at for load, at in zip(loads, sent, strict=True))
        finally:
            for share in shares:
                share.release()
            for load in loads:
                load.close()
    return {
        "rate": messages / elapsed,
        "cpu_share": used / elapsed / count,
        "per_cpu_second": messages / used,
    }


class _Share:
    """The CPU time of one shard, and its quota."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._stopped = False
        self._period_began = time.perf_counter()
        self._used_before = self.cpu_ns()

    def cpu_ns(self) -> int:
        total = 0
        for task in Path(f"/proc/{self._pid}/task").iterdir():
            with contextlib.suppress(OSError):
                total += int((task / "schedstat").read_text().split()[0])
        return total

    def look(self, now: float) -> None:
        """Stops who has used up its time; what was used too much counts for the next period."""
        if now - self._period_began >= PERIOD_SECONDS:
            periods = int((now - self._period_began) / PERIOD_SECONDS)
            self._period_began += periods * PERIOD_SECONDS
            # Time that was not used is lost, as with the kernel's quotas.
            allowed = self._used_before + int(periods * QUOTA * PERIOD_SECONDS * 1e9)
            self._used_before = max(allowed, self.cpu_ns() - int(QUOTA * PERIOD_SECONDS * 1e9))
        over = self.cpu_ns() - self._used_before >= QUOTA * PERIOD_SECONDS * 1e9
        if over and not self._stopped:
            os.kill(self._pid, signal.SIGSTOP)
            self._stopped = True
        elif not over:
            self.release()

    def release(self) -> None:
        if self._stopped:
            os.kill(self._pid, signal.SIGCONT)
            self._stopped = False


class _Load:
    """One connection that sends the same burst again and again."""

    def __init__(self, address: str) -> None:
        with BlockingConnection(address) as connection:
            connection.call(send_request("ScaleShards"), 60_000)
        self.socket = socket.create_connection(parse_address(address))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        frames = []
        for number in range(BURST):
            command = send_request("ScaleShards", number % 8, b"x" * BODY_BYTES).to_command(number)
            frames.append(encode_command(command))
        self._burst = b"".join(frames)
        self._received = bytearray()
        self._open = 0
        self.answered = 0
        self.send()

    def send(self) -> None:
        self._open = BURST
        self.socket.sendall(self._burst)

    def read(self) -> None:
        """Counts answers; the next burst follows the last one."""
        self._received += self.socket.recv(1 << 18)
        position = 0
        received = self._received
        while len(received) - position >= 4:
            end = position + 4 + int.from_bytes(received[position : position + 4], "big")
            if end > len(received):
                break
            if b'"code":0' not in received[position:end]:
                raise RuntimeError(f"a send was refused: {bytes(received[position:end])!r}")
            position = end
            self._open -= 1
            self.answered += 1
        del received[:position]
        if not self._open:
            self.send()

    def close(self) -> None:
        self.socket.close()


def _run(shares: list[_Share], loads: list[_Load], seconds: float) -> None:
    with selectors.DefaultSelector() as selector:
        for load in loads:
            selector.register(load.socket, selectors.EVENT_READ, load)
        end = time.perf_counter() + seconds
        looked = 0.0
        while (now := time.perf_counter()) < end:
            if now - looked >= STEP_SECONDS:
                looked = now
                for share in shares:
                    share.look(now)
            for key, _ in selector.select(STEP_SECONDS):
                key.data.read()


@contextlib.contextmanager
def _shards(folder: Path, count: int) -> Iterator[tuple[list[int], list[str]]]:
    """The processes and addresses of `count` shards below one supervisor."""
    taken = {10 * number + distance for number in range(count) for distance in (-2, 0, 1)} - {0}
    port = free_ports(*taken)
    folder.mkdir(parents=True, exist_ok=True)
    ready, log = folder / "ready", folder / "log"
    command = [
        *(sys.executable, "-m", "orbitmq", "broker", "--shards", str(count), "--port", str(port)),
        *("--namesrv", f"127.0.0.1:{port + 5}", "--data-dir", str(folder / "store")),
        *("--ready-file", str(ready), "--set", "mappedFileSizeCommitLog=268435456"),
        *("--set", "diskMaxUsedSpaceRatio=95"),
    ]
    with log.open("ab") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=out, stdin=subprocess.DEVNULL, start_new_session=True
        )
    with stopped_at_exit(process, "the shards"):
        deadline = time.monotonic() + 120
        while not ready.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the shards did not start:\n{tail(log)}")
            time.sleep(0.02)
        pids = sorted(pid for pid in process_tree(process.pid) if pid != process.pid)
        yield pids, [f"127.0.0.1:{port + 10 * number}" for number in range(count)]
