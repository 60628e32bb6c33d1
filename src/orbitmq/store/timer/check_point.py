"""The file `config/timercheck`: how far timer messages have got.

4096 bytes. The first 56 are Apache's, seven big-endian i64: the places from which it takes the folder
over. Behind them this broker keeps a mark of its own, which is exact within a second and never ahead of what
is on the disk; it counts only beside the 56 bytes that it was written with. All of it fits into one sector of
a disk, so that a power cut leaves either the old or the new.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from orbitmq.protocol.errors import Malformed
from orbitmq.store.files import Disk, StoreFile

CHECK_BYTES = 4096

_FIELDS = Struct(">qqqqqqq")
_MARK = Struct(">4sqqqqqqqi")
_SIGN = b"OMQ2"
_OLD_MARK = Struct(">4sqqqqqqi")
_OLD_SIGN = b"OMQT"
"""Of before there was `passed_to`."""
_CRC = Struct(">I")


class TimerFields(NamedTuple):
    """Apache's fields; times in ms."""

    read_ms: int = 0
    """The next slot to read: all before it were delivered."""
    log_flushed: int = 0
    """The timer log was on the disk up to this position."""
    queue_offset: int = 0
    """The smaller one of the next and a slave's own."""
    master_queue_offset: int = 0
    """The next message of the timer topic to take in."""
    state_version: int = 0
    timestamp: int = 0
    counter: int = 0


class TimerMark(NamedTuple):
    """A point at which everything belongs together and is on the disk."""

    read_ms: int
    """The slot that is being delivered."""
    due_ms: int
    """Within it, everything due before this was delivered,"""
    position: int
    """and of what is due then, the units up to this position of the timer log."""
    queue_offset: int
    """The next message of the timer topic to take in."""
    log_end: int
    """The end of the timer log."""
    physical_offset: int
    """Everything delivered since stands behind this in the commit log."""
    passed_to: int = 0
    """Messages before this queue offset are being taken in again; those whose time is over were delivered."""


class TimerCheck:
    """The file, written by one owner. `fields` and `mark` are what was read; None: none, or not usable."""

    def __init__(self, disk: Disk, path: Path, precision_ms: int) -> None:
        self._disk = disk
        self._path = path
        self._precision_ms = precision_ms
        self._file: StoreFile | None = None
        self._written = b""
        self.fields: TimerFields | None = None
        self.mark: TimerMark | None = None

    @classmethod
    def load(cls, disk: Disk, path: Path, precision_ms: int) -> TimerCheck:
        """The content of a file. The mark counts only if the file was not written since, and with the same
        precision.
        """
        check = cls(disk, path, precision_ms)
        if path.name not in disk.names(path.parent):
            return check
        file = disk.open(path)
        data = file.read(0, _FIELDS.size + _MARK.size + _CRC.size)
        file.close()
        if len(data) < _FIELDS.size:
            return check
        fields = TimerFields(*_FIELDS.unpack_from(data))
        if fields.read_ms <= 0:
            return check
        check.fields = fields
        for sign, form in ((_SIGN, _MARK), (_OLD_SIGN, _OLD_MARK)):
            size = _FIELDS.size + form.size
            body, crc = data[:size], data[size : size + _CRC.size]
            if len(crc) == _CRC.size and _CRC.unpack(crc)[0] == zlib.crc32(body):
                written, *values, precision = form.unpack_from(body, _FIELDS.size)
                if written == sign and precision == precision_ms:
                    check.mark = TimerMark(*values)
        return check

    def write(self, fields: TimerFields, mark: TimerMark) -> bool:
        """Writes what differs from what the file holds; it is on the disk after `sync`. Raises OSError."""
        body = _FIELDS.pack(*fields) + _MARK.pack(_SIGN, *mark, self._precision_ms)
        if body == self._written:
            return False
        is_new = False
        if self._file is None:
            self._disk.make_folder(self._path.parent)
            is_new = self._path.name not in self._disk.names(self._path.parent)
            self._file = self._disk.open(self._path, CHECK_BYTES)
        self._file.write(0, body + _CRC.pack(zlib.crc32(body)))
        if is_new:
            # Without it the deliveries are unknown: it is on the disk before anything is.
            self._file.sync()
            self._disk.sync_folder(self._path.parent)
        self._written = body
        self.fields, self.mark = fields, mark
        return True

    def write_fields(self, fields: TimerFields) -> None:
        """Writes what a slave's master says of itself; there is no mark beside it. Raises OSError."""
        body = _FIELDS.pack(*fields) + bytes(_MARK.size)
        if body == self._written:
            return
        if self._file is None:
            self._disk.make_folder(self._path.parent)
            self._file = self._disk.open(self._path, CHECK_BYTES)
        self._file.write(0, body + _CRC.pack(0))
        self._written = body
        self.fields, self.mark = fields, None

    def sync(self) -> None:
        """Brings the file to the disk. Blocks, without the GIL: for a thread."""
        if self._file is not None:
            self._file.sync()

    def close(self) -> None:
        """Lets go of the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


def encode_fields(fields: TimerFields) -> bytes:
    """The 56 bytes that slaves ask for."""
    return _FIELDS.pack(*fields)


def decode_fields(data: bytes) -> TimerFields:
    """The state of a master's timers. Raises Malformed for anything but 56 bytes."""
    if len(data) != _FIELDS.size:
        raise Malformed(f"a timer check point of {len(data)} bytes")
    return TimerFields(*_FIELDS.unpack(data))
