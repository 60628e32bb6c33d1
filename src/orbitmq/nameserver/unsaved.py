"""Which of the name server's tables differ from their files."""

from __future__ import annotations


class Unsaved:
    """Names of tables to write. Every change here is an operator's, so all of them are due at once."""

    __slots__ = ("_tables",)

    def __init__(self) -> None:
        self._tables: set[str] = set()

    def mark(self, table: str, *, soon: bool = True) -> None:
        """Notes that `table` changed, or that writing it failed."""
        self._tables.add(table)

    def __contains__(self, table: object) -> bool:
        return table in self._tables

    def is_due(self, table: str) -> bool:
        """Whether `table` differs from its file."""
        return table in self._tables

    @property
    def any_soon(self) -> bool:
        """Whether a write is due."""
        return bool(self._tables)

    def take(self, table: str) -> bool:
        """Whether `table` has to be written; it counts as saved from here."""
        marked = table in self._tables
        self._tables.discard(table)
        return marked

    def take_soon(self) -> set[str]:
        """All tables to write; they count as saved from here."""
        tables, self._tables = self._tables, set()
        return tables

    def take_all(self) -> set[str]:
        """The same, for the last write before the end."""
        return self.take_soon()
