"""Disks of brokers that fill up while they run, and have room again."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from orbitmq.protocol.errors import OrbitError

ROOM_BYTES = 4 << 30
"""The size of a disk that is not full. Unused space takes no memory."""
_BLOCK = 4096


class Disks:
    """The disks of some nodes, by their names, with the data folder of each.

    For the superuser each is a file system of its own, in memory: it is made so small that no room is left,
    and larger again. For others a full disk is a limit on the size of files (`ulimit -f`) of the running
    process: no file grows or is made. `pid` gives the process of a node at this moment.
    """

    def __init__(self, folders: dict[str, Path], pid: Callable[[str], int]) -> None:
        self._folders = folders
        self._pid = pid
        self._mounted: set[str] = set()

    @property
    def are_mounted(self) -> bool:
        """True if the disks are file systems of their own."""
        return bool(self._mounted)

    def open(self) -> None:
        """Gives every node its disk, where this process may: before the nodes start."""
        for name, folder in self._folders.items():
            folder.mkdir(parents=True, exist_ok=True)
            if not _is_done("mount", "-t", "tmpfs", "-o", f"size={ROOM_BYTES}", "tmpfs", str(folder)):
                self._unmount()
                return
            self._mounted.add(name)

    def fill(self, name: str, left_bytes: int) -> None:
        """Leaves that many bytes of room on the disk of a node; none where a limit stands for the disk."""
        if name not in self._mounted:
            self._limit(name, is_full=True)
            return
        for _ in range(20):
            used = _used_bytes(self._folders[name])
            # The node may have taken more in the meantime: then it does not fit.
            if self._resize(name, -(-(used + left_bytes) // _BLOCK) * _BLOCK):
                return
        raise OrbitError(f"the disk of {name} does not get smaller")

    def free(self, name: str) -> None:
        """There is room again on the disk of a node."""
        if name in self._mounted:
            self._resize(name, ROOM_BYTES)
        else:
            self._limit(name, is_full=False)

    def close(self, keep: bool) -> None:
        """Takes the disks away; with `keep` the folders hold afterwards what the disks held."""
        for name in sorted(self._mounted if keep else ()):
            folder = self._folders[name]
            beside = folder.with_name(folder.name + ".kept")
            _is_done("cp", "-a", "--sparse=always", str(folder), str(beside))
        kept = self._mounted if keep else set()
        self._unmount()
        for name in kept:
            folder = self._folders[name]
            with suppress(OSError):
                os.rmdir(folder)
                shutil.move(folder.with_name(folder.name + ".kept"), folder)

    def _unmount(self) -> None:
        for name in self._mounted:
            _is_done("umount", "-l", str(self._folders[name]))
        self._mounted = set()

    def _resize(self, name: str, size_bytes: int) -> bool:
        return _is_done("mount", "-o", f"remount,size={size_bytes}", str(self._folders[name]))

    def _limit(self, name: str, *, is_full: bool) -> None:
        with suppress(ProcessLookupError):
            if pid := self._pid(name):
                _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (1 if is_full else hard, hard))


def _used_bytes(folder: Path) -> int:
    found = os.statvfs(folder)
    return found.f_frsize * (found.f_blocks - found.f_bfree)


def _is_done(*command: str) -> bool:
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False
