"""The version of a table, as peers compare it."""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.protocol.schema.json_body import JsonBody, Long


@dataclass(slots=True)
class DataVersion(JsonBody):
    """Equal only when all three are; the order is state version, then counter, then timestamp.

    A new table has counter 0 and the present time, so a side that lost its file never equals another.
    """

    counter: Long = 0
    state_version: Long = 0
    """The master's epoch in controller mode, else 0."""
    timestamp: Long = 0
    """ms; of the last change."""

    def next(self, now: int, state_version: int = 0) -> None:
        """Counts a change of the table at `now` (ms)."""
        self.counter += 1
        self.timestamp = now
        self.state_version = state_version

    def order(self) -> tuple[int, int, int]:
        """The key by which versions are compared to find the newer one."""
        return self.state_version, self.counter, self.timestamp

    def copy(self) -> DataVersion:
        """Another object with the same values."""
        return DataVersion(self.counter, self.state_version, self.timestamp)
