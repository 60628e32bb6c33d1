"""The end of the log and the queues, for fast paths that write records themselves (see `append.pxd`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

HOT_BYTES = 64 << 20
"""Bytes that this process wrote within this distance of the end of the log are assumed to be in the page
cache."""
NEAR_BYTES = 256 << 20
"""Records that wait for their time are read in place up to this distance; those further back may have to come
from the disk."""
RECORD_OVERHEAD_BYTES = 64 << 10
"""A whole record may be this much longer than the longest body."""


@dataclass(slots=True, eq=False, repr=False)
class LogWriter:
    """The memory behind the last record of the log, and the queues. Valid until the store is asked anything.

    `Appending.reserve` gives it, `commit` makes what was written part of the log, `rollback` undoes it.
    """

    queues: dict[str, dict[int, Any]]
    """Consume queues by topic and queue id, for those who write: the log knows nothing of them."""
    dirty: list[Any] = field(default_factory=list)
    view: memoryview = field(default_factory=lambda: memoryview(b""))
    position: int = 0
    """Begin of the next record, as its place in `view`."""
    limit: int = 0
    """Blocks are reserved up to here; a blank record has to fit behind the last one."""
    segment_start: int = 0
    """The physical offset of byte 0 of `view`."""
    store_timestamp: int = 0
    property_crc: bool = False
    """Each record ends with a checksum over all of it (enabledAppendPropCRC)."""
    max_body_bytes: int = 0
    max_record_bytes: int = 0
    last_record: int = -1
    """Physical offset of the last record written, -1 without one."""
