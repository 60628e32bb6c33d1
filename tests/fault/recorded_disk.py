"""A disk in memory that writes down everything done to it, so that any moment of it can be laid out again.

Put a store on a `RecordedDisk`, let it work, and `Playback` gives the disk as it was after each of its steps:
as the death of the process leaves it (`killed`: everything written is there), or as a power cut may leave it
(`power_cut`: of what was not synced any part is there, page by page, in any order, torn within pages; names
that came, went or changed in a folder that was not synced may or may not have).

A write through a view of a file is noticed at the next step of any kind, or by `notice()`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from random import Random

PAGE_BYTES = 4096
SECTOR_BYTES = 512
"""A disk writes this much or nothing of it."""
ROOM_BYTES = 1 << 40

FOLDER = -1
"""Stands for a folder among the names of the one above it."""

Kind = Literal["make", "resize", "write", "sync", "lost", "name", "unname", "rename", "sync folder"]


class Step(NamedTuple):
    """Something that was done. `file` is the number of a file's content, whatever its name; `path` a name,
    or the folder that was synced.
    """

    kind: Kind
    file: int = 0
    path: str = ""
    new_path: str = ""
    position: int = 0
    data: bytes = b""

    def __str__(self) -> str:
        what = self.path or f"file {self.file}"
        if self.kind == "write":
            return f"write {len(self.data)} bytes at {self.position} of {what}"
        return f"{self.kind} {what} {self.new_path or self.position or ''}".rstrip()


class _Content:
    """The bytes of a file, whatever its name."""

    __slots__ = ("data", "number", "seen")

    def __init__(self, number: int, data: bytearray) -> None:
        self.number = number
        self.data = data
        self.seen: bytearray | None = None
        """Bytes that the journal knows of a file that somebody has a view of."""


class RecordedFile:
    """An open file; see `StoreFile`."""

    def __init__(self, disk: RecordedDisk, path: Path, content: _Content) -> None:
        self.path = path
        self.size = len(content.data)
        self._disk = disk
        self._content = content

    def view(self) -> memoryview:
        """The whole file as memory; what is stored there gets into the journal with the next step."""
        if self._content.seen is None:
            self._content.seen = bytearray(self._content.data)
            self._disk.viewed.append(self._content)
        return memoryview(self._content.data)

    def reserve(self, position: int, length: int) -> None:
        """There is always room, unless `RecordedDisk.before` says otherwise."""
        self._disk.step("reserve", self.path)

    def sync(self) -> None:
        """From here on a power cut leaves what was written so far.

        Where `RecordedDisk.before` has it fail, what was written since the last sync never gets to the disk,
        though it can be read, and though later syncs succeed: so do kernels.
        """
        try:
            self._disk.step("sync", self.path)
        except OSError:
            self._disk.note(Step("lost", self._content.number))
            raise
        self._disk.note(Step("sync", self._content.number))

    def read(self, position: int, length: int) -> bytes:
        """See `StoreFile`."""
        if self._disk.before_read is not None:
            self._disk.before_read(self.path)
        return bytes(self._content.data[position : position + length])

    def resident_bytes(self, position: int, length: int) -> int:
        """All of it is in memory."""
        return length

    def write(self, position: int, data: bytes | memoryview) -> None:
        """See `StoreFile`."""
        self._disk.step("write", self.path)
        self._put(position, bytes(data))

    def _put(self, position: int, data: bytes) -> None:
        content = self._content
        behind = position + len(data)
        if behind > len(content.data):
            content.data.extend(bytes(behind - len(content.data)))
            self._disk.note(Step("resize", content.number, position=behind))
        content.data[position:behind] = data
        if content.seen is not None:
            content.seen[position:behind] = data
        self._disk.note(Step("write", content.number, position=position, data=data))

    def cut(self, position: int) -> None:
        """See `StoreFile`."""
        self._disk.step("cut", self.path)
        left = len(self._content.data) - position
        if left > 0:
            self._put(position, bytes(left))

    def modified_ms(self) -> int:
        """The disk's own time."""
        return self._disk.now_ms

    def close(self) -> None:
        """Nothing to let go of."""


