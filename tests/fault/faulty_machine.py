"""A broker of its own process on a machine whose disk, clock and memory are as the test says, while it runs.

As a program (`python faulty_machine.py COMMAND …`) it becomes that `orbitmq` command. The state of the
machine stands in files of a folder beside the broker's data, which a test writes through `FaultyMachine`.
"""

from __future__ import annotations

import errno
import os
import runpy
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from orbitmq.testing import LocalBroker

STALL_STEP_SECONDS = 0.02


class FaultyMachine(LocalBroker):
    """A broker, and the machine it runs on."""

    PROGRAM: ClassVar[tuple[str, ...]] = (__file__,)

    def __init__(self, data_dir: Path, **properties: object) -> None:
        super().__init__(data_dir, own_process=True, timeout_seconds=120, **properties)

    def _say(self, name: str, word: str) -> None:
        folder = machine_of(self.data_dir)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "new").write_text(word)
        (folder / "new").replace(folder / name)

    def set_clock(self, ahead_ms: int) -> None:
        """Sets the wall clock to so much more than the true time, as an operator does."""
        self._say("clock", str(ahead_ms))

    def has_memory(self, size: int) -> None:
        """The machine has so many bytes of memory, from the next start on."""
        self._say("memory", str(size))

    def syncs_fail(self) -> None:
        """From now on the disk cannot write what is flushed of the log (EIO)."""
        self._say("syncs", "fail")

    def syncs_wait(self) -> None:
        """From now on no flush comes to an end."""
        self._say("syncs", "wait")

    def syncs_work(self) -> None:
        """The disk is well again, as far as it tells."""
        self._say("syncs", "")


def machine_of(data_dir: Path) -> Path:
    """The folder that holds what the machine is like."""
    return data_dir.with_name(data_dir.name + "-machine")


class Machine:
    """Stands between the process and the system."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._time, self._time_ns, self._sysconf = time.time, time.time_ns, os.sysconf

    def _said(self, name: str) -> str:
        try:
            return (self._folder / name).read_text()
        except FileNotFoundError:
            return ""

    def install(self) -> None:
        """From now on the system is as the files say."""
        time.time = lambda: self._time() + self._ahead_ms() / 1000
        time.time_ns = lambda: self._time_ns() + self._ahead_ms() * 1_000_000
        os.sysconf = self.sysconf
        for name in ("fsync", "fdatasync"):
            setattr(os, name, self._faulty(getattr(os, name)))

    def _ahead_ms(self) -> int:
        return int(self._said("clock") or 0)

    def sysconf(self, name: str | int) -> int:
        """The memory that the test has said, and everything else of the system."""
        size = self._said("memory")
        if name == "SC_PHYS_PAGES" and size:
            return int(size) // self._sysconf("SC_PAGE_SIZE")
        return self._sysconf(name)

    def _faulty(self, sync: Callable[[int], None]) -> Callable[[int], None]:
        def faulty(fd: int) -> None:
            while self._said("syncs") == "wait":
                time.sleep(STALL_STEP_SECONDS)
            if self._said("syncs") == "fail" and "/commitlog/" in os.readlink(f"/proc/self/fd/{fd}"):
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            sync(fd)

        return faulty


def main() -> None:
    """Becomes the command that the arguments hold."""
    data_dir = Path(sys.argv[sys.argv.index("--data-dir") + 1])
    sys.path.pop(0)  # the folder of this file, which is none of the command's
    Machine(machine_of(data_dir)).install()
    sys.argv[0] = "orbitmq"
    runpy.run_module("orbitmq", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
