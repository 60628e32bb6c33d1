"""Drivers that are killed together with all that they began."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from pathlib import Path


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


def _is_dead(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
