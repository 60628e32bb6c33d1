"""Tables that differ from their files.

Rules mark tables and the server writes them: those marked `soon` within 50 ms (a reply may wait for this with
`Saved`), the others at their own interval.
"""

from __future__ import annotations


class DirtyTables:
    """Names of tables that have to be written, by urgency."""

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
        """True if `table` is to be written within 50 ms."""
        return table in self._soon

    @property
    def any_soon(self) -> bool:
        """True if a table is to be written within 50 ms."""
        return bool(self._soon)

    def drain_soon(self) -> set[str]:
        """The tables to write now; they are clean from here, so mark them again after a failed write."""
        drained, self._soon = self._soon, set()
        self._later -= drained
        return drained

    def clear(self, table: str) -> bool:
        """True if `table` was dirty; it is clean from here, so mark it again after a failed write."""
        marked = table in self
        self._soon.discard(table)
        self._later.discard(table)
        return marked

    def drain_all(self) -> set[str]:
        """All dirty tables, for the last write of the process."""
        drained = self._soon | self._later
        self._soon, self._later = set(), set()
        return drained
