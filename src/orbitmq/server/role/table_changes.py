"""Answers to changes of tables: in controller mode they wait for all who may be the next master."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from orbitmq.broker.ha.table_versions import TableVersions
from orbitmq.broker.master_tables import FOLLOWED
from orbitmq.broker.role.promise import Promise
from orbitmq.handling.dirty_tables import DirtyTables


@dataclass(eq=False, repr=False)
class TableChanges:
    """Lets answers go once a change is in its file here and, where acknowledgements of messages wait for
    replicas, with the slaves of the in-sync set. `answer(tables)` wakes those that wait for these tables.
    """

    _promise: Promise
    _versions: TableVersions
    _dirty_tables: DirtyTables
    _answer: Callable[[Iterable[str]], None]

    def __post_init__(self) -> None:
        self.held: dict[str, int] = {}
        """Tables whose change slaves still lack, with its number."""

    def saved(self, tables: Iterable[str], *, is_change: bool) -> None:
        """Tables are in their files; `is_change` where a user has changed them."""
        if is_change and self._slaves_count():
            version = self._versions.changed()
            self.held |= {table: version for table in tables if table in FOLLOWED}
        self._answer([table for table in tables if table not in self.held])
        self.answer_taken()

    def _slaves_count(self) -> bool:
        promise = self._promise
        return promise.in_sync is not None and promise.waits_for_replicas

    def answer_taken(self) -> None:
        """Lets answers go whose change all slaves of the in-sync set have."""
        in_sync = self._promise.in_sync
        others = in_sync.others if in_sync is not None else ()
        for table, version in list(self.held.items()):
            if self._versions.are_taken(version, others):
                del self.held[table]
                # A newer change that is in no file yet has answers of its own waiting.
                if not self._dirty_tables.is_due(table):
                    self._answer([table])

    def forget(self) -> None:
        """Leaves answers to their time limit: this broker is no master any more."""
        self.held.clear()
