"""Power cuts for real processes: a record of what was synced, and what is left without the rest.

In the broker's process `Recorder` stands between Python and the calls that make bytes and names last:
`fsync`, `fdatasync`, renames and removals below one folder. When a file is synced, its content as of that
moment goes into a second folder, the record; a rename or removal counts as lasting only once its folder was
synced. Data that code forgets to sync is not in the record, for the recorder knows nothing of the store.

The broker is killed; `cut` then lays out what a power cut would leave: the record, and of every page that is
newer in the broker's folder that page, a torn one, or the one before.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

PAGE_BYTES = 4096
CHUNK_BYTES = 256 << 10
CHANGES = ".changes"
"""File in the record: changes of names that no sync of their folder followed, a JSON object a line."""
ALWAYS_THERE = frozenset({"lock", "ready", "broker.log"})
"""Files whose loss says nothing about a broker."""


class Recorder:
    """Records what of `root` is on the disk. `install` puts it between Python and the system."""

    def __init__(self, root: Path, record: Path) -> None:
        self._root = str(root)
        self._record = record
        self._lock = threading.Lock()
        self._number = 0
        record.mkdir(parents=True, exist_ok=True)

    def install(self) -> None:
        """From now on everything that this process syncs, renames and removes is recorded."""
        os_: Any = os
        for name in ("fsync", "fdatasync"):
            setattr(os_, name, self._synced(getattr(os, name)))
        for name in ("rename", "replace"):
            setattr(os_, name, self._renamed(getattr(os, name)))
        for name in ("unlink", "remove"):
            setattr(os_, name, self._removed(getattr(os, name)))

    def _inside(self, path: Any) -> str | None:
        """The path below the root, None if it is elsewhere."""
        text = os.path.abspath(os.fsdecode(path))
        return text[len(self._root) + 1 :] if text.startswith(self._root + os.sep) else None

    def _synced(self, real: Callable[[int], None]) -> Callable[[int], None]:
        def sync(fd: int) -> None:
            path = os.readlink(f"/proc/self/fd/{fd}")
            name = "" if path == self._root else self._inside(path)
            if name is None:
                return real(fd)
            if stat.S_ISDIR(os.fstat(fd).st_mode):
                real(fd)
                self._folder_synced(name)
                return None
            changes, size = self._changed(path, name)
            real(fd)
            self._write(name, changes, size)
            return None

        return sync

    def _changed(self, path: str, name: str) -> tuple[list[tuple[int, bytes]], int]:
        """The chunks that differ from the record; those written during the sync may or may not reach the
        disk.
        """
        changes = []
        with open(path, "rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            try:
                record = open(self._record / name, "rb", buffering=0)  # noqa: SIM115
            except FileNotFoundError:
                record = None
            try:
                for at in _data_chunks(file.fileno(), size):
                    now = os.pread(file.fileno(), CHUNK_BYTES, at)
                    then = b"" if record is None else os.pread(record.fileno(), CHUNK_BYTES, at)
                    if now != then:
                        changes.append((at, now))
            finally:
                if record is not None:
                    record.close()
        return changes, size

    def _write(self, name: str, changes: list[tuple[int, bytes]], size: int) -> None:
        target = self._record / name
        with self._lock:
            target.parent.mkdir(parents=True, exist_ok=True)
            fd = os.open(target, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                for at, data in changes:
                    os.pwrite(fd, data, at)
                os.ftruncate(fd, size)
            finally:
                os.close(fd)

    def _renamed(self, real: Callable[..., None]) -> Callable[..., None]:
        def rename(source: Any, target: Any, **more: Any) -> None:
            real(source, target, **more)
            old, new = self._inside(source), self._inside(target)
            if old is None or new is None:
                return
            with self._lock:
                kept = self._keep_copy(new)
                self._note({"do": "rename", "from": old, "to": new, "kept": kept})
                if (self._record / old).exists():
                    _move(self._record / old, self._record / new)

        return rename

    def _removed(self, real: Callable[..., None]) -> Callable[..., None]:
        def remove(path: Any, **more: Any) -> None:
            real(path, **more)
            name = self._inside(path)
            if name is not None:
                with self._lock:
                    kept = self._keep_copy(name)
                    if kept:
                        self._note({"do": "remove", "from": name, "kept": kept})

        return remove

    def _keep_copy(self, name: str) -> str:
        """Keeps what the record has under a name; "" if nothing."""
        present = self._record / name
        if not present.exists():
            return ""
        self._number += 1
        kept = f".kept/{os.getpid()}-{self._number}"
        _move(present, self._record / kept)
        return kept

    def _note(self, change: dict[str, str]) -> None:
        with (self._record / CHANGES).open("a") as file:
            file.write(json.dumps(change) + "\n")

    def _folder_synced(self, folder: str) -> None:
        with self._lock:
            pending = read_changes(self._record)
            left = [one for one in pending if os.path.dirname(one.get("to") or one["from"]) != folder]
            if len(left) == len(pending):
                return
            beside = self._record / (CHANGES + ".new")
            beside.write_text("".join(json.dumps(one) + "\n" for one in left))
            _move(beside, self._record / CHANGES)


_real_rename = os.rename


def _move(source: Path, target: Path) -> None:
    """A rename of the record's own, which is none of the broker's."""
    target.parent.mkdir(parents=True, exist_ok=True)
    _real_rename(source, target)


def _data_chunks(fd: int, size: int) -> Iterator[int]:
    """Positions of whole chunks that hold data in a sparse file."""
    at = 0
    while at < size:
        try:
            data = os.lseek(fd, at, os.SEEK_DATA)
        except OSError:
            return  # nothing but a hole
        hole = os.lseek(fd, data, os.SEEK_HOLE)
        at = data // CHUNK_BYTES * CHUNK_BYTES
        while at < hole:
            yield at
            at += CHUNK_BYTES


def read_changes(record: Path) -> list[dict[str, str]]:
    """The changes of names that were not synced, oldest first. A torn last line was no change."""
    changes = []
    try:
        lines = (record / CHANGES).read_text().splitlines()
    except FileNotFoundError:
        return []
    for line in lines:
        try:
            changes.append(json.loads(line))
        except ValueError:
            break
    return changes


def _pages_apart(newer: Path, older: Path | None) -> Iterator[tuple[int, bytes, bytes]]:
    """(position, newer page, older page) of every page in which two files differ."""
    with newer.open("rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        other = None if older is None else older.open("rb", buffering=0)
        try:
            for at in _data_chunks(file.fileno(), size):
                now = os.pread(file.fileno(), CHUNK_BYTES, at)
                then = b"" if other is None else os.pread(other.fileno(), CHUNK_BYTES, at)
                then = then.ljust(len(now), b"\x00")
                if now == then:
                    continue
                for page in range(0, len(now), PAGE_BYTES):
                    one, two = now[page : page + PAGE_BYTES], then[page : page + PAGE_BYTES]
                    if one != two:
                        yield at + page, one, two
        finally:
            if other is not None:
                other.close()


def durable_offset(root: Path, record: Path) -> int:
    """The physical offset up to which all messages of the commit log are on the disk, whole."""
    end = 0
    for path in sorted((root / "commitlog").glob("[0-9]" * 20)):
        kept = record / "commitlog" / path.name
        for at, now, then in _pages_apart(path, kept if kept.exists() else None):
            first = next(i for i, (a, b) in enumerate(zip(now, then, strict=True)) if a != b)
            return int(path.name) + _message_around(path, at + first)
        end = int(path.name) + path.stat().st_size
    return end


def _message_around(path: Path, position: int) -> int:
    """The start of the message around a position in a segment: its size has leading zeros, as the blank
    file has, so that the first byte that differs is not its first one.
    """
    start = 0
    with path.open("rb") as file:
        while True:
            file.seek(start)
            size = int.from_bytes(file.read(4), "big")
            if not size or start + size > position:
                return start
            start += size


def cut(root: Path, record: Path, chance: random.Random) -> None:
    """Makes of `root` what a power cut leaves of it, and of `record` its equal. Neither may be in use."""
    _undo_names(root, record, chance)
    for path in sorted(root.rglob("*")):
        if not path.is_file() or path.name in ALWAYS_THERE:
            continue
        kept = record / path.relative_to(root)
        if not kept.exists():
            if chance.random() < 0.3:
                path.unlink()  # the name never got to the disk
                continue
            _lose_pages(path, None, chance)
        else:
            _lose_pages(path, kept, chance)
    shutil.rmtree(record)
    record.mkdir()
    for path in sorted(root.rglob("*")):
        if path.is_file() and path.name not in ALWAYS_THERE:
            _copy_sparse(path, record / path.relative_to(root))


def _undo_names(root: Path, record: Path, chance: random.Random) -> None:
    """Of the changes that were not synced any number is lost, the youngest first: a journal keeps
    their order.
    """
    changes = read_changes(record)
    for change in reversed(changes[chance.randint(0, len(changes)) :]):
        source, kept = change["from"], change["kept"]
        if change["do"] == "rename":
            for folder in (root, record):
                if (folder / change["to"]).exists():
                    _move(folder / change["to"], folder / source)
            source = change["to"]
        if kept and (record / kept).exists():
            _copy_sparse(record / kept, root / source)
            _move(record / kept, record / source)
    shutil.rmtree(record / ".kept", ignore_errors=True)
    (record / CHANGES).unlink(missing_ok=True)


def _lose_pages(path: Path, kept: Path | None, chance: random.Random) -> None:
    """Gives each page that was not synced its fate."""
    pages = list(_pages_apart(path, kept))
    with path.open("r+b", buffering=0) as file:
        for at, now, then in pages:
            fate = chance.random()
            if fate < 0.4:
                continue
            torn = chance.randrange(0, len(now), 512) if fate < 0.5 else 0
            os.pwrite(file.fileno(), then[torn:], at + torn)
        if kept is not None and kept.stat().st_size < path.stat().st_size and chance.random() < 0.5:
            os.ftruncate(file.fileno(), kept.stat().st_size)


def _copy_sparse(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with source.open("rb", buffering=0) as old, target.open("wb", buffering=0) as new:
        size = os.fstat(old.fileno()).st_size
        for at in _data_chunks(old.fileno(), size):
            os.pwrite(new.fileno(), os.pread(old.fileno(), CHUNK_BYTES, at), at)
        os.ftruncate(new.fileno(), size)
    shutil.copymode(source, target)
