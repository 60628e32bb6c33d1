"""A disk that loses what was not synced, and one that has no room left.

Files are real ones in a folder, so that the store maps and reads them as ever. Beside them the disk keeps
what a power cut would leave: the content of each file at its last sync, and the names of each folder at its
last sync.
"""

from __future__ import annotations

import errno
import random
import shutil
from pathlib import Path
from typing import Any

from orbitmq.store.files import RealDisk, StoreFile

PAGE_BYTES = 4096


class SimulatedFile:
    """A file whose syncs the disk sees."""

    def __init__(self, disk: SimulatedDisk, file: StoreFile) -> None:
        self._disk = disk
        self._file = file
        self.path = file.path
        self.size = file.size

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def sync(self) -> None:
        self._file.sync()
        self._disk.synced[self.path] = self.path.read_bytes()

    def reserve(self, position: int, length: int) -> None:
        if self._disk.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        self._file.reserve(position, length)

    def write(self, position: int, data: bytes | memoryview) -> None:
        if self._disk.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        self._file.write(position, data)


class SimulatedDisk(RealDisk):
    """Everything below `root`."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root = root
        self.synced: dict[Path, bytes] = {}
        self.full = False

    def open(self, path: Path, size: int | None = None, mode: int = 0o644) -> StoreFile:
        if self.full and size is not None and not path.exists():
            raise OSError(errno.ENOSPC, "No space left on device")
        file: Any = SimulatedFile(self, super().open(path, size, mode))
        made: StoreFile = file
        return made

    def rename(self, path: Path, new_path: Path) -> None:
        super().rename(path, new_path)
        if path in self.synced:
            self.synced[new_path] = self.synced.pop(path)

    def remove(self, path: Path) -> None:
        super().remove(path)
        self.synced.pop(path, None)

    def cut_power(self, target: Path, chance: random.Random) -> None:
        """Lays out in `target` what is left: synced content, and of all later pages any, each as a whole or
        torn.
        """
        for path in sorted(self.root.rglob("*")):
            if path.is_file():
                kept = self._left_of(path, chance)
                if kept is not None:
                    new_path = target / path.relative_to(self.root)
                    new_path.parent.mkdir(parents=True, exist_ok=True)
                    new_path.write_bytes(kept)

    def _left_of(self, path: Path, chance: random.Random) -> bytes | None:
        now = path.read_bytes()
        before = self.synced.get(path)
        if before is None:
            if path.name in ("lock", "abort"):
                return now
            if chance.random() < 0.3:
                return None  # the name never got to the disk
            before = b""
        before = before.ljust(len(now), b"\x00")
        pages = bytearray(before)
        for at in range(0, len(now), PAGE_BYTES):
            page = now[at : at + PAGE_BYTES]
            if page == before[at : at + PAGE_BYTES]:
                continue
            fate = chance.random()
            if fate < 0.4:
                pages[at : at + len(page)] = page
            elif fate < 0.5:
                torn = chance.randrange(0, len(page), 512)
                pages[at : at + torn] = page[:torn]
        return bytes(pages)


def copy_of(root: Path, target: Path) -> Path:
    """What a process that is killed leaves: everything it wrote."""
    shutil.copytree(root, target)
    return target
