"""The locks of relays: while one sends messages of a key, no other does.

PostgreSQL and MySQL lock the row of the lock for the rest of the transaction, without waiting for one that is
taken. So a lock ends with its transaction, and with the connection of a relay that died.

SQLite lets one transaction write at a time, and a relay that held it while it sends would stop the program.
There the lock is a database of its own beside the first one, for all keys: the system frees it when the
process dies.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Sequence

from sqlalchemy import Connection, insert, select, text

from orbitmq.outbox.tables import HOUSEKEEPING, LOCKS
from orbitmq.outbox.writing import Outbox


def make_locks(outbox: Outbox, connection: Connection) -> None:
    """Write the rows of locks that are not there; several relays may do so at a time."""
    locks = outbox.locks
    there = set(connection.execute(select(locks.c.key_lock)).scalars())
    missing = [{"key_lock": number} for number in range(LOCKS + 1) if number not in there]
    if not missing:
        return
    written = insert(locks)
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects.postgresql import insert as insert_postgresql

        written = insert_postgresql(locks).on_conflict_do_nothing()
    else:
        word = "OR IGNORE" if connection.dialect.name == "sqlite" else "IGNORE"
        written = written.prefix_with(word)
    connection.execute(written, missing)


def try_locks(outbox: Outbox, connection: Connection, numbers: Sequence[int]) -> list[int]:
    """Those of the locks that were free, and are now locked until the transaction ends."""
    column = outbox.locks.c.key_lock
    free = select(column).where(column.in_(numbers)).with_for_update(skip_locked=True)
    return list(connection.execute(free).scalars())


def wait_for_locks(outbox: Outbox, connection: Connection, numbers: Sequence[int]) -> None:
    """Lock all of them, after relays that have them; in one order, so that two callers do not block each
    other.
    """
    column = outbox.locks.c.key_lock
    if connection.dialect.name == "sqlite":
        # Its transaction begins with what writes; this writes, and changes nothing.
        connection.execute(outbox.locks.update().where(column == HOUSEKEEPING).values(key_lock=HOUSEKEEPING))
        return
    locked = select(column).where(column.in_(numbers)).order_by(column).with_for_update()
    connection.execute(locked).all()


class FileLock:
    """The lock of all relays of one SQLite database; a database in memory needs none."""

    def __init__(self, path: str | None) -> None:
        self._path = f"{path}-relay" if path else None
        self._held: sqlite3.Connection | None = None

    @staticmethod
    def beside(connection: Connection) -> FileLock:
        """The lock that belongs to the database of a connection."""
        rows = connection.execute(text("PRAGMA database_list")).all()
        return FileLock(next((str(row[2]) for row in rows if row[1] == "main"), None))

    def acquire(self) -> bool:
        """True if it is this relay's now. Raises OSError where no file can be made."""
        if self._path is None:
            return True
        try:
            held = sqlite3.connect(self._path, timeout=0, isolation_level=None, check_same_thread=False)
        except sqlite3.OperationalError as error:
            raise OSError(f"{self._path}: {error}") from None
        try:
            held.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            held.close()
            if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
                return False
            raise OSError(f"{self._path}: {error}") from None
        self._held = held
        return True

    def release(self) -> None:
        """Give it back; without it, do nothing."""
        held, self._held = self._held, None
        if held is not None:
            with contextlib.suppress(sqlite3.Error):
                held.close()
