"""Limit on partially received frames, over all connections.

Each may send a frame of 16 MiB; some hundreds that stop halfway would take all memory until they are idle for
long enough to be closed.
"""

from __future__ import annotations

from typing import Protocol

MOST_BYTES = 256 << 20
COUNTED_BYTES = 64 << 10
"""Less than this of an unfinished frame is not counted: what one read brings."""


class Cuttable(Protocol):
    """A connection, as far as the limit is concerned."""

    last_heard: float
    """When its peer last sent something."""

    def cut(self, reason: str) -> None:
        """Closes the connection at once."""


class Unfinished:
    """The connections that hold much of an unfinished frame.

    Where they hold more than `most_bytes` together, those that were silent for longest go.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._held: dict[Cuttable, int] = {}
        self._total = 0

    @property
    def held_bytes(self) -> int:
        return self._total

    def note(self, connection: Cuttable, size_bytes: int) -> bool:
        """Says how much of an unfinished frame a connection holds. True if that is counted."""
        before = self._held.get(connection, 0)
        if size_bytes < COUNTED_BYTES:
            if before:
                del self._held[connection]
                self._total -= before
            return False
        self._held[connection] = size_bytes
        self._total += size_bytes - before
        while self._total > self._most_bytes:
            silent = min(self._held, key=lambda one: one.last_heard)
            held = self._held.pop(silent)
            self._total -= held
            silent.cut(f"{held} bytes of an unfinished frame, and peers hold too much in such frames")
        return connection in self._held
