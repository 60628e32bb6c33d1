"""The timer wheel: for every second of two weeks where the last unit due in it stands in the timer log.

The file `timerwheel`: 2 x 604,800 slots of 32 bytes, big endian; a time has slot `time mod number`:

    time i64 (in units of the precision) | first i64 | last i64 | number i32 | magic i32

A slot that says another time is empty: it belongs to a turn of the wheel that is over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from orbitmq.store.errors import StoreCorrupt
from orbitmq.store.files import Disk, StoreFile
from orbitmq.store.timer.log import NO_UNIT

SLOT = Struct(">qqqii")
SLOT_BYTES = SLOT.size
SLOTS = 2 * 604_800
WHEEL_BYTES = SLOTS * SLOT_BYTES
_SCAN_SLOTS = 8_192
_NEVER_USED = bytes(256 * SLOT_BYTES)
"""Slots that were never put. Most of a wheel is, and to compare bytes takes a hundredth of unpacking them."""


class Slot(NamedTuple):
    """The units of one time: positions in the timer log, and how many messages they stand for."""

    first: int
    last: int
    number: int


EMPTY = Slot(NO_UNIT, NO_UNIT, 0)


class TimerWheel:
    """Slots by time in ms. The file is made with the first slot that is put."""

    def __init__(self, disk: Disk, path: Path, precision_ms: int) -> None:
        self._disk = disk
        self.path = path
        self.precision_ms = precision_ms
        self._file: StoreFile | None = None
        self._unsynced = False
        self._is_reserved = False

    @classmethod
    def load(cls, disk: Disk, path: Path, precision_ms: int) -> TimerWheel:
        """The wheel of a file, or an empty one. Raises StoreCorrupt for a file of another length."""
        wheel = cls(disk, path, precision_ms)
        if path.name in disk.names(path.parent):
            file = disk.open(path)
            if file.size not in (0, WHEEL_BYTES):
                file.close()
                raise StoreCorrupt(
                    path,
                    f"the timer wheel has {file.size} bytes instead of {WHEEL_BYTES}",
                    "move it away: it is made again from the folder timerlog",
                )
            if file.size:
                wheel._file = file
            else:
                file.close()
        return wheel

    @property
    def exists(self) -> bool:
        """True if there is a file."""
        return self._file is not None

    @property
    def span_ms(self) -> int:
        """Time in ms of a turn of the wheel."""
        return SLOTS * self.precision_ms

    def get(self, time_ms: int) -> Slot:
        if self._file is None:
            return EMPTY
        tick = time_ms // self.precision_ms
        data = self._file.read(tick % SLOTS * SLOT_BYTES, SLOT_BYTES)
        if len(data) < SLOT_BYTES:
            return EMPTY
        found, first, last, number, _ = SLOT.unpack(data)
        return Slot(first, last, number) if found == tick else EMPTY

    def put(self, time_ms: int, slot: Slot) -> None:
        """Sets the slot of a time, whatever was there. Raises OSError where the disk is full."""
        tick = time_ms // self.precision_ms
        self._opened().write(tick % SLOTS * SLOT_BYTES, SLOT.pack(tick, *slot, 0))
        self._unsynced = True

    def make(self) -> None:
        """Makes the file, if there is none, and has room for all of it. Raises OSError."""
        self._opened()

    def _opened(self) -> StoreFile:
        if self._file is None:
            self._file = self._disk.open(self.path, WHEEL_BYTES)
            self._disk.sync_folder(self.path.parent)
        if not self._is_reserved:
            # So that no slot is missing that a unit was written for.
            self._file.reserve(0, WHEEL_BYTES)
            self._is_reserved = True
        return self._file

    def between(self, from_ms: int, to_ms: int) -> Iterator[tuple[int, Slot]]:
        """The slots of [from, to) that are not empty, with their times, in order of time.

        Not more than a turn from `from_ms` on.
        """
        if self._file is None:
            return
        tick = from_ms // self.precision_ms
        end = min(-(-to_ms // self.precision_ms), tick + SLOTS)
        while tick < end:
            at = tick % SLOTS
            count = min(_SCAN_SLOTS, end - tick, SLOTS - at)
            data = self._file.read(at * SLOT_BYTES, count * SLOT_BYTES)
            for found, first, last, number, _ in SLOT.iter_unpack(
                data[: len(data) // SLOT_BYTES * SLOT_BYTES]
            ):
                if found == tick and last != NO_UNIT:
                    yield tick * self.precision_ms, Slot(first, last, number)
                tick += 1
            if len(data) < count * SLOT_BYTES:
                return

    def next_time(self, from_ms: int, to_ms: int) -> int:
        """The time of the first slot from `from_ms` on that is not empty; `to_ms`, or how far was looked, if
        there is none. Looks through so many slots that it takes a few ms.
        """
        end = min(to_ms, from_ms + _SCAN_SLOTS * self.precision_ms) // self.precision_ms * self.precision_ms
        return next((time for time, _ in self.between(from_ms, end)), max(from_ms, end))

    def times(self) -> list[int]:
        """The times of all slots that are not empty, of whatever turn, in order. For a start."""
        found: list[int] = []
        if self._file is not None:
            for position in range(0, WHEEL_BYTES, _SCAN_SLOTS * SLOT_BYTES):
                data = self._file.read(position, min(_SCAN_SLOTS * SLOT_BYTES, WHEEL_BYTES - position))
                for at in range(0, len(data), len(_NEVER_USED)):
                    part = data[at : at + len(_NEVER_USED)]
                    if part != _NEVER_USED:
                        found += [
                            tick * self.precision_ms
                            for tick, _, last, _, _ in SLOT.iter_unpack(part)
                            if tick > 0 and last != NO_UNIT
                        ]
        return sorted(found)

    def refill(self, slots: Mapping[int, Slot]) -> None:
        """Makes the wheel hold these slots and no other. For a start; a kill meanwhile means another one."""
        content = bytearray(WHEEL_BYTES)
        for time_ms, slot in slots.items():
            tick = time_ms // self.precision_ms
            SLOT.pack_into(content, tick % SLOTS * SLOT_BYTES, tick, *slot, 0)
        self._opened().write(0, memoryview(content))
        self._unsynced = True

    @property
    def is_unsynced(self) -> bool:
        """True if something was written that is not on the disk."""
        return self._unsynced

    def sync(self) -> None:
        """Brings the file to the disk. Blocks, without the GIL: for a thread."""
        if self._unsynced and self._file is not None:
            self._unsynced = False
            try:
                self._file.sync()
            except OSError:
                self._unsynced = True
                raise

    def close(self) -> None:
        """Lets go of the file."""
        if self._file is not None:
            self._file.close()
            self._file = None
