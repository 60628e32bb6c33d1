"""Folders of stores, on this machine or at any URL that fsspec knows, behind the same few calls.

Local files are mapped and scanned where they are. Others are read a chunk at a time, the next one while the
present one is scanned.
"""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol, Self

from orbitmq.spark.folders import local_path, remote_folder

CHUNK_BYTES = 8 << 20
"""Bytes per request to an object store: large enough that its latency does not count."""


SEGMENT_DIGITS = 20


def is_segment(name: str) -> bool:
    """True for names of log and queue files: the position of the first byte, in digits."""
    return len(name) == SEGMENT_DIGITS and name.isascii() and name.isdecimal()


class View(Protocol):
    """A file whose bytes are looked at from front to back."""

    size: int

    def window(self, position: int, needed: int = 0) -> tuple[Any, int]:
        """A buffer with the byte at `position`, and the position of the buffer's first byte.

        It extends to the end of the file, or holds `needed` bytes from `position` on at least. It is valid
        until the next call. Raises OSError.
        """

    def close(self) -> None:
        """Lets go of the file."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class Folder(Protocol):
    """A folder; names are relative to it, with `/` between."""

    url: str

    def files(self, name: str) -> dict[str, int]:
        """Names and sizes of the files in a folder; empty where there is none."""

    def folders(self, name: str) -> list[str]:
        """The names of the folders in a folder; empty where there is none."""

    def read(self, name: str, begin: int = 0, end: int | None = None) -> bytes:
        """Bytes of a file. Raises FileNotFoundError, OSError."""

    def read_written(self, name: str) -> bytes:
        """A file without the hole at its end, where it has one. Raises FileNotFoundError, OSError."""

    def view(self, name: str) -> View:
        """A file to look at. Raises FileNotFoundError, OSError."""

    def path(self, name: str) -> str:
        """The path of a file in messages to people."""

    def stamp(self, name: str) -> str:
        """Another text once a file has changed; empty where there is none. Raises OSError."""


def open_folder(url: str, options: Mapping[str, Any] | None = None) -> Folder:
    """The folder at a path or URL; it need not exist. Raises BadOption for a URL that nothing can read."""
    path = local_path(url)
    return RemoteFolder(url, options or {}) if path is None else LocalFolder(path)


def expand(url: str, options: Mapping[str, Any] | None = None) -> list[str]:
    """The folders that a path or URL with `*`, `?` or `[` stands for, sorted; itself without."""
    if not any(sign in url for sign in "*?["):
        return [url]
    path = local_path(url)
    if path is not None:
        parts = path.absolute().parts
        found = [Path(parts[0])]
        for part in parts[1:]:
            if any(sign in part for sign in "*?["):
                found = [below for one in found if one.is_dir() for below in sorted(one.glob(part))]
            else:
                found = [one / part for one in found]
        return [str(one) for one in found if one.is_dir()]
    return RemoteFolder(url, options or {}).matching()


class LocalFolder:
    """A folder of this machine."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.url = str(root.absolute())

    def files(self, name: str) -> dict[str, int]:
        try:
            with os.scandir(self._root / name) as entries:
                return {entry.name: entry.stat().st_size for entry in entries if entry.is_file()}
        except (FileNotFoundError, NotADirectoryError):
            return {}

    def folders(self, name: str) -> list[str]:
        try:
            with os.scandir(self._root / name) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir())
        except (FileNotFoundError, NotADirectoryError):
            return []

    def read(self, name: str, begin: int = 0, end: int | None = None) -> bytes:
        with open(self._root / name, "rb") as file:
            file.seek(begin)
            return file.read(-1 if end is None else max(0, end - begin))

    def read_written(self, name: str) -> bytes:
        with open(self._root / name, "rb", buffering=0) as file:
            end = _end_of_data(file.fileno())
            file.seek(0)
            return file.read(end)

    def view(self, name: str) -> View:
        return MappedView(self._root / name)

    def path(self, name: str) -> str:
        return str((self._root / name).absolute())

    def stamp(self, name: str) -> str:
        try:
            status = os.stat(self._root / name)
        except FileNotFoundError:
            return ""
        return f"{status.st_size} {status.st_mtime_ns}"


