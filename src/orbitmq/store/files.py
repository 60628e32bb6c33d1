"""The one place where the store touches files: view, reserve, sync, read, write.

`Disk` opens files, `StoreFile` is one of them. A test puts a disk of its own underneath, which forgets what
was not synced or has no room left. Reads and syncs let go of the GIL: they may run in a thread beside the
loop.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import re
import stat
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

PAGE_BYTES = 4096
"""Page in which Apache's options count: the least number of pages that a flush writes."""
NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
"""Errors that pass once there is room again."""
SCARCE = NO_SPACE | {errno.ENOMEM}
"""The same, and those that pass once there is memory again: a map needs some."""

# Tells which pages of a map are in memory. Elsewhere it says less, or there is none.
_MINCORE = ctypes.CDLL(None).mincore if sys.platform == "linux" else None
_SYNCFS = getattr(ctypes.CDLL(None), "syncfs", None) if sys.platform == "linux" else None
_KERNEL = tuple(int(part) for part in re.findall(r"\d+", os.uname().release)[:2]) if _SYNCFS else ()
_SYNCFS_REPORTS_SINCE = 5, 8
_REPORTING = frozenset({0xEF53, 0x58465342, 0x9123683E})
"""ext4, XFS and Btrfs, by their magic numbers: their own blocks are written through their own pages. Not so
those of a file system over another one, such as overlayfs or FUSE.
"""
_NOWAIT = getattr(os, "RWF_NOWAIT", 0)
_SCRATCH = memoryview(bytearray(64 << 10))
"""Target of reads whose bytes are not needed: they only show whether the range is readable."""


class NoFile(OSError):
    """A pipe, a socket or a device stands where a file has to be."""


def require_file(path: Path) -> None:
    """Raises NoFile for what is not even opened: to open a pipe may take for ever, a device may do anything.

    The function that opens a file reports one that is missing, and a folder.
    """
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise NoFile(errno.EINVAL, "Not a regular file", str(path))


class StoreFile(Protocol):
    """An open file."""

    path: Path
    size: int

    def view(self) -> memoryview:
        """The whole file as memory, writable. Write only where blocks are reserved."""
        ...

    def reserve(self, position: int, length: int) -> None:
        """Has the file system promise blocks for a range. Raises OSError (ENOSPC) if it cannot."""
        ...

    def sync(self) -> None:
        """Brings what was written, through the view or not, to the disk. Raises OSError."""
        ...

    def read(self, position: int, length: int) -> bytes:
        """Bytes of the file; fewer at its end."""
        ...

    def resident_bytes(self, position: int, length: int) -> int:
        """Bytes at the beginning of a range that are in memory: reading them does not wait for the disk."""
        ...

    def write(self, position: int, data: bytes | memoryview) -> None:
        """Writes all of `data`. Raises OSError (ENOSPC)."""
        ...

    def cut(self, position: int) -> None:
        """Makes everything from `position` on zero, and gives its blocks back. The size stays."""
        ...

    def modified_ms(self) -> int:
        """Time of the last write to the file."""
        ...

    def close(self) -> None:
        """Lets go of the descriptor. Memory goes with the last view."""
        ...


class FileSystem(Protocol):
    """A whole file system: it is written out in seconds where syncs of very many files take minutes."""

    reports_errors: bool
    """True if `write_out` knows of each write since this was opened that has failed. Elsewhere files have to
    be synced one by one for that, too.
    """

    def write_out(self) -> bool:
        """Brings all files and names to the disk. False if that failed, for a file of anybody's. Raises
        OSError if the folder's own sync failed.
        """
        ...

    def close(self) -> None: ...


