"""A broker of its own for a measurement, whose event loop tells how long its longest turn was.

As a script (`python watched.py FILE ARGUMENTS...`) it is `orbitmq ARGUMENTS...` with a task beside that
notes the longest time between two of its own turns: on SIGUSR1 it writes that into FILE and begins anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.processes import stopped_at_exit, tail

TICK_SECONDS = 0.005
START_SECONDS = 300.0


class _Turns:
    """Between two ticks there is at most one long turn and some short ones."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._number = 0
        self._cpu = self._wall = self._held = 0.0

    async def run(self) -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, self._tell)
        while True:
            cpu, wall, queued = time.thread_time(), time.perf_counter(), _queued_seconds()
            await asyncio.sleep(TICK_SECONDS)
            took = time.perf_counter() - wall - TICK_SECONDS
            self._cpu = max(self._cpu, time.thread_time() - cpu)
            self._wall = max(self._wall, took)
            self._held = max(self._held, took - (_queued_seconds() - queued))

    def _tell(self) -> None:
        self._number += 1
        beside = self._path.with_suffix(".tmp")
        told = {
            "number": self._number,
            "turn_cpu_ms": self._cpu * 1000,
            "turn_ms": self._wall * 1000,
            "turn_held_ms": self._held * 1000,
        }
        beside.write_text(json.dumps(told))
        beside.replace(self._path)
        self._cpu = self._wall = self._held = 0.0


def _queued_seconds() -> float:
    """For how long this thread has waited for a processor."""
    return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9


def main() -> int:
    """Runs the command with the watch beside it."""
    from orbitmq.cli.app import run
    from orbitmq.server.lifecycle import process

    path, *arguments = sys.argv[1:]
    serve = process.serve

    async def watched(*args: Any, **kwargs: Any) -> None:
        task = asyncio.create_task(_Turns(Path(path)).run())
        try:
            await serve(*args, **kwargs)
        finally:
            task.cancel()

    process.serve = watched
    return run(arguments)


@dataclass(slots=True)
class Watched:
    """A running broker, with a name server in the same process."""

    process: subprocess.Popen[bytes]
    namesrv: str
    broker: str
    folder: Path
    _told: int = 0

    @property
    def pid(self) -> int:
        """The process of both."""
        return self.process.pid

    def cpu_ns(self) -> int:
        """CPU time that it has used, of all its threads that still live."""
        total = 0
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            with contextlib.suppress(OSError):
                total += int((task / "schedstat").read_text().split()[0])
        return total

    def memory_bytes(self) -> int:
        """Anonymous and shared memory: mapped pages of the log belong to no one."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return sum(
            int(line.split()[1]) * 1024 for line in lines if line.startswith(("RssAnon:", "RssShmem:"))
        )

    def longest_turn(self) -> dict[str, float]:
        """The longest turn since the last call, in ms: CPU time of the loop's thread, by the clock, and
        by the clock without the time for which others had the processor.

        The last is longer than the first where the disk or another thread kept the loop's.
        """
        self.process.send_signal(signal.SIGUSR1)
        path = self.folder / "turns.json"
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError, ValueError):
                told = json.loads(path.read_text())
                if told["number"] > self._told:
                    self._told = told["number"]
                    return {name: value for name, value in told.items() if name != "number"}
            time.sleep(0.005)
        raise TimeoutError("the broker's loop does not turn")


@contextlib.contextmanager
def watched(folder: Path, **properties: object) -> Iterator[Watched]:
    """A broker over `folder`, which stays when it ends."""
    from orbitmq.server.turn.listener import free_ports

    port = free_ports(-2, 1, 2)
    folder.mkdir(parents=True, exist_ok=True)
    ready, log = folder / "ready", folder / "log"
    (folder / "turns.json").unlink(missing_ok=True)
    arguments = [
        *("standalone", "--data-dir", str(folder / "store"), "--ready-file", str(ready)),
        *("--broker-port", str(port), "--namesrv-port", str(port + 2)),
        *(word for name, value in properties.items() for word in ("--set", f"{name}={value}")),
    ]
    environment = dict(os.environ)
    own = str(Path(__file__).parent.parent)
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [environment.get("PYTHONPATH"), own]))
    with log.open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.watched", str(folder / "turns.json"), *arguments],
            stdout=out,
            stderr=out,
            stdin=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
    with stopped_at_exit(process, "the broker"):
        deadline = time.monotonic() + START_SECONDS
        while not ready.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the broker did not start:\n{tail(log)}")
            time.sleep(0.01)
        yield Watched(process, f"127.0.0.1:{port + 2}", f"127.0.0.1:{port}", folder)


if __name__ == "__main__":
    sys.exit(main())
