"""Claims in a transaction: the row is inserted first, without a wait for a row that another one holds.

- PostgreSQL: an advisory lock of the transaction is tried in the same statement that inserts.
- MariaDB: the insert itself does not wait for the lock of a row. MySQL cannot say so for one statement: it
  waits for a second, the shortest time that it knows. To read the row with NOWAIT first would lock the gap in
  which others insert their keys; GET_LOCK would outlive the transaction.
- SQLite lets one transaction write at a time: the insert waits for 50 ms for that one to end.

Each of them ends with the transaction, and with the connection of a process that died.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import BigInteger, Connection, Table, bindparam, delete, func, insert, select, text
from sqlalchemy.dialects.postgresql import insert as insert_postgresql
from sqlalchemy.dialects.sqlite import insert as insert_sqlite
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError

from orbitmq.client import InvalidArgument
from orbitmq.driver_errors import (
    MYSQL_DUPLICATE,
    MYSQL_LOCK_WAIT,
    is_conflict_of_transactions,
    is_locked,
    number_of,
)
from orbitmq.idempotence.contract import CLAIMED, IN_FLIGHT, PURGE_BATCH, Claim, State
from orbitmq.idempotence.keys import Entry
from orbitmq.idempotence.rows import COLUMNS, SQLITE_WAIT_MS, lock_number, row_of


class Statements:
    """The statements for one table, built once."""

    def __init__(self, table: Table) -> None:
        self.table = table
        values = {name: bindparam(name, type_=table.c[name].type) for name in COLUMNS}
        self.insert = insert(table).values(values)
        free = func.pg_try_advisory_xact_lock(bindparam("lock", type_=BigInteger()))
        self.insert_postgresql = (
            insert_postgresql(table)
            .from_select(list(COLUMNS), select(*values.values()).where(free))
            .on_conflict_do_nothing()
            .returning(table.c.id)
        )
        self.insert_sqlite = insert_sqlite(table).values(values).on_conflict_do_nothing()
        self._known = select(table.c.id, table.c.message_id, table.c.fingerprint, table.c.result)

    def claim(self, connection: Connection, entries: Sequence[Entry], now_ms: int) -> list[Claim]:
        """Claim entries in the connection's transaction. Raises errors of the database."""
        claim = _DIALECTS.get(connection.dialect.name)
        if claim is None:
            raise InvalidArgument(
                "orbitmq.idempotence knows PostgreSQL, MySQL, MariaDB and SQLite, "
                f"not {connection.dialect.name}"
            )
        if _commits_itself(connection):
            raise InvalidArgument(
                "orbitmq.idempotence needs a transaction, and this connection is in AUTOCOMMIT: the key "
                "would be committed before the handler's writes"
            )
        try:
            return claim(self, connection, entries, now_ms)
        except DBAPIError as error:
            if is_conflict_of_transactions(error.orig):
                return [IN_FLIGHT] * len(entries)
            raise

    def known(self, connection: Connection, entries: Sequence[Entry], *, locked: bool = False) -> list[Claim]:
        """The claims of entries that could not be inserted: done if their rows can be seen."""
        query = self._known.where(self.table.c.id.in_([entry.id for entry in entries]))
        if locked:
            # The latest rows, also where the transaction reads from an older snapshot.
            query = query.with_for_update(read=True)
        rows = {row.id: row for row in connection.execute(query)}
        return [
            IN_FLIGHT
            if (row := rows.get(entry.id)) is None
            else Claim(State.DONE, row.message_id, row.fingerprint, row.result)
            for entry in entries
        ]

    def keep(self, connection: Connection, entry: Entry, result: str) -> None:
        """Keep the result of a claimed entry."""
        table = self.table
        connection.execute(table.update().where(table.c.id == entry.id).values(result=result))

    def release(self, connection: Connection, entries: Sequence[Entry]) -> None:
        """Delete rows that were inserted in this transaction."""
        table = self.table
        connection.execute(delete(table).where(table.c.id.in_([entry.id for entry in entries])))

    def purge(self, connection: Connection, limit_ms: int) -> int:
        """Delete the oldest rows before a time, up to `PURGE_BATCH` of them; gives their number."""
        table = self.table
        old = (
            select(table.c.id)
            .where(table.c.done_at_ms < limit_ms)
            .order_by(table.c.done_at_ms)
            .limit(PURGE_BATCH)
        )
        if connection.dialect.name != "sqlite":
            old = old.with_for_update(skip_locked=True)
        ids = list(connection.execute(old).scalars())
        if ids:
            connection.execute(delete(table).where(table.c.id.in_(ids)))
        return len(ids)

    def count(self, connection: Connection) -> int:
        """Number of rows."""
        return int(connection.execute(select(func.count()).select_from(self.table)).scalar_one())


