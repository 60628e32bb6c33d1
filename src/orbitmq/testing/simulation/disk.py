"""A disk in memory that knows what was synced: the rest may be lost, torn or written out of order.

Names are as the store uses them: a file that was synced has its name on the disk as well, as on ext4 and xfs;
a rename or removal is there for sure only behind a sync of its folder.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from pathlib import Path

from orbitmq.store.files import StoreFile

PAGE_BYTES = 4096
TOTAL_BYTES = 1 << 40


class Gone(Exception):
    """A process that was killed still tries to write."""


class _Content:
    """The bytes of a file, and what of them is on the disk.

    Where the file was viewed as memory the writes are unseen: then `synced` is a copy of all of it. Else
    `before` holds the pages that were written since the last sync, as they were then.
    """

    __slots__ = ("before", "data", "is_named", "modified_ms", "synced", "top")

    def __init__(self, size: int) -> None:
        self.data = bytearray(size)
        self.synced: bytearray | None = None
        self.before: dict[int, bytes] = {}
        self.top = 0
        """Nothing was ever written behind this."""
        self.is_named = False
        """True if the name survives a power cut."""
        self.modified_ms = 0

    def lengthen(self, size: int) -> None:
        """Makes the file larger; whoever has a view keeps the old one."""
        grown = bytearray(size)
        grown[: len(self.data)] = self.data
        self.data = grown

    def keep_before(self, position: int, end: int) -> None:
        """A range is about to change."""
        self.top = max(self.top, end)
        if self.synced is None:
            for at in range(position // PAGE_BYTES * PAGE_BYTES, end, PAGE_BYTES):
                if at not in self.before:
                    self.before[at] = bytes(self.data[at : at + PAGE_BYTES])

    def view(self) -> memoryview:
        if self.synced is None:
            synced = bytearray(self.data)
            for at, page in self.before.items():
                synced[at : at + len(page)] = page
            self.synced = synced
            self.before.clear()
        return memoryview(self.data)

    def sync(self) -> None:
        if self.synced is not None:
            self.synced[:] = self.data
        self.before.clear()
        self.is_named = True

    def unsynced(self) -> dict[int, bytes]:
        """The pages that differ from the disk, as they are there."""
        if self.synced is None:
            return self.before
        if self.data == self.synced:
            return {}
        now, then = bytes(self.data), bytes(self.synced.ljust(len(self.data), b"\x00"))
        return {
            at: then[at : at + PAGE_BYTES]
            for at in range(0, len(now), PAGE_BYTES)
            if now[at : at + PAGE_BYTES] != then[at : at + PAGE_BYTES]
        }


class MemoryFile:
    """An open file of a `MemoryDisk`; implements `orbitmq.store.files.StoreFile`."""

    def __init__(self, disk: MemoryDisk, path: Path, content: _Content) -> None:
        self._disk = disk
        self._content = content
        self.path = path
        self.size = len(content.data)

    def view(self) -> memoryview:
        return self._content.view()

    def reserve(self, position: int, length: int) -> None:
        self._disk.check_room()

    def sync(self) -> None:
        self._disk.check_alive()
        if self._disk.is_failing:
            raise OSError(errno.EIO, "Input/output error")
        if self._disk.forgets_syncs:
            return
        self._content.sync()

    def read(self, position: int, length: int) -> bytes:
        return bytes(self._content.data[position : position + length])

    def resident_bytes(self, position: int, length: int) -> int:
        return length if self._disk.chance.random() < 0.98 else 0

    def write(self, position: int, data: bytes | memoryview) -> None:
        self._disk.check_room()
        content = self._content
        end = position + len(data)
        if end > len(content.data):
            content.lengthen(end)
            self.size = end
        content.keep_before(position, end)
        content.data[position:end] = data
        content.modified_ms = self._disk.now_ms()

    def cut(self, position: int) -> None:
        self._disk.check_alive()
        content = self._content
        end = len(content.data) if content.synced is not None else max(position, content.top)
        content.keep_before(position, end)
        content.data[position:end] = bytes(end - position)

    def modified_ms(self) -> int:
        return self._content.modified_ms

    def close(self) -> None:
        pass


class MemoryDisk:
    """Implements `orbitmq.store.files.Disk`. `reopened` gives what the next life of the broker finds."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.is_dead = False
        self.is_full = False
        self.is_failing = False
        """True while syncs fail."""
        self.forgets_syncs = False
        """Planted by tests of the tests: a sync that does nothing, as if it were missing in the code."""
        self.now_ms: Callable[[], int] = int
        self.files: dict[Path, _Content] = {}
        """The bytes that the broker sees, synced or not."""
        self._undo: list[tuple[Path, dict[Path, _Content | None]]] = []
        """Changes of names that no sync of their folder followed: the folder, and what was there before."""

    def check_alive(self) -> None:
        if self.is_dead:
            raise Gone

    def check_room(self) -> None:
        self.check_alive()
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device")

    def open(self, path: Path, size: int | None = None, mode: int = 0o644) -> StoreFile:
        self.check_alive()
        content = self.files.get(path)
        if content is None:
            if size is None:
                raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(path))
            self.check_room()
            content = self.files[path] = _Content(size)
        elif size is not None and len(content.data) < size:
            content.lengthen(size)
        return MemoryFile(self, path, content)

    def content(self, path: Path) -> bytes:
        return bytes(self._found(path).data)

    def size(self, path: Path) -> int:
        return len(self._found(path).data)

    def _found(self, path: Path) -> _Content:
        content = self.files.get(path)
        if content is None:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(path))
        return content

    def names(self, folder: Path) -> list[str]:
        depth = len(folder.parts)
        return sorted({path.parts[depth] for path in self.files if path.parts[:depth] == folder.parts})

    def make_folder(self, folder: Path) -> None:
        self.check_alive()

    def sync_folder(self, folder: Path) -> None:
        self.check_alive()
        if self.forgets_syncs:
            return
        for path, content in self.files.items():
            if path.parent == folder:
                content.is_named = True
        self._undo = [(other, before) for other, before in self._undo if other != folder]

    def file_system(self, folder: Path) -> None:
        """See `Disk`. Nothing would be quicker here for it."""

    def remove(self, path: Path) -> None:
        self.check_alive()
        gone = self.files.pop(path, None)
        if gone is not None:
            self._undo.append((path.parent, {path: gone}))

    def remove_folder(self, folder: Path) -> None:
        self.check_alive()

    def rename(self, path: Path, new_path: Path) -> None:
        self.check_alive()
        content = self._found(path)
        del self.files[path]
        self._undo.append((new_path.parent, {path: content, new_path: self.files.get(new_path)}))
        self.files[new_path] = content

    def space(self, folder: Path) -> tuple[int, int]:
        # Never scarce, even where nothing can be written (a quota): what is scarce makes room by deleting.
        return TOTAL_BYTES, TOTAL_BYTES // 2

    # The rest.

    def copied(self, root: Path, new_root: Path) -> MemoryDisk:
        """A copy of a folder as its process sees it, on another disk."""
        disk = MemoryDisk(self.chance)
        for path, content in self.files.items():
            kept = disk.files[new_root / path.relative_to(root)] = _Content(0)
            kept.data, kept.top = bytearray(content.data), content.top
            kept.modified_ms, kept.is_named = content.modified_ms, True
        return disk

    def reopened(self, *, power_cut: bool) -> MemoryDisk:
        """The disk as the next life of the process finds it; this one is dead from now on."""
        self.is_dead = True
        disk = MemoryDisk(self.chance)
        disk.now_ms = self.now_ms
        disk.forgets_syncs = self.forgets_syncs
        for path, content in (self._names_left() if power_cut else self.files).items():
            if power_cut and not self._survives(content):
                continue
            kept = disk.files[path] = _Content(0)
            # The owner of a view may still hold it; all others are dead and write no more.
            kept.data = content.data if content.synced is None else bytearray(content.data)
            kept.top = content.top
            kept.modified_ms = content.modified_ms
            kept.before = dict(content.unsynced())
            kept.is_named = content.is_named or power_cut
            if power_cut:
                self._lose(kept)
        return disk

    def _names_left(self) -> dict[Path, _Content]:
        """A prefix of the changes of names that were not synced, as a journal keeps them in order."""
        files = dict(self.files)
        for _, before in reversed(self._undo[self.chance.randint(0, len(self._undo)) :]):
            for path, content in before.items():
                if content is None:
                    files.pop(path, None)
                else:
                    files[path] = content
        return files

    def _survives(self, content: _Content) -> bool:
        """True if the name of a file reached the disk."""
        return content.is_named or self.chance.random() >= 0.3

    def _lose(self, content: _Content) -> None:
        """Gives each page that was not synced its fate: there, torn, or as it was before."""
        chance = self.chance
        for at, before in content.before.items():
            fate = chance.random()
            if fate < 0.4:
                continue
            torn = chance.randrange(0, PAGE_BYTES, 512) if fate < 0.5 else 0
            end = min(at + PAGE_BYTES, len(content.data))
            content.data[at + torn : end] = before.ljust(PAGE_BYTES, b"\x00")[torn : end - at]
        content.before = {}
