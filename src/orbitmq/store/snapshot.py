"""A consistent copy of a data folder, taken while a broker works in it, or while none does.

The copy is what a crash would have left behind: a broker, OrbitMQ's or Apache's, opens it as it opens a
folder after kill -9. Nothing is asked of the broker that works there; what makes the copy consistent is the
order in which it is taken. Files that hold progress come first, the files they point to later, the commit log
last, so that nothing in the copy points beyond the copy's log:

    checkpoint and queue checkpoint; tables (offsets, delays, timers); timer wheel; timer log; queues; index;
    the commit log; topics and groups, of which the log may have made new ones in between

Segments that are full are never written again: they are brought to the disk and linked, and cost no space.
The others are copied, holes left out. All that was acknowledged before the copy began is in it; of what comes
meanwhile some is. Consumer offsets are those of the last save, at most flushConsumerOffsetInterval old.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from orbitmq.protocol.errors import OrbitError
from orbitmq.store.files import RealDisk, is_segment_name
from orbitmq.store.index.index_cy import HEADER_BYTES
from orbitmq.store.index.index_file import end_timestamp_of
from orbitmq.store.recovery.checkpoint import mark_of, vouching_for

COMMIT_LOG = "commitlog"
QUEUES = ("consumequeue", "consumequeue_ext", "batchconsumequeue")
FIRST = ("checkpoint", "queuemarks.json")
LAST = ("config/topics.json", "config/subscriptionGroup.json")
OF_THE_PROCESS = frozenset({"lock", "abort", "abort.tmp"})
"""Not copied: they belong to whoever has the folder now. The copy gets an `abort` of its own."""
KEY_FILE = "auth.key"
"""Opens the secrets of users, where no option names another file. Not copied: a copy alone is no use then."""
LAST_UNIT_BYTES = 20
COPY_BYTES = 8 << 20
TRIES = 50


class SnapshotFailed(OrbitError):
    """The copy could not be made; nothing is left of it."""


@dataclass(slots=True)
class SnapshotFigures:
    """Figures of a copy."""

    linked_files: int = 0
    linked_bytes: int = 0
    copied_files: int = 0
    copied_bytes: int = 0
    """Bytes really written: holes are none."""


def take_snapshot(source: Path, target: Path) -> SnapshotFigures:
    """Copies the data folder `source` into `target`, which must not exist; it is there when it is whole.

    Blocks for as long as it takes to copy what cannot be linked. Raises SnapshotFailed.
    """
    source, target = source.resolve(), target.absolute()
    if not (source / COMMIT_LOG).is_dir():
        raise SnapshotFailed(f"{source} is no data folder of a broker: it has no folder {COMMIT_LOG}")
    if target.exists():
        raise SnapshotFailed(f"{target} exists already")
    partial = target.with_name(target.name + ".partial")
    try:
        partial.mkdir(parents=True)
        partial.chmod(source.stat().st_mode & 0o777)  # with access control no other user may enter either
    except FileExistsError:
        raise SnapshotFailed(
            f"{partial} exists: another copy is being made, or one was interrupted; remove it then"
        ) from None
    except OSError as error:
        raise SnapshotFailed(f"{partial} cannot be made: {error.strerror}") from None
    try:
        copy = _Copy(source, partial)
        copy.run()
        RealDisk().sync_folder(partial)
        partial.rename(target)
        RealDisk().sync_folder(target.parent)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise SnapshotFailed(f"{error.filename or source}: {error.strerror}") from None
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return copy.figures


class _Copy:
    """One copy on its way."""

    def __init__(self, source: Path, target: Path) -> None:
        self.figures = SnapshotFigures()
        self._source = source
        self._target = target
        self._done: set[str] = set()

    def run(self) -> None:
        """All of it, in the order that makes it consistent."""
        checkpoint, queue_checkpoint = self._checkpoints()
        later = {*LAST, *(f"{name}.bak" for name in LAST)}
        self._folder("config", skip=later)
        self._file("timerwheel")
        self._folder("timerlog")
        for name in QUEUES:
            self._segments(name)
        self._segments("index", newest=2)
        self._put_checkpoints(checkpoint, queue_checkpoint)
        for name in self._names(""):
            if name not in OF_THE_PROCESS and name != COMMIT_LOG:
                self._folder(name)
        self._commit_log()
        for name in sorted(later):
            self._file(name)
        (self._target / "abort").write_bytes(b"snapshot")

    def _names(self, folder: str) -> list[str]:
        try:
            return sorted(os.listdir(self._source / folder))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def _walk(self, folder: str) -> Iterator[str]:
        """The files below a folder, or the file itself."""
        path = self._source / folder
        if self._target == path or (path / COMMIT_LOG).is_dir():
            return  # a copy that is in the data folder itself: this one, or one taken before
        if path.is_file():
            yield folder
        elif path.is_dir() and not path.is_symlink():
            for name in self._names(folder):
                yield from self._walk(f"{folder}/{name}")

    def _folder(self, folder: str, skip: frozenset[str] | set[str] = frozenset()) -> None:
        for name in self._walk(folder):
            if name not in skip:
                self._file(name)

    def _checkpoints(self) -> list[bytes | None]:
        """The two belong together: the queue checkpoint counts beside its checkpoint only."""
        self._done.update(FIRST)
        for _ in range(TRIES):
            before = [self._content(name) for name in FIRST]
            if before == [self._content(name) for name in FIRST]:
                break
        return before

    def _put_checkpoints(self, checkpoint: bytes | None, queue_checkpoint: bytes | None) -> None:
        """As they were at first, but for the index: its copy is on the disk now, further than they say."""
        newest = max((self._target / "index").glob("[0-9]*"), default=None)
        if checkpoint is not None and newest is not None:
            with newest.open("rb") as file:
                vouching = vouching_for(checkpoint, end_timestamp_of(file.read(HEADER_BYTES)))
            if queue_checkpoint is not None:
                queue_checkpoint = queue_checkpoint.replace(
                    mark_of(checkpoint).encode(), mark_of(vouching).encode(), 1
                )
            checkpoint = vouching
        for name, content in zip(FIRST, (checkpoint, queue_checkpoint), strict=True):
            if content is not None:
                (self._target / name).write_bytes(content)
                self._synced(self._target / name)
                self.figures.copied_files += 1
                self.figures.copied_bytes += len(content)

    def _content(self, name: str) -> bytes | None:
        try:
            return (self._source / name).read_bytes()
        except FileNotFoundError:
            return None

    def _segments(self, folder: str, newest: int = 1) -> None:
        """Links what is full, copies the rest: of each folder the newest files, and any that has room."""
        by_folder: dict[str, list[str]] = {}
        for name in self._walk(folder):
            by_folder.setdefault(name.rpartition("/")[0], []).append(name)
        for names in by_folder.values():
            for name in names[:-newest]:
                if self._is_full(name):
                    self._link(name)
            for name in names:
                self._file(name)

    def _is_full(self, name: str) -> bool:
        """True if a file of a queue, or of the index, has no room at its end."""
        try:
            with (self._source / name).open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                file.seek(max(0, size - LAST_UNIT_BYTES))
                return size > 0 and any(file.read(LAST_UNIT_BYTES))
        except FileNotFoundError:
            return False

    def _commit_log(self) -> None:
        """A segment is full if a later one has begun: a broker makes segments ahead of their use."""
        names = [name for name in self._names(COMMIT_LOG) if is_segment_name(name)]
        begun = [name for name in names if self._has_begun(f"{COMMIT_LOG}/{name}")]
        full = names[: names.index(begun[-1])] if begun else []
        for name in full:
            self._link(f"{COMMIT_LOG}/{name}")
        for name in names:
            # Also those that have begun since: what they hold is behind all the rest.
            self._file(f"{COMMIT_LOG}/{name}")
        there = sorted(os.listdir(self._target / COMMIT_LOG)) if names else []
        missing = [name for name in names if name not in there]
        if missing and missing != names[: len(missing)]:
            raise SnapshotFailed(f"segment {missing[0]} of the commit log went while it was copied")

    def _has_begun(self, name: str) -> bool:
        try:
            with (self._source / name).open("rb") as file:
                return any(file.read(8))
        except FileNotFoundError:
            return False

    # One file.

    def _link(self, name: str) -> None:
        """Falls back on a copy where links cannot be made, as from one disk to another."""
        path, copy = self._source / name, self._target / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._synced(path)
            os.link(path, copy)
        except FileNotFoundError:
            return  # retention has taken it
        except OSError as error:
            if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP):
                raise
            return
        self._done.add(name)
        self.figures.linked_files += 1
        self.figures.linked_bytes += os.stat(copy).st_size

    def _file(self, name: str) -> None:
        """Copies a file, unless that was done; one that goes meanwhile is left out."""
        if name in self._done or name.endswith(".tmp") or name.rpartition("/")[2] == KEY_FILE:
            return
        path, copy = self._source / name, self._target / name
        try:
            source = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        self._done.add(name)
        try:
            copy.parent.mkdir(parents=True, exist_ok=True)
            found = os.fstat(source)
            target = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, found.st_mode & 0o777)
            try:
                self.figures.copied_bytes += _copy_data(source, target, found.st_size)
                # Retention goes by this time, Apache's too.
                os.utime(target, ns=(found.st_atime_ns, found.st_mtime_ns))
                os.fsync(target)
            finally:
                os.close(target)
        finally:
            os.close(source)
        self.figures.copied_files += 1

    @staticmethod
    def _synced(path: Path) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _copy_data(source: int, target: int, size: int) -> int:
    """Copies the data of a file, from its beginning to its end, and leaves its holes; gives the bytes."""
    os.ftruncate(target, size)
    copied = 0
    at = 0
    while at < size:
        try:
            begin = os.lseek(source, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            break  # nothing but a hole up to the end
        end = min(os.lseek(source, begin, os.SEEK_HOLE), size)
        while begin < end:
            wrote = _copy_some(source, target, begin, min(COPY_BYTES, end - begin))
            if not wrote:
                return copied
            begin += wrote
            copied += wrote
        at = end
    return copied


def _copy_some(source: int, target: int, position: int, count: int) -> int:
    """In the kernel, where the file systems can: shared blocks on those that have them."""
    try:
        return os.copy_file_range(source, target, count, position, position)
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
            raise
    data = os.pread(source, count, position)
    written = 0
    while written < len(data):
        written += os.pwrite(target, data[written:], position + written)
    return written