def _end_of_data(file: int) -> int:
    """Where the last hole of a file begins, or its size where holes are not known."""
    size = os.fstat(file).st_size
    if not hasattr(os, "SEEK_HOLE"):
        return size
    at = 0
    while at < size:
        try:
            hole = os.lseek(file, os.lseek(file, at, os.SEEK_DATA), os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return at  # there are no data behind it
            raise
        at = hole
    return size


class MappedView:
    """A local file as memory. A file that is deleted meanwhile stays readable to the end."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            self.size = os.fstat(file.fileno()).st_size
            self._map = mmap.mmap(file.fileno(), self.size, access=mmap.ACCESS_READ) if self.size else b""
        if self.size:
            self._map.madvise(mmap.MADV_SEQUENTIAL)  # type: ignore[union-attr]

    def window(self, position: int, needed: int = 0) -> tuple[Any, int]:
        return self._map, 0

    def close(self) -> None:
        if isinstance(self._map, mmap.mmap):
            self._map.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class RemoteFolder:
    """A folder behind fsspec."""

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        self.url = url.rstrip("/")
        self._fs, self._root = remote_folder(url, options)

    def _at(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root

    def _listed(self, name: str) -> list[dict[str, Any]]:
        try:
            listed: list[dict[str, Any]] = self._fs.ls(self._at(name), detail=True, refresh=True)
        except TypeError:  # a file system that keeps no listings knows no refresh
            try:
                listed = self._fs.ls(self._at(name), detail=True)
            except FileNotFoundError:
                return []
        except (FileNotFoundError, NotADirectoryError):
            return []
        return listed

    def files(self, name: str) -> dict[str, int]:
        return {_last(one): int(one["size"] or 0) for one in self._listed(name) if one["type"] == "file"}

    def folders(self, name: str) -> list[str]:
        return sorted(_last(one) for one in self._listed(name) if one["type"] == "directory")

    def read(self, name: str, begin: int = 0, end: int | None = None) -> bytes:
        if end is not None and end <= begin:
            return b""
        data: bytes = self._fs.cat_file(self._at(name), start=begin, end=end)
        return data

    def read_written(self, name: str) -> bytes:
        return self.read(name)

    def view(self, name: str) -> View:
        return ChunkedView(self, name, int(self._fs.info(self._at(name))["size"]))

    def path(self, name: str) -> str:
        return f"{self.url}/{name}" if name else self.url

    def stamp(self, name: str) -> str:
        try:
            return str(self._fs.ukey(self._at(name)))
        except FileNotFoundError:
            return ""

    def matching(self) -> list[str]:
        """The URLs of the folders that this URL stands for as a pattern."""
        found = self._fs.glob(self._root, detail=True)
        names = [name for name, one in found.items() if one["type"] == "directory"]
        scheme = self.url.partition("://")[0]
        return sorted(f"{scheme}://{name.lstrip('/')}" for name in names)


def _last(entry: Mapping[str, Any]) -> str:
    name: str = entry["name"]
    return name.rstrip("/").rpartition("/")[2]


class ChunkedView:
    """A file that comes in chunks; the next one is on its way while one is looked at."""

    def __init__(self, folder: RemoteFolder, name: str, size: int) -> None:
        self.size = size
        self._folder = folder
        self._name = name
        self._held = b""
        self._first = 0
        self._ahead: tuple[int, Future[bytes]] | None = None
        self._thread: ThreadPoolExecutor | None = None

    def window(self, position: int, needed: int = 0) -> tuple[bytes, int]:
        end = self._first + len(self._held)
        is_there = self._first <= position < end and (needed <= end - position or end == self.size)
        if is_there and (needed or position == self._first):
            return self._held, self._first
        held = self._held[position - self._first :] if self._first <= position <= end else b""
        wanted = min(max(needed, len(held) + 1), self.size - position)
        while len(held) < wanted:
            held += self._chunk(position + len(held))
        self._held, self._first = held, position
        self._read_ahead(position + len(held))
        return held, position

    def _chunk(self, begin: int) -> bytes:
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            chunk = ahead[1].result()
            if ahead[0] == begin:
                return chunk
        chunk = self._folder.read(self._name, begin, min(self.size, begin + CHUNK_BYTES))
        if not chunk:
            raise OSError(f"{self._folder.path(self._name)} ends at {begin}, before its {self.size} bytes")
        return chunk

    def _read_ahead(self, begin: int) -> None:
        if self._ahead is None and begin < self.size:
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, "orbitmq-chunks")
            end = min(self.size, begin + CHUNK_BYTES)
            self._ahead = begin, self._thread.submit(self._folder.read, self._name, begin, end)

    def close(self) -> None:
        if self._thread is not None:
            self._thread.shutdown(wait=True, cancel_futures=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