class RecordedDisk:
    """Files below `root`; see `Disk`. Belongs to one thread."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.journal: list[Step] = []
        self.now_ms = 0
        """Time of the last write, as files tell it."""
        self.before: Callable[[str, Path], None] | None = None
        """Called before each step with its kind and path: may raise OSError, and the step is not done."""
        self.before_read: Callable[[Path], None] | None = None
        self.viewed: list[_Content] = []
        self._contents: dict[int, _Content] = {}
        self._folders: dict[str, dict[str, int]] = {str(root): {}}
        self._next = 1
        self._playback: Playback | None = None

    # The journal.

    def step(self, kind: str, path: Path) -> None:
        """The part that comes before every step."""
        self.notice()
        if self.before is not None:
            self.before(kind, path)

    def note(self, step: Step) -> None:
        """Adds to the journal."""
        self.journal.append(step)

    def notice(self) -> None:
        """Writes down what was stored through views since the last step, page by page."""
        for content in self.viewed:
            data, seen = content.data, content.seen
            assert seen is not None
            if data == seen:
                continue
            for at in range(0, len(data), PAGE_BYTES):
                page = bytes(data[at : at + PAGE_BYTES])
                known = seen[at : at + PAGE_BYTES]
                if page != known:
                    first, behind = _difference(page, known)
                    self.note(Step("write", content.number, position=at + first, data=page[first:behind]))
            seen[:] = data

    # The methods of `Disk`.

    def open(self, path: Path, size: int | None = None, mode: int = 0o644) -> RecordedFile:
        """See `Disk`."""
        names = self._folders.get(str(path.parent))
        number = None if names is None else names.get(path.name)
        if number == FOLDER:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if names is None or (number is None and size is None):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        self.step("open" if number is not None else "make", path)
        if number is None:
            number = self._next
            self._next += 1
            self._contents[number] = _Content(number, bytearray())
            names[path.name] = number
            self.note(Step("make", number, str(path)))
        content = self._contents[number]
        if size is not None and len(content.data) < size:
            content.data.extend(bytes(size - len(content.data)))
            self.note(Step("resize", number, position=size))
        return RecordedFile(self, path, content)

    def content(self, path: Path) -> bytes:
        """See `Disk`."""
        file = self.open(path)
        return file.read(0, file.size)

    def size(self, path: Path) -> int:
        """See `Disk`."""
        return self.open(path).size

    def names(self, folder: Path) -> list[str]:
        """See `Disk`."""
        return sorted(self._folders.get(str(folder), ()))

    def make_folder(self, folder: Path) -> None:
        """See `Disk`."""
        missing = []
        while str(folder) not in self._folders:
            missing.append(folder)
            folder = folder.parent
        for one in reversed(missing):
            self.step("make folder", one)
            self._folders[str(one)] = {}
            self._folders[str(one.parent)][one.name] = FOLDER
            self.note(Step("name", FOLDER, str(one)))

    def sync_folder(self, folder: Path) -> None:
        """See `Disk`."""
        if str(folder) not in self._folders:
            raise FileNotFoundError(errno.ENOENT, "there is no such folder", str(folder))
        self.step("sync folder", folder)
        self.note(Step("sync folder", path=str(folder)))

    def file_system(self, folder: Path) -> None:
        """See `Disk`. Nothing would be quicker here for it."""

    def remove(self, path: Path) -> None:
        """See `Disk`."""
        names = self._folders.get(str(path.parent), {})
        if path.name in names:
            self.step("remove", path)
            del names[path.name]
            self.note(Step("unname", path=str(path)))

    def remove_folder(self, folder: Path) -> None:
        """See `Disk`."""
        if self._folders.get(str(folder)) == {}:
            self.step("remove", folder)
            del self._folders[str(folder)]
            del self._folders[str(folder.parent)][folder.name]
            self.note(Step("unname", path=str(folder)))

    def rename(self, path: Path, new_path: Path) -> None:
        """See `Disk`."""
        if path.name not in self._folders.get(str(path.parent), ()):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        self.step("rename", path)
        self._folders[str(new_path.parent)][new_path.name] = self._folders[str(path.parent)].pop(path.name)
        self.note(Step("rename", path=str(path), new_path=str(new_path)))

    def space(self, folder: Path) -> tuple[int, int]:
        """Half full."""
        return ROOM_BYTES, ROOM_BYTES // 2

    # For tests.

    def files(self) -> Iterator[tuple[Path, bytearray]]:
        """Every file with its content, which may be changed."""
        for folder, names in self._folders.items():
            for name, number in names.items():
                if number != FOLDER:
                    yield Path(folder, name), self._contents[number].data

    @classmethod
    def laid_out(
        cls, root: Path, folders: dict[str, dict[str, int]], contents: dict[int, bytes]
    ) -> RecordedDisk:
        """A disk with these files, all of it synced; what no folder reaches any more is gone."""
        disk = cls(root)
        disk._folders = {}
        waiting = [str(root)]
        while waiting:
            folder = waiting.pop()
            disk._folders[folder] = names = dict(folders.get(folder, {}))
            for name, number in names.items():
                if number == FOLDER:
                    waiting.append(f"{folder}/{name}")
                else:
                    disk._contents[number] = _Content(number, bytearray(contents[number]))
        disk._next = max(contents, default=0) + 1
        disk._playback = Playback(
            disk.journal, root, {k: dict(v) for k, v in disk._folders.items()}, contents
        )
        return disk

    def playback(self) -> Playback:
        """The journal from its beginning, to step through."""
        if self._playback is None:
            self._playback = Playback(self.journal, self.root)
        return self._playback

    def played(self) -> Playback:
        """The journal up to now: `killed` or `power_cut` of this moment."""
        self.notice()
        playback = self.playback()
        playback.go_to(len(self.journal))
        return playback


def _difference(page: bytes, known: bytearray) -> tuple[int, int]:
    """The first place at which two pages differ, and the one behind the last."""
    first = next(at for at in range(len(page)) if page[at] != known[at])
    behind = next(at for at in range(len(page), 0, -1) if page[at - 1] != known[at - 1])
    return first, behind


@dataclass(slots=True)
class _Played:
    """A file at some step: its content, that of its last sync, and what was written since and can get to the
    disk.
    """

    now: bytearray = field(default_factory=bytearray)
    synced: bytes = b""
    since: list[Step] = field(default_factory=list)
    has_lost: bool = False

    def sync(self) -> None:
        """Brings to the disk what a failed sync has not dropped."""
        if not self.has_lost:
            self.synced = bytes(self.now)
        else:
            left = bytearray(self.synced.ljust(len(self.now), b"\x00"))
            for step in self.since:
                first = step.position - step.position % PAGE_BYTES
                behind = step.position + len(step.data) + PAGE_BYTES - 1
                left[first : behind - behind % PAGE_BYTES] = self.now[first : behind - behind % PAGE_BYTES]
            self.synced = bytes(left)
        self.since.clear()


@dataclass(slots=True)
class _Names:
    """A folder at some step: its names, those of its last sync, and what came since."""

    now: dict[str, int] = field(default_factory=dict)
    synced: dict[str, int] = field(default_factory=dict)
    since: list[dict[str, int]] = field(default_factory=list)
    """The names after each change."""


class Playback:
    """A journal played up to a step: `go_to`, then `killed` or `power_cut`, as often as wanted."""

    def __init__(
        self,
        journal: list[Step],
        root: Path,
        folders: dict[str, dict[str, int]] | None = None,
        contents: dict[int, bytes] | None = None,
    ) -> None:
        self._journal = journal
        self._root = root
        self.at = 0
        """Number of steps done."""
        self._files = {
            number: _Played(bytearray(data), bytes(data)) for number, data in (contents or {}).items()
        }
        self._folders = {
            folder: _Names(dict(names), dict(names)) for folder, names in (folders or {str(root): {}}).items()
        }

    def go_to(self, step: int) -> None:
        """Plays on until so many steps are done. Only forwards."""
        while self.at < step:
            self._play(self._journal[self.at])
            self.at += 1

    def _play(self, step: Step) -> None:
        match step.kind:
            case "make":
                self._files[step.file] = _Played()
                self._change(step.path, step.file)
            case "resize":
                played = self._files[step.file]
                played.now.extend(bytes(step.position - len(played.now)))
                played.since.append(step)
            case "write":
                played = self._files[step.file]
                played.now[step.position : step.position + len(step.data)] = step.data
                played.since.append(step)
            case "sync":
                self._files[step.file].sync()
            case "lost":
                played = self._files[step.file]
                played.has_lost = True
                played.since.clear()
            case "name":
                self._change(step.path, step.file)
                self._folders[step.path] = _Names()
            case "unname":
                self._change(step.path, None)
            case "rename":
                self._rename(step)
            case "sync folder":
                names = self._folders[step.path]
                names.synced = dict(names.now)
                names.since.clear()

    def _change(self, path: str, number: int | None) -> None:
        folder, _, name = path.rpartition("/")
        names = self._folders[folder]
        if number is None:
            del names.now[name]
        else:
            names.now[name] = number
        names.since.append(dict(names.now))

    def _rename(self, step: Step) -> None:
        folder, _, name = step.path.rpartition("/")
        new_folder, _, new_name = step.new_path.rpartition("/")
        if folder != new_folder:
            raise ValueError(f"{step}: from one folder into another")
        names = self._folders[folder]
        names.now[new_name] = names.now.pop(name)
        names.since.append(dict(names.now))

    def killed(self) -> RecordedDisk:
        """The disk as the death of the process leaves it here."""
        folders = {folder: names.now for folder, names in self._folders.items()}
        return RecordedDisk.laid_out(
            self._root, folders, {number: bytes(played.now) for number, played in self._files.items()}
        )

    def power_cut(self, chance: Random, kept: float | None = None) -> RecordedDisk:
        """The disk as a power cut here may leave it. `kept` is the share of unsynced pages and names that got
        to the disk all the same; by default it is drawn, too: often nothing, or everything.
        """
        share = chance.choice((0.0, 0.1, 0.5, 0.9, 1.0)) if kept is None else kept
        folders = {folder: _names_left(names, chance, share) for folder, names in self._folders.items()}
        contents = {number: _content_left(played, chance, share) for number, played in self._files.items()}
        return RecordedDisk.laid_out(self._root, folders, contents)


def _names_left(names: _Names, chance: Random, share: float) -> dict[str, int]:
    """A folder's names after a power cut: those of its last sync, and of what came later the first part."""
    states = [names.synced, *names.since]
    left = 0
    while left < len(names.since) and chance.random() < share:
        left += 1
    return states[left]


