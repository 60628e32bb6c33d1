"""Errors of databases' drivers by their meaning: one place that knows the numbers of each."""

from __future__ import annotations

from typing import Any

POSTGRESQL_NO_TABLE = ("42P01", "3F000")
MYSQL_NO_TABLE = (1146, 1049)
CONFLICTS = ("40001", "40P01")
"""Serialization failure, deadlock."""
MYSQL_DEADLOCK = 1213
MYSQL_DUPLICATE = 1062
MYSQL_LOCK_WAIT = 1205
SQLITE_BUSY = (5, 6)


def number_of(error: Any) -> int | None:
    """The number of an error of MySQL's or SQLite's drivers, or None."""
    found = getattr(error, "sqlite_errorcode", None)
    if isinstance(found, int):
        return found
    arguments = getattr(error, "args", ())
    return arguments[0] if arguments and isinstance(arguments[0], int) else None


def state_of(error: Any) -> str | None:
    """The SQLSTATE of an error of PostgreSQL's drivers, or None."""
    state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    return state if isinstance(state, str) else None


def is_locked(error: Any) -> bool:
    """True if SQLite could not get a lock in time."""
    number = getattr(error, "sqlite_errorcode", None)
    return number & 0xFF in SQLITE_BUSY if isinstance(number, int) else "database is locked" in str(error)


def is_conflict_of_transactions(error: Any) -> bool:
    """True if the database gave this transaction up in favour of another one."""
    return state_of(error) in CONFLICTS or number_of(error) == MYSQL_DEADLOCK


def is_missing_table(error: Any) -> bool:
    """True if the table or its schema does not exist."""
    if state_of(error) in POSTGRESQL_NO_TABLE or number_of(error) in MYSQL_NO_TABLE:
        return True
    return "no such table" in str(error)
