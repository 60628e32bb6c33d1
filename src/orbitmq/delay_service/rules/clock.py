"""The time by which messages are due: never ahead of the machine's clock, whatever happens to that.

A clock that is set back is followed at once. A clock that jumps forward is followed after it has stayed there
for a while: a jump by mistake would send messages too early, which nothing takes back.
"""

from __future__ import annotations

JUMP_MS = 2_000
"""The machine's clock may be ahead of the time that has passed by so much at once."""
TRUSTED_AFTER_MS = 30_000
"""A clock that is ahead is followed after this time."""


class NeverEarly:
    """Reads the two clocks of a machine: the one that people set, and the one that only counts."""

    def __init__(self, wall: int, passed: int) -> None:
        self._wall = wall
        self._passed = passed
        self._ahead_since: int | None = None
        self.jumps = 0
        """Number of jumps of the machine's clock so far."""

    def now(self, wall: int, passed: int) -> int:
        """The time (ms) of a wall clock and a monotonic clock, both in ms."""
        expected = self._wall + passed - self._passed
        if wall <= expected + JUMP_MS:
            if wall < expected - JUMP_MS:
                self.jumps += 1
            self._ahead_since = None
        else:
            if self._ahead_since is None:
                self._ahead_since = passed
                self.jumps += 1
            if passed - self._ahead_since < TRUSTED_AFTER_MS:
                return expected
            self._ahead_since = None
        self._wall, self._passed = wall, passed
        return wall
