"""The results of walks over many records: see `scanning_cy`."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple, TypeAlias


class Stop(IntEnum):
    """The reason why a scan ended where it did."""

    END = 0
    """At the end of the range, or of what was asked for."""
    BLANK = 1
    """At a blank record: the log continues in the next segment."""
    EMPTY = 2
    """At zero bytes: nothing was ever written there."""
    BAD = 3
    """At something that is no sound record."""


ScannedRecord: TypeAlias = tuple[int, int, int, int, int, int, str, int, bytes]
"""(physical offset, size, queue id, queue offset, store time, sysFlag, topic, tags code, properties)"""


class Scan(NamedTuple):
    """The result of a scan of records."""

    records: list[ScannedRecord]
    position: int
    """Behind the last record taken; for Stop.BLANK, EMPTY and BAD that is where the reason stands."""
    stop: Stop
    reason: str
    """In words, for Stop.BAD; else empty."""


PARTS_PER_RECORD = 8
"""Numbers per record in the table of `locate_records`."""


class Located(NamedTuple):
    """Positions of the parts of many records."""

    table: bytearray
    """Eight native 64-bit numbers per record, positions being bytes of the buffer: record, size, store time,
    body, body length, topic, topic length, properties (up to the end of the record)."""
    position: int
    stop: Stop
    reason: str
    """These three as in `Scan`."""

    @property
    def record_count(self) -> int:
        return len(self.table) // (8 * PARTS_PER_RECORD)

    def position_of(self, number: int) -> int:
        return memoryview(self.table).cast("q")[number * PARTS_PER_RECORD]
