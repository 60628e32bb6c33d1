"""Units of consume queues: 20 bytes with the place of a message.

    physical offset i64 | size i32 | tags code i64

The unit of queue offset n begins at byte 20 n of its queue.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

UNIT = Struct(">qiq")
UNIT_BYTES = UNIT.size

BLANK_SIZE = 0x7FFFFFFF
"""The size in blank units."""
BLANK_UNIT = UNIT.pack(0, BLANK_SIZE, 0)
"""Stands before the first unit of a queue that begins in the middle of a segment."""


class Unit(NamedTuple):
    """One unit. Physical offset -1 and the like stand for what is not there."""

    physical_offset: int
    size: int
    """Of the record, in bytes."""
    tags_code: int
    """The tag's hash; in SCHEDULE_TOPIC_XXXX the time at which the message is due, in ms."""

    @property
    def is_written(self) -> bool:
        """True if it points to a record: zeros and blank units do not."""
        return self.physical_offset >= 0 and 0 < self.size < BLANK_SIZE


pack_unit = UNIT.pack
"""The bytes of a unit from (physical offset, size, tags code)."""


def unpack_unit(buf: bytes | memoryview, position: int = 0) -> Unit:
    """The unit at byte `position`. Raises struct.error if the buffer ends before it does."""
    return Unit._make(UNIT.unpack_from(buf, position))