class Disk(Protocol):
    """The disks of a store."""

    def open(self, path: Path, size: int | None = None, mode: int = 0o644) -> StoreFile:
        """Opens a file for reading and writing; with `size`, makes it or lengthens it to that size. `mode` is
        that of a new file.
        """
        ...

    def content(self, path: Path) -> bytes:
        """All of a file. Raises FileNotFoundError if there is none."""
        ...

    def size(self, path: Path) -> int:
        """Size of a file in bytes. Raises FileNotFoundError if there is none."""
        ...

    def names(self, folder: Path) -> list[str]:
        """The names in a folder, sorted; none if there is no such folder."""
        ...

    def make_folder(self, folder: Path) -> None:
        """Makes a folder and those above it."""
        ...

    def sync_folder(self, folder: Path) -> None:
        """Makes names that came, went or changed in a folder last."""
        ...

    def file_system(self, folder: Path) -> FileSystem | None:
        """The file system that a folder is on; None where it cannot be written out as a whole."""
        ...

    def remove(self, path: Path) -> None:
        """Removes a file, if it is there."""
        ...

    def remove_folder(self, folder: Path) -> None:
        """Removes a folder, if it is there and empty."""
        ...

    def rename(self, path: Path, new_path: Path) -> None:
        """Renames a file, over another one if need be."""
        ...

    def space(self, folder: Path) -> tuple[int, int]:
        """(total, free) bytes of the partition that a folder is on."""
        ...


def write_beside(disk: Disk, path: Path, data: bytes, mode: int = 0o644) -> Path:
    """Brings what a file is to hold to the disk beside it; gives the path, to be renamed. Raises OSError."""
    beside = path.with_name(path.name + ".tmp")
    disk.remove(beside)
    file = disk.open(beside, len(data), mode)
    try:
        file.write(0, data)
        file.sync()
    finally:
        file.close()
    return beside


def replace_file(disk: Disk, path: Path, data: bytes) -> None:
    """Writes a file as a whole, durably: a crash leaves the old one or the new one. Raises OSError."""
    disk.rename(write_beside(disk, path, data), path)
    disk.sync_folder(path.parent)


class RealFile:
    """A file of the operating system."""

    __slots__ = ("_fd", "_view", "path", "size")

    def __init__(self, path: Path, fd: int, size: int) -> None:
        self.path = path
        self.size = size
        self._fd = fd
        self._view: memoryview | None = None

    def view(self) -> memoryview:
        if self._view is None:
            # The map closes itself with its last view.
            whole = mmap.mmap(self._fd, self.size)
            if hasattr(mmap, "MADV_RANDOM"):
                # Or else the kernel reads ahead of the writer: the first write to a page waits until it has
                # cleared up to 8 MiB (20 ms), and a sync writes all of a block of which a page was touched:
                # 660 KB for 24 on the way to the disk.
                whole.madvise(mmap.MADV_RANDOM)
            self._view = memoryview(whole)
        return self._view

    def reserve(self, position: int, length: int) -> None:
        os.posix_fallocate(self._fd, position, length)

    def sync(self) -> None:
        os.fdatasync(self._fd)

    def read(self, position: int, length: int) -> bytes:
        return os.pread(self._fd, length, position)

    def resident_bytes(self, position: int, length: int) -> int:
        if self._view is None or _MINCORE is None:
            return self._readable_bytes(position, length)
        first = position - position % mmap.PAGESIZE
        pages = (ctypes.c_char * -((first - position - length) // mmap.PAGESIZE))()
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._view, first))
        if _MINCORE(ctypes.c_void_p(address), ctypes.c_size_t(len(pages) * mmap.PAGESIZE), pages):
            return self._readable_bytes(position, length)
        absent = pages.raw.find(0)
        return length if absent < 0 else max(0, first + absent * mmap.PAGESIZE - position)

    def _readable_bytes(self, position: int, length: int) -> int:
        """The same by reading: without a map there are no pages to ask for."""
        found = 0
        while found < length:
            buffer = _SCRATCH[: min(length - found, len(_SCRATCH))]
            try:
                read = os.preadv(self._fd, [buffer], position + found, _NOWAIT)
            except BlockingIOError:
                return found
            except OSError as error:
                if error.errno in (errno.EOPNOTSUPP, errno.EINVAL):
                    return length  # a file system that cannot say: assume the best
                raise
            found += read
            if read < len(buffer):
                return found
        return found

    def write(self, position: int, data: bytes | memoryview) -> None:
        view = memoryview(data)
        while view:
            wrote = os.pwrite(self._fd, view, position)
            view = view[wrote:]
            position += wrote

    def cut(self, position: int) -> None:
        if not self._is_hole_from(position):
            os.ftruncate(self._fd, position)
            os.ftruncate(self._fd, self.size)

    def _is_hole_from(self, position: int) -> bool:
        """True if all bytes from a position on are zero, and no page behind its own has blocks: the file
        system's journal has nothing to do then.
        """
        page_end = position - position % -PAGE_BYTES
        if os.fstat(self._fd).st_blocks * 512 > page_end or any(self.read(position, page_end - position)):
            return False
        try:
            return os.lseek(self._fd, page_end, os.SEEK_DATA) < 0
        except OSError as error:
            return error.errno == errno.ENXIO

    def modified_ms(self) -> int:
        return os.fstat(self._fd).st_mtime_ns // 1_000_000

    def close(self) -> None:
        self._view = None
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        self.close()


