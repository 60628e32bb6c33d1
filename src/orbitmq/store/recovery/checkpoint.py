"""The file `checkpoint`: up to which store times things were on the disk.

4096 bytes, five big-endian i64 and zeros. Recovery after a crash begins before the older of the first two
times.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from struct import Struct

from orbitmq.store.files import Disk

CHECKPOINT_BYTES = 4096
SAFETY_MS = 3000
"""Recovery begins this much earlier than the checkpoint says, as Apache's does."""

_FIELDS = Struct(">qqqqq")


@dataclass(slots=True, eq=False, repr=False)
class Checkpoint:
    """The times of the file, changed in memory and brought to it by `save`."""

    _disk: Disk
    _path: Path
    physical_timestamp_ms: int = 0
    """physicMsgTimestamp: store time of the last record of the commit log that was flushed."""
    logics_timestamp_ms: int = 0
    """logicsMsgTimestamp: store time of the last record whose consume-queue unit was flushed."""
    index_timestamp_ms: int = 0
    """indexMsgTimestamp: end of the last index file that was flushed as a whole."""
    master_flushed_offset: int = 0
    confirm_physical_offset: int = 0
    _saved: bytes = b""

    @classmethod
    def load(cls, disk: Disk, path: Path) -> Checkpoint:
        """The checkpoint of a folder; all zero where there is none or where it is cut off."""
        checkpoint = cls(disk, path)
        if path.name in disk.names(path.parent):
            file = disk.open(path)
            data = file.read(0, _FIELDS.size)
            file.close()
            if len(data) == _FIELDS.size:
                checkpoint._unpack(data)
                checkpoint._saved = data
        return checkpoint

    def _unpack(self, data: bytes) -> None:
        values = [max(0, value) for value in _FIELDS.unpack(data)]
        self.physical_timestamp_ms, self.logics_timestamp_ms, self.index_timestamp_ms = values[:3]
        self.master_flushed_offset, self.confirm_physical_offset = values[3:]

    def to_bytes(self) -> bytes:
        """The content of the file, its zeros included."""
        return self._pack().ljust(CHECKPOINT_BYTES, b"\x00")

    def _pack(self) -> bytes:
        return _FIELDS.pack(
            self.physical_timestamp_ms,
            self.logics_timestamp_ms,
            self.index_timestamp_ms,
            self.master_flushed_offset,
            self.confirm_physical_offset,
        )

    @property
    def mark(self) -> str:
        """Content of the file as a text, to distinguish one checkpoint from another. The values may have
        moved on since it was written: a flush does not wait for that.
        """
        return self._saved.hex()

    @property
    def dispatch_time_ms(self) -> int:
        """Records stored before this are in the log and in their queues for sure."""
        return max(0, min(self.physical_timestamp_ms, self.logics_timestamp_ms) - SAFETY_MS)

    def save(self) -> None:
        """Writes and syncs the file if it differs from what it holds. Raises OSError."""
        data = self._pack()
        if data == self._saved:
            return
        file = self._disk.open(self._path, CHECKPOINT_BYTES)
        try:
            file.write(0, data.ljust(CHECKPOINT_BYTES, b"\x00"))
            file.sync()
        finally:
            file.close()
        self._saved = data


def vouching_for(data: bytes, index_ms: int) -> bytes:
    """The content of a checkpoint, with index files on the disk up to `index_ms`.

    After a crash Apache's broker throws away index files that are newer, and does not make them again.
    """
    if len(data) < _FIELDS.size:
        return data
    physical_ms, logics_ms, before_ms, *rest = _FIELDS.unpack_from(data)
    return _FIELDS.pack(physical_ms, logics_ms, max(before_ms, index_ms), *rest) + data[_FIELDS.size :]


def mark_of(data: bytes) -> str:
    """The `mark` of a checkpoint with this content."""
    return data[: _FIELDS.size].hex()
