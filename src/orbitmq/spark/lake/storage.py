"""Storage of a lake: a folder of this machine, or any URL that fsspec knows. Paths are relative, with `/`.

Operations that a lake needs of a storage: a file that appears whole or not at all and only if it was not
there (`create`), a rename, and that both outlast a power cut once `sync` returns.
"""

from __future__ import annotations

import contextlib
import os
import sys
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from orbitmq.spark.folders import local_path, remote_folder
from orbitmq.spark.lake.errors import LakeBusy
from orbitmq.whole_files import sync_folder

LOCK = "_lock"


@dataclass(frozen=True)
class LakeLocation:
    """A folder or URL, and the options of fsspec for it. It travels to the workers."""

    url: str
    options: dict[str, Any] = field(default_factory=dict, hash=False)

    @property
    def is_local(self) -> bool:
        """True for a folder of this machine; on a cluster, one that all workers share."""
        return local_path(self.url) is not None

    def open(self) -> Storage:
        """Raises BadOption for an unknown kind of URL, or without what it needs installed."""
        path = local_path(self.url)
        return RemoteStorage(self) if path is None else LocalStorage(path.absolute())


class Storage(ABC):
    """One lake's files."""

    @abstractmethod
    def read(self, path: str) -> bytes:
        """A whole small file. Raises FileNotFoundError."""

    @abstractmethod
    def create(self, path: str, data: bytes) -> None:
        """Makes a file, whole or not at all. Raises FileExistsError."""

    @abstractmethod
    def open_write(self, path: str) -> IO[bytes]:
        """A new file to be written from front to back."""

    @abstractmethod
    def finish(self, file: IO[bytes]) -> None:
        """Closes what `open_write` gave; what is in it outlasts a power cut."""

    @abstractmethod
    def open_read(self, path: str) -> IO[bytes]:
        """A file to read anywhere in. Raises FileNotFoundError."""

    @abstractmethod
    def move(self, source: str, target: str) -> None:
        """Renames a file, over one that may be there. Raises FileNotFoundError."""

    @abstractmethod
    def remove(self, path: str) -> None:
        """Removes a file; one that is not there is gone already."""

    @abstractmethod
    def remove_tree(self, folder: str) -> None:
        """Removes a folder with all in it."""

    @abstractmethod
    def exists(self, path: str) -> bool:
        """True if the file exists."""

    @abstractmethod
    def names(self, folder: str) -> list[str]:
        """The names of what is in a folder; none where there is no such folder."""

    @abstractmethod
    def sync(self, folders: Iterable[str]) -> None:
        """Makes creations, renames and removals in these folders durable."""

    @abstractmethod
    def lock(self) -> contextlib.AbstractContextManager[None]:
        """Keeps other writers away, where the storage can. Raises LakeBusy."""

    @abstractmethod
    def full(self, path: str) -> str:
        """The path of a file as Spark names it."""


