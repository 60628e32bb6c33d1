"""Truncation of a store at run time: the log ends earlier, and nothing derived from it knows what was behind.

The intention is a file of its own, on the disk before the first byte changes and gone after the last one did:
a start that finds it cuts the log itself and derives everything else anew. So a crash at any moment leaves
either all of the log or the cut one, never a log with a hole.
"""

from __future__ import annotations

from pathlib import Path

from orbitmq.store import failpoints
from orbitmq.store.errors import StoreCorrupt
from orbitmq.store.files import Disk, replace_file
from orbitmq.store.index.index_table import Index
from orbitmq.store.log.commit_log import CommitLog
from orbitmq.store.queue.consume_queue import ConsumeQueue
from orbitmq.store.queue.writer import QueueWriter

FILE_NAME = "truncation"
"""Name of the file in the data folder: the physical offset at which the log is to end, in digits."""


def intended(disk: Disk, root: Path) -> int | None:
    """The physical offset of a truncation that was begun and not ended; None without one.

    Raises StoreCorrupt.
    """
    if FILE_NAME not in disk.names(root):
        return None
    text = disk.content(root / FILE_NAME)
    if not text.isdigit():
        raise StoreCorrupt(
            root / FILE_NAME,
            "does not hold the physical offset at which the log is to end",
            "write that offset into it, or remove it to keep all of the log",
        )
    return int(text)


def intend(disk: Disk, root: Path, physical_offset: int) -> None:
    """Notes durably that the log is to end there. Raises OSError."""
    replace_file(disk, root / FILE_NAME, b"%d" % physical_offset)


def completed(disk: Disk, root: Path) -> None:
    """Removes the note of a truncation. Raises OSError."""
    disk.remove(root / FILE_NAME)
    disk.sync_folder(root)


def boundary(commit_log: CommitLog, physical_offset: int) -> int:
    """The end of the last whole record at or before a physical offset; a segment's start stays as it is."""
    segment = commit_log.find(physical_offset)
    if segment is None or physical_offset == segment.start:
        return physical_offset
    last = commit_log.last_record_in(segment, physical_offset - segment.start)
    return segment.start if last is None else last[0] + last[1]


def truncate(commit_log: CommitLog, writer: QueueWriter, index: Index, end: int) -> list[ConsumeQueue]:
    """Cuts log, consume queues and index at the end of a record; gives the queues that became shorter.

    Raises OSError.
    """
    _reached("truncation.intended")
    commit_log.cut_to(end)
    _reached("truncation.log")
    changed = writer.cut_to(end)
    _reached("truncation.queues")
    index.cut_to(end)
    _reached("truncation.index")
    return changed


def _reached(name: str) -> None:
    if failpoints.armed:
        failpoints.hit(name)
