"""Which tables differ from their files.

Rules mark, the server writes: what is marked `soon` within 50 ms (a reply may wait for it with `Saved`),
the rest at the table's own interval.
"""

from __future__ import annotations


class Unsaved:
    """The names of the tables that have to be written, by urgency."""

    __slots__ = ("_later", "_soon")

    def __init__(self) -> None:
        self._soon: set[str] = set()
        self._later: set[str] = set()

    def mark(self, table: str, *, soon: bool = True) -> None:
        """Notes that `table` changed; `soon=False` leaves the moment to the table's own interval."""
        (self._soon if soon else self._later).add(table)

    def __contains__(self, table: object) -> bool:
        return table in self._soon or table in self._later

    def is_due(self, table: str) -> bool:
        """Whether `table` is among those to write within 50 ms."""
        return table in self._soon

    @property
    def any_soon(self) -> bool:
        """Whether a write within 50 ms is due."""
        return bool(self._soon)

    def take_soon(self) -> set[str]:
        """The tables to write now; they count as saved from here, so mark again after a failed write."""
        taken, self._soon = self._soon, set()
        self._later -= taken
        return taken

    def take(self, table: str) -> bool:
        """Whether `table` has to be written at its interval; it counts as saved from here."""
        marked = table in self
        self._soon.discard(table)
        self._later.discard(table)
        return marked

    def take_all(self) -> set[str]:
        """Everything not yet written, for the last write before the end."""
        taken = self._soon | self._later
        self._soon, self._later = set(), set()
        return taken
