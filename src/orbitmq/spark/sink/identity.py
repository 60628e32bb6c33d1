"""Identity of a written message: the write, the batch, the partition and the row that it came from.

Spark runs a task again after a failure, and a whole micro-batch after a crash. The rows are then the same
ones in the same places if the input is deterministic (topics and files are; a shuffle without an order is
not). So the place of a row is its identity, or the key that it brings along in the column `onceKey`, for
input that comes in another order each time. The identity travels as the property `orbitmq.write`, and in
hashed form as the unique id by which brokers index every message.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

MOST_ROWS = 1 << 32
"""Rows of one partition that an id can tell apart."""


@dataclass(slots=True, frozen=True)
class PartitionIdentity:
    """One partition of one batch of one write."""

    write_id: str
    batch_id: int
    partition_id: int

    @property
    def text(self) -> str:
        """`write/batch/partition`."""
        return f"{self.write_id}/{self.batch_id}/{self.partition_id}"

    def of_row(self, row: int) -> str:
        return f"{self.text}/{row}"

    def of_key(self, once_key: str) -> str:
        """The value of the property of a row that has a key of its own: `write/key`."""
        return f"{self.write_id}/{once_key}"

    @property
    def id_prefix(self) -> str:
        """The prefix of the unique ids of all rows: 64 bits of a hash, 16 characters."""
        return hashlib.blake2b(self.text.encode(), digest_size=8).hexdigest().upper()


def unique_id(prefix: str, row: int) -> str:
    """The unique id of a row, in the form of clients' ids: address, process, loader, time, counter.

    The time is the beginning of the month: tools that look an id up from the time in it find the message
    while the month lasts. The counter is the low half of the row number.
    """
    return f"{prefix}{row >> 16:04X}00000000{row & 0xFFFF:04X}"
