"""Drivers that are killed together with all that they began."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.peers.machine import REPOSITORY

PATIENCE_SECONDS = 300


def processes_of(session: int) -> list[int]:
    """A driver, its JVM and Spark's workers: all that one session holds."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.getsid(int(path.name)) == session:
                found.append(int(path.name))
    return found


def kill(driver: subprocess.Popen[bytes]) -> None:
    """Ends it as a machine does that goes down: nobody is left to send anything."""
    while processes := [pid for pid in processes_of(driver.pid) if not _is_dead(pid)]:
        for pid in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    driver.wait()


def kill_when(ready: Callable[[], bool], log: Path, *module: str) -> None:
    """Runs a module and its words as a driver of its own until something is `ready`, and kills it."""
    with log.open("ab") as output:
        driver = subprocess.Popen(
            [sys.executable, "-m", *module],
            cwd=REPOSITORY,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not ready():
            assert time.monotonic() < deadline, f"nothing comes: {log.read_text()[-3000:]}"
            assert driver.poll() is None, log.read_text()[-3000:]
            time.sleep(0.005)
    finally:
        kill(driver)
    assert driver.returncode == -signal.SIGKILL, "it was at work"


def _is_dead(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