class LocalStorage(Storage):
    """A folder."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def read(self, path: str) -> bytes:
        return (self._root / path).read_bytes()

    def create(self, path: str, data: bytes) -> None:
        target = self._root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        unfinished = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
        with unfinished.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        try:
            # Unlike a rename, a link does not replace what another writer has put there.
            os.link(unfinished, target)
        finally:
            unfinished.unlink()
        self.sync([os.path.dirname(path)])

    def open_write(self, path: str) -> IO[bytes]:
        target = self._root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        return target.open("xb")

    def finish(self, file: IO[bytes]) -> None:
        with file:
            file.flush()
            os.fsync(file.fileno())

    def open_read(self, path: str) -> IO[bytes]:
        return (self._root / path).open("rb")

    def move(self, source: str, target: str) -> None:
        place = self._root / target
        place.parent.mkdir(parents=True, exist_ok=True)
        os.replace(self._root / source, place)

    def remove(self, path: str) -> None:
        (self._root / path).unlink(missing_ok=True)

    def remove_tree(self, folder: str) -> None:
        top = self._root / folder
        for at, folders, files in os.walk(top, topdown=False):
            for name in files:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(os.path.join(at, name))
            for name in folders:
                # A worker that outlived its driver may be writing still: the next one cleans up.
                with contextlib.suppress(OSError):
                    os.rmdir(os.path.join(at, name))
        with contextlib.suppress(OSError):
            top.rmdir()

    def exists(self, path: str) -> bool:
        return (self._root / path).exists()

    def names(self, folder: str) -> list[str]:
        try:
            return sorted(os.listdir(self._root / folder))
        except FileNotFoundError:
            return []

    def sync(self, folders: Iterable[str]) -> None:
        # A new folder is an entry of the one above it.
        every = {self._root}
        for folder in folders:
            place = self._root / folder
            every |= {place, *(above for above in place.parents if above.is_relative_to(self._root))}
        for place in every:
            if place.is_dir():
                sync_folder(place)

    @contextlib.contextmanager
    def lock(self) -> Any:
        self._root.mkdir(parents=True, exist_ok=True)
        with (self._root / LOCK).open("ab") as file:
            try:
                lock_file(file)
            except (BlockingIOError, PermissionError):
                raise LakeBusy(f"another job writes to {self._root}: wait for its end, or end it") from None
            yield

    def full(self, path: str) -> str:
        # Not as a URI: Spark takes `%` in a name for what it is.
        return f"file://{self._root / path if path else self._root}"


def lock_file(file: IO[bytes]) -> None:
    """Locks an open file until it is closed. Raises BlockingIOError or PermissionError if it is locked."""
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


class RemoteStorage(Storage):
    """An object store, or whatever else fsspec reaches. There a rename is a copy, and nothing locks.

    Two writers at once are told apart by `create`: who comes second learns it before it changes anything.
    """

    def __init__(self, location: LakeLocation) -> None:
        self._fs, self._root = remote_folder(location.url, location.options)
        self._scheme = location.url.partition("://")[0]

    def _at(self, path: str) -> str:
        return f"{self._root}/{path}" if path else self._root

    def read(self, path: str) -> bytes:
        data: bytes = self._fs.cat_file(self._at(path))
        return data

    def create(self, path: str, data: bytes) -> None:
        if self.exists(path):
            raise FileExistsError(path)
        with contextlib.suppress(FileExistsError):
            self._fs.makedirs(os.path.dirname(self._at(path)), exist_ok=True)
        try:
            self._fs.pipe_file(self._at(path), data, mode="create")
        except (TypeError, NotImplementedError):  # this one cannot say "only if it is not there"
            self._fs.pipe_file(self._at(path), data)

    def open_write(self, path: str) -> IO[bytes]:
        with contextlib.suppress(FileExistsError):
            self._fs.makedirs(os.path.dirname(self._at(path)), exist_ok=True)
        file: IO[bytes] = self._fs.open(self._at(path), "wb")
        return file

    def finish(self, file: IO[bytes]) -> None:
        file.close()

    def open_read(self, path: str) -> IO[bytes]:
        file: IO[bytes] = self._fs.open(self._at(path), "rb")
        return file

    def move(self, source: str, target: str) -> None:
        with contextlib.suppress(FileExistsError):
            self._fs.makedirs(os.path.dirname(self._at(target)), exist_ok=True)
        self._fs.mv(self._at(source), self._at(target))
        self._fs.invalidate_cache()

    def remove(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._fs.rm_file(self._at(path))

    def remove_tree(self, folder: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._fs.rm(self._at(folder), recursive=True)

    def exists(self, path: str) -> bool:
        self._fs.invalidate_cache()
        return bool(self._fs.exists(self._at(path)))

    def names(self, folder: str) -> list[str]:
        self._fs.invalidate_cache()
        try:
            found = self._fs.ls(self._at(folder), detail=False)
        except FileNotFoundError:
            return []
        return sorted(str(one).rstrip("/").rpartition("/")[2] for one in found)

    def sync(self, folders: Iterable[str]) -> None:
        """Does nothing: writes that an object store has acknowledged are durable."""

    @contextlib.contextmanager
    def lock(self) -> Any:
        yield

    def full(self, path: str) -> str:
        return f"{self._scheme}://{self._at(path)}"
