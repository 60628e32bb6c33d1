"""Errors of SQLAlchemy as errors of a store."""

from __future__ import annotations

from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from orbitmq.driver_errors import is_locked, is_missing_table
from orbitmq.idempotence.errors import IdempotenceError, StoreUnavailable, TableMissing


def translated(error: Exception, table: str) -> IdempotenceError | None:
    """The error of a store for one of the database; None unless a table or the database is away."""
    if isinstance(error, DBAPIError) and is_missing_table(error.orig):
        return TableMissing(
            f"table {table} does not exist: create it with a migration "
            "(orbitmq.idempotence.sql.table.upgrade) or store.create_table()"
        )
    if isinstance(error, DBAPIError) and is_locked(error.orig):
        return StoreUnavailable(
            f"the database of {table} is locked by another writer, or by a reader: SQLite lets one write "
            "at a time; PRAGMA journal_mode = WAL keeps readers out of it"
        )
    if isinstance(error, OperationalError | InterfaceError | PoolTimeout | OSError) or (
        isinstance(error, DBAPIError) and error.connection_invalidated
    ):
        reason = str(getattr(error, "orig", None) or error).strip().splitlines()
        return StoreUnavailable(
            f"the database of {table} cannot be reached, or does not answer: "
            f"{reason[0] if reason else error!r}; messages wait in the consumer until it does"
        )
    return None
