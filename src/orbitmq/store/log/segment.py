"""One file of the commit log, mapped into memory.

A mapped byte is written only below `Segment.reserved`: for what is beyond, the file system has promised no
block, and on a full disk a write there would be a SIGBUS. Blocks are reserved ahead, off the loop, in steps.
"""

from __future__ import annotations

from orbitmq import failpoints
from orbitmq.store.files import NO_SPACE, StoreFile

RESERVE_STEP_BYTES = 64 << 20
"""Blocks are reserved ahead of the write position in steps of this size."""
RESERVE_LEAST_BYTES = 1 << 20
"""The step on a disk that has no room for the large one."""

ZEROS = bytes(64 << 10)


class Segment:
    """One file of the log. `wrote`, `reserved` and `synced` are positions within it."""

    __slots__ = ("file", "removed", "reserved", "size", "start", "synced", "view", "wrote")

    def __init__(self, start: int, file: StoreFile) -> None:
        self.start = start
        self.file = file
        self.size = file.size
        self.view = file.view()
        self.wrote = 0
        self.reserved = 0
        self.synced = 0
        self.removed = False

    @property
    def end(self) -> int:
        """The physical offset behind the segment."""
        return self.start + self.size

    def reserve(self, up_to: int) -> None:
        """Reserves blocks up to a position. Raises OSError where even the smallest step does not fit."""
        for step in (RESERVE_STEP_BYTES, RESERVE_LEAST_BYTES, 4096):
            target = min(self.size, -(-up_to // step) * step)
            if target <= self.reserved:
                return
            try:
                if failpoints.armed:
                    failpoints.hit("commitlog.reserve")
                self.file.reserve(self.reserved, target - self.reserved)
            except OSError as error:
                if error.errno not in NO_SPACE or step == 4096:
                    raise
            else:
                self.reserved = target
                return

    def clear_ahead(self) -> None:
        """Fills the reserved and unwritten part with zeros."""
        for at in range(self.wrote, self.reserved, len(ZEROS)):
            end = min(at + len(ZEROS), self.reserved)
            self.view[at:end] = ZEROS[: end - at]
