"""The newest record of a log: its place and its store time."""

from __future__ import annotations


class NewestRecord:
    """Belongs to the owner of the store. Other threads may read `timestamp_ms`, and after it
    `physical_offset`: this is the order in which an append changes them.
    """

    __slots__ = ("physical_offset", "timestamp_ms")

    def __init__(self) -> None:
        self.timestamp_ms = 0
        """Store time of the newest record, and the least one of the next: store times do not go back where
        the machine's clock is set back."""
        self.physical_offset = -1
        """-1 without a record."""

    def advance(self, now_ms: int) -> int:
        """Takes over the time; gives the store time of a record that is appended now."""
        if now_ms > self.timestamp_ms:
            self.timestamp_ms = now_ms
        return self.timestamp_ms