class RealFileSystem:
    """A file system of the operating system."""

    _fd = -1  # until the folder is open

    def __init__(self, folder: Path) -> None:
        self._fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self.reports_errors = _KERNEL >= _SYNCFS_REPORTS_SINCE and _file_system_kind(self._fd) in _REPORTING

    def write_out(self) -> bool:
        if _SYNCFS is None or _SYNCFS(self._fd):
            return False
        os.fsync(self._fd)  # has the disk empty its cache, should the file system have seen no need
        return True

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        self.close()


def _file_system_kind(fd: int) -> int:
    """The magic number of the file system of an open folder; -1 if it cannot be had."""
    buffer = (ctypes.c_long * 64)()  # a struct statfs begins with it
    return -1 if ctypes.CDLL(None).fstatfs(fd, buffer) else buffer[0] & 0xFFFFFFFF


class RealDisk:
    """The disks of this machine."""

    def open(self, path: Path, size: int | None = None, mode: int = 0o644) -> StoreFile:
        require_file(path)
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | (0 if size is None else os.O_CREAT), mode)
        try:
            found = os.fstat(fd).st_size
            if size is not None and found < size:
                os.ftruncate(fd, size)
                found = size
        except OSError:
            os.close(fd)
            raise
        return RealFile(path, fd, found)

    def content(self, path: Path) -> bytes:
        require_file(path)
        return path.read_bytes()

    def size(self, path: Path) -> int:
        return path.stat().st_size

    def names(self, folder: Path) -> list[str]:
        try:
            return sorted(os.listdir(folder))
        except FileNotFoundError:
            return []

    def make_folder(self, folder: Path) -> None:
        os.makedirs(folder, exist_ok=True)

    def sync_folder(self, folder: Path) -> None:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def file_system(self, folder: Path) -> FileSystem | None:
        return None if _SYNCFS is None else RealFileSystem(folder)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def remove_folder(self, folder: Path) -> None:
        try:
            folder.rmdir()
        except FileNotFoundError:
            pass
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise

    def rename(self, path: Path, new_path: Path) -> None:
        os.replace(path, new_path)

    def space(self, folder: Path) -> tuple[int, int]:
        found = os.statvfs(folder)
        return found.f_frsize * (
            found.f_blocks - found.f_bfree + found.f_bavail
        ), found.f_frsize * found.f_bavail


def is_segment_name(name: str) -> bool:
    """True for names of segments: the start as twenty decimal digits."""
    return len(name) == 20 and name.isdigit() and name.isascii()


def segment_name(start: int) -> str:
    """The name of the segment that begins at a byte of its log."""
    return f"{start:020d}"


def segment_starts(names: Iterable[str]) -> list[int]:
    """The starts of the segments among the names of a folder, sorted."""
    return sorted(int(name) for name in names if is_segment_name(name))
