"""The lock of a data folder: one broker at a time, Apache's included.

A POSIX record lock on byte 0 of the file `lock`, because that is what Java's FileChannel takes; `flock` would
not see it. Such a lock belongs to the process and falls as soon as any descriptor of the file is closed, so
the file is opened once, and the process keeps the list of folders it has locked.
"""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

from orbitmq.store.errors import StoreCorrupt, StoreLocked
from orbitmq.store.files import NoFile, require_file

CONTENT = b"lock"

_locked: set[tuple[int, int]] = set()
"""Device and inode of every lock file this process holds."""


class StoreLock:
    """Held from `acquire` to `release`."""

    __slots__ = ("_fd", "_identity")

    def __init__(self, fd: int, identity: tuple[int, int]) -> None:
        self._fd = fd
        self._identity = identity

    @classmethod
    def acquire(cls, root: Path) -> StoreLock:
        """Locks a folder, which has to exist. Raises StoreLocked."""
        path = root / "lock"
        # Look before opening: closing a second descriptor would drop the first one's lock.
        try:
            found = path.stat()
        except FileNotFoundError:
            pass
        else:
            if (found.st_dev, found.st_ino) in _locked:
                raise StoreLocked(root, "another store of this process")
        try:
            require_file(path)
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except NoFile:
            raise StoreCorrupt(path, "is no regular file", "move it away") from None
        except OSError as error:
            raise StoreCorrupt(
                path, f"cannot be opened ({error.strerror})", "make the data folder writable"
            ) from None
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
        except OSError as error:
            os.close(fd)
            if error.errno in (errno.EACCES, errno.EAGAIN):
                raise StoreLocked(root, _owner(root)) from None
            raise
        found = os.fstat(fd)
        identity = (found.st_dev, found.st_ino)
        _locked.add(identity)
        lock = cls(fd, identity)
        if found.st_size < len(CONTENT):
            try:
                os.pwrite(fd, CONTENT, 0)
            except OSError:
                lock.release()
                raise
        return lock

    def release(self) -> None:
        """Lets others in. May be called twice."""
        if self._fd >= 0:
            _locked.discard(self._identity)
            os.close(self._fd)
            self._fd = -1


def _owner(root: Path) -> str:
    """The possible holder of the lock: the file `abort` has the process id of a running broker."""
    path = root / "abort"
    try:
        require_file(path)
        pid = path.read_text().strip()
    except OSError:
        pid = ""
    return f"another broker (process {pid})" if pid.isdigit() else "another broker"