def _commits_itself(connection: Connection) -> bool:
    """True if each statement of this connection is committed at once. Asks the driver, not the server."""
    if connection.dialect.name == "sqlite":
        # Its driver leaves the transaction to the program in this state, as savepoints need it.
        return connection.get_execution_options().get("isolation_level") == "AUTOCOMMIT"
    ask = getattr(connection.dialect, "detect_autocommit_setting", None)
    if ask is None:
        return connection.get_execution_options().get("isolation_level") == "AUTOCOMMIT"
    return bool(ask(connection.connection.dbapi_connection))


def _postgresql(
    statements: Statements, connection: Connection, entries: Sequence[Entry], now_ms: int
) -> list[Claim]:
    def insert_one(entry: Entry) -> bool:
        values = {**row_of(entry, now_ms), "lock": lock_number(entry)}
        return connection.execute(statements.insert_postgresql, values).first() is not None

    return _each(statements, connection, entries, insert_one)


def _sqlite(
    statements: Statements, connection: Connection, entries: Sequence[Entry], now_ms: int
) -> list[Claim]:
    waits_ms = connection.exec_driver_sql("PRAGMA busy_timeout").scalar_one()
    connection.exec_driver_sql(f"PRAGMA busy_timeout = {min(SQLITE_WAIT_MS, int(waits_ms))}")
    try:
        return _each(
            statements,
            connection,
            entries,
            lambda entry: connection.execute(statements.insert_sqlite, row_of(entry, now_ms)).rowcount == 1,
        )
    except OperationalError as error:
        if not is_locked(error.orig):
            raise
        return [IN_FLIGHT] * len(entries)
    finally:
        connection.exec_driver_sql(f"PRAGMA busy_timeout = {int(waits_ms)}")


def _mysql(
    statements: Statements, connection: Connection, entries: Sequence[Entry], now_ms: int
) -> list[Claim]:
    busy: set[str] = set()
    at_once = getattr(connection.dialect, "is_mariadb", False)
    waits_s = 0
    if at_once:
        compiled = statements.insert.compile(dialect=connection.dialect)
        written = text(f"SET STATEMENT innodb_lock_wait_timeout=0 FOR {_named(compiled)}")
    else:
        written = statements.insert  # type: ignore[assignment]
        waits_s = int(connection.execute(text("SELECT @@SESSION.innodb_lock_wait_timeout")).scalar_one())
        connection.execute(text("SET SESSION innodb_lock_wait_timeout = 1"))

    def insert_one(entry: Entry) -> bool:
        try:
            connection.execute(written, row_of(entry, now_ms))
        except IntegrityError as error:
            if number_of(error.orig) != MYSQL_DUPLICATE:
                raise
            return False
        except OperationalError as error:
            if number_of(error.orig) != MYSQL_LOCK_WAIT:
                raise
            busy.add(entry.id)
            return False
        return True

    try:
        claims = _each(statements, connection, entries, insert_one, busy=busy, locked=True)
    finally:
        if not at_once and not connection.invalidated:
            connection.execute(text(f"SET SESSION innodb_lock_wait_timeout = {waits_s}"))
    claimed = [entry for entry, claim in zip(entries, claims, strict=True) if claim is CLAIMED]
    if busy and claimed:
        # With innodb_rollback_on_timeout the server has rolled back the rows before, too.
        there = statements.known(connection, claimed)
        if any(claim is IN_FLIGHT for claim in there):
            return [IN_FLIGHT] * len(entries)
    return claims


def _named(compiled: Any) -> str:
    """The text of a statement with parameters as `text` takes them."""
    names = ", ".join(f":{name}" for name in COLUMNS)
    quoted = compiled.preparer
    columns = ", ".join(quoted.quote(name) for name in COLUMNS)
    return f"INSERT INTO {quoted.format_table(compiled.statement.table)} ({columns}) VALUES ({names})"


def _each(
    statements: Statements,
    connection: Connection,
    entries: Sequence[Entry],
    insert_one: Callable[[Entry], bool],
    *,
    busy: set[str] | None = None,
    locked: bool = False,
) -> list[Claim]:
    """The claims of entries that are inserted one by one; those that are there already are looked up."""
    inserted = {entry.id for entry in entries if insert_one(entry)}
    if len(inserted) == len(entries):
        return [CLAIMED] * len(entries)
    left = [entry for entry in entries if entry.id not in inserted and entry.id not in (busy or ())]
    known = dict(
        zip(
            (entry.id for entry in left),
            statements.known(connection, left, locked=locked) if left else (),
            strict=True,
        )
    )
    return [CLAIMED if entry.id in inserted else known.get(entry.id, IN_FLIGHT) for entry in entries]


_DIALECTS = {"postgresql": _postgresql, "sqlite": _sqlite, "mysql": _mysql, "mariadb": _mysql}
