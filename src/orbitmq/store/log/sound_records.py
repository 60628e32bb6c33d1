"""Searches for records whose own physical offset is the place where they are, and whose checksum is right.

They continue behind damage, and find the end of a log; bytes inside a body are never taken for a record.
"""

from __future__ import annotations

import zlib

from orbitmq.protocol.records.message import FIXED_BYTES
from orbitmq.protocol.records.scanning_cy import scan_records
from orbitmq.protocol.records.scans import ScannedRecord
from orbitmq.store.log.commit_log import CommitLog
from orbitmq.store.log.segment import Segment

_SEARCH_BYTES = 4 << 20
_BACK_BYTES = 64 << 10
"""Bytes before the end in which the last record is searched first."""
_MAGIC_START = b"\xda\xa3\x20"
"""First bytes of the magic numbers of both kinds of records."""


def record_in(segment: Segment, position: int) -> ScannedRecord | None:
    """The record at a position of a segment, None if there is no sound one."""
    size = int.from_bytes(segment.file.read(position, 4), "big", signed=True)
    if not FIXED_BYTES <= size <= segment.size - position:
        return None
    scan = scan_records(segment.file.read(position, size), 0, size, segment.start + position)
    return scan.records[0] if scan.records else None


def next_record_in(
    segment: Segment, position: int, end: int | None = None
) -> tuple[int, ScannedRecord] | None:
    """The first sound record of a segment from a position on: its position, and itself. With an `end` the
    search goes little further than to that position.
    """
    end = segment.size if end is None else end
    while position < end:
        chunk = segment.file.read(position, _SEARCH_BYTES + 8)
        at = chunk.find(_MAGIC_START, 4)
        while 4 <= at < _SEARCH_BYTES + 4:
            record = record_in(segment, position + at - 4)
            if record is not None:
                return position + at - 4, record
            at = chunk.find(_MAGIC_START, at + 1)
        position += _SEARCH_BYTES
    return None


def last_record_in(segment: Segment, end: int) -> ScannedRecord | None:
    """The last sound record of a segment that ends at a position of it or before; None without one."""
    window, begin = _BACK_BYTES, end
    while begin > 0:
        begin = max(0, end - window)
        window *= 16
        last = None
        found = next_record_in(segment, begin, end)
        while found is not None and found[0] + found[1][1] <= end:
            last = found[1]
            position = found[0] + last[1]
            following = record_in(segment, position)
            found = next_record_in(segment, position, end) if following is None else (position, following)
        if last is not None:
            return last
    return None


def last_record_before(commit_log: CommitLog, physical_offset: int) -> ScannedRecord | None:
    """The last sound record that ends at a physical offset or before; None without one."""
    for segment in reversed(commit_log.segments):
        if segment.start < physical_offset:
            last = last_record_in(segment, min(physical_offset - segment.start, segment.size))
            if last is not None:
                return last
    return None


def record_checksum(commit_log: CommitLog, physical_offset: int) -> int | None:
    """A checksum of all of the record at a physical offset, None where there is no sound one."""
    segment = commit_log.find(physical_offset)
    if segment is None:
        return None
    position = physical_offset - segment.start
    record = record_in(segment, position)
    return None if record is None else zlib.crc32(segment.file.read(position, record[1]))
