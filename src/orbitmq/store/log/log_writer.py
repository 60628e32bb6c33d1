"""The end of the log and the queues, for fast paths that write records themselves (see `append.pxd`)."""

from __future__ import annotations

from typing import Any

HOT_BYTES = 64 << 20
"""Bytes that this process wrote within this distance of the end of the log are assumed to be in the page
cache."""
NEAR_BYTES = 256 << 20
"""Records that wait for their time are read in place up to this distance; those further back may have to come
from the disk."""
RECORD_OVERHEAD_BYTES = 64 << 10
"""A whole record may be this much longer than the longest body."""


class LogWriter:
    """The memory behind the last record of the log, and the queues. Valid until the store is asked anything.

    `Appending.reserve` gives it, `commit` makes what was written part of the log, `rollback` undoes it.
    """

    __slots__ = (
        "dirty",
        "last_record",
        "limit",
        "max_body_bytes",
        "max_record_bytes",
        "position",
        "property_crc",
        "queues",
        "segment_start",
        "store_timestamp",
        "view",
    )

    def __init__(self, queues: dict[str, dict[int, Any]]) -> None:
        self.queues = queues
        """Consume queues by topic and queue id, for those who write: the log knows nothing of them."""
        self.dirty: list[Any] = []
        self.view = memoryview(b"")
        self.position = 0
        """Begin of the next record, as its place in `view`."""
        self.limit = 0
        """Blocks are reserved up to here; a blank record has to fit behind the last one."""
        self.segment_start = 0
        """The physical offset of byte 0 of `view`."""
        self.store_timestamp = 0
        self.property_crc = False
        """Each record ends with a checksum over all of it (enabledAppendPropCRC)."""
        self.max_body_bytes = 0
        self.max_record_bytes = 0
        self.last_record = -1
        """Physical offset of the last record written, -1 without one."""
