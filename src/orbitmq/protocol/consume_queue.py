"""Units of consume queues: 20 bytes that say where a message is, or 46 for an inner batch.

    unit        physical offset i64 | size i32 | tags code i64
    batch unit  physical offset i64 | size i32 | tags code i64 | store time i64 | base queue offset i64
                | batch size i16 | compact offset i32 (-1) | reserved i32 (0)

The unit of queue offset n begins at byte 20 n of its queue.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import NamedTuple

UNIT = Struct(">qiq")
UNIT_BYTES = UNIT.size
BATCH_UNIT_BYTES = 46

BLANK_SIZE = 0x7FFFFFFF
"""The size in blank units."""
BLANK_UNIT = UNIT.pack(0, BLANK_SIZE, 0)
"""Stands before the first unit of a queue that begins in the middle of a segment."""

_BATCH_UNIT = Struct(">qiqqqhii")


class Unit(NamedTuple):
    """One unit. Physical offset -1 and the like stand for what is not there."""

    physical_offset: int
    size: int
    """Of the record, in bytes."""
    tags_code: int
    """The tag's hash; in SCHEDULE_TOPIC_XXXX the time at which the message is due, in ms."""

    @property
    def is_written(self) -> bool:
        """Whether it stands for a record: zeros and blank units do not."""
        return self.physical_offset >= 0 and 0 < self.size < BLANK_SIZE

    @property
    def ends_queue(self) -> bool:
        """Whether nothing was written here, nor behind it. Blank units do not end a queue."""
        return self.physical_offset < 0 or self.size <= 0


class BatchUnit(NamedTuple):
    """One unit of a queue of inner batches."""

    physical_offset: int
    size: int
    tags_code: int
    store_timestamp: int
    base_queue_offset: int
    """Queue offset of the batch's first message."""
    batch_size: int
    """How many messages; 1 for one that is no batch."""
    compact_offset: int = -1
    reserved: int = 0


pack_unit = UNIT.pack
"""The bytes of a unit from (physical offset, size, tags code)."""


def unpack_unit(buf: bytes | memoryview, position: int = 0) -> Unit:
    """The unit at byte `position`. Raises struct.error if the buffer ends before it does."""
    return Unit._make(UNIT.unpack_from(buf, position))


def unpack_units(buf: bytes | memoryview) -> Iterable[Unit]:
    """All whole units of a buffer, blank and unwritten ones included."""
    return map(Unit._make, UNIT.iter_unpack(memoryview(buf)[: len(buf) // UNIT_BYTES * UNIT_BYTES]))


def pack_batch_unit(unit: BatchUnit) -> bytes:
    """The bytes of a batch unit."""
    return _BATCH_UNIT.pack(*unit)


def unpack_batch_unit(buf: bytes | memoryview, position: int = 0) -> BatchUnit:
    """The batch unit at byte `position`. Raises struct.error if the buffer ends before it does."""
    return BatchUnit._make(_BATCH_UNIT.unpack_from(buf, position))