def _content_left(played: _Played, chance: Random, share: float) -> bytes:
    """A file's content after a power cut: that of its last sync, and of each page written since any state it
    had, or one between two of them.
    """
    if not played.since:
        return played.synced
    sizes = [len(played.synced), *(step.position for step in played.since if step.kind == "resize")]
    size = sizes[-1] if chance.random() < max(share, 0.5) else chance.choice(sizes)
    left = bytearray(played.synced.ljust(max(sizes), b"\x00"))
    pages: dict[int, list[Step]] = {}
    for step in played.since:
        if step.kind == "write" and step.data:
            for page in range(
                step.position // PAGE_BYTES, (step.position + len(step.data) - 1) // PAGE_BYTES + 1
            ):
                pages.setdefault(page, []).append(step)
    for page, steps in pages.items():
        if chance.random() >= share and share < 1.0:
            if chance.random() < 0.8 or not share:
                continue
            count = chance.randrange(len(steps))  # as it was at some moment before
        else:
            count = len(steps)
        for step in steps[:count]:
            _put_part(left, step, page * PAGE_BYTES, (page + 1) * PAGE_BYTES)
        if count < len(steps):
            # Torn: some sectors are of one moment, the others of the one before.
            torn = page * PAGE_BYTES + chance.randrange(0, PAGE_BYTES, SECTOR_BYTES)
            if chance.random() < 0.5:
                _put_part(left, steps[count], page * PAGE_BYTES, torn)
            else:
                _put_part(left, steps[count], torn, (page + 1) * PAGE_BYTES)
    return bytes(left[:size])


def _put_part(data: bytearray, step: Step, begin: int, end: int) -> None:
    """Writes what a step has put between two positions."""
    begin = max(begin, step.position)
    end = min(end, step.position + len(step.data))
    if begin < end:
        data[begin:end] = step.data[begin - step.position : end - step.position]
