"""The store: it opens an atomic block, inserts the key, calls the handler, and commits."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import Any

from orbitmq.client import InvalidArgument
from orbitmq.client.core.checking import check_number, shown
from orbitmq.driver_errors import (
    MYSQL_DUPLICATE,
    MYSQL_LOCK_WAIT,
    is_conflict_of_transactions,
    is_locked,
    is_missing_table,
    number_of,
)
from orbitmq.extras import lacking
from orbitmq.idempotence.contract import (
    CLAIMED,
    DEFAULT_RETENTION_HOURS,
    IN_FLIGHT,
    PURGE_BATCH,
    Claim,
    State,
)
from orbitmq.idempotence.endings import refuse_end
from orbitmq.idempotence.errors import StoreUnavailable, TableMissing, TransactionEnded
from orbitmq.idempotence.keys import Entry
from orbitmq.idempotence.rows import COLUMNS, SQLITE_WAIT_MS, TABLE, lock_number, row_of

try:
    from django.db import (
        DEFAULT_DB_ALIAS,
        DatabaseError,
        IntegrityError,
        InterfaceError,
        OperationalError,
        close_old_connections,
        connections,
        transaction,
    )
except ModuleNotFoundError:
    raise InvalidArgument(lacking("DjangoStore", "django", "django")) from None

_VALUES = ", ".join(["%s"] * len(COLUMNS))
_INSERT = f"INSERT INTO {TABLE} ({', '.join(COLUMNS)}) VALUES ({_VALUES})"
_CAST = ", ".join(["%s::varchar"] * (len(COLUMNS) - 1) + ["%s::bigint"])
_INSERT_POSTGRESQL = (
    f"INSERT INTO {TABLE} ({', '.join(COLUMNS)}) SELECT {_CAST} WHERE pg_try_advisory_xact_lock(%s) "
    "ON CONFLICT DO NOTHING"
)
_KNOWN = f"SELECT id, message_id, fingerprint, result FROM {TABLE} WHERE id = %s"

ROLLED_BACK = (
    "the handler marked the atomic block of `once` for rollback (set_rollback, or an error of the database "
    "that it caught outside of an atomic block of its own), and then returned as if it were done: raise, or "
    "return Retry(), to have the message come again; nothing was committed"
)


class DjangoStore:
    """Keys in a table of Django's database `using`, for plain handlers; the app has to be migrated.

    Handlers get the message alone. They run in `transaction.atomic(using, durable=True)`: Django refuses a
    commit in it, and `atomic` blocks within it are savepoints. `ATOMIC_REQUESTS` does not matter.
    """

    def __init__(
        self, using: str = DEFAULT_DB_ALIAS, *, retention_hours: float = DEFAULT_RETENTION_HOURS
    ) -> None:
        if not isinstance(using, str) or not using:
            raise InvalidArgument(f"DjangoStore: using has to be the alias of a database, not {shown(using)}")
        check_number("DjangoStore", "retention_hours", retention_hours, 0)
        self.using = using
        self.retention_hours = retention_hours

    @contextlib.contextmanager
    def unit(self) -> Iterator[_Unit]:
        """An atomic block."""
        # Threads of a consumer live long; requests would do the same at their beginning and end.
        close_old_connections()
        try:
            with self._translating_commit() as translating, transaction.atomic(self.using, durable=True):
                translating.append(False)
                with connections[self.using].execute_wrapper(_guarding):
                    yield _Unit(self)
                if transaction.get_rollback(self.using):
                    raise TransactionEnded(ROLLED_BACK)
                translating.append(True)
        finally:
            close_old_connections()

    @contextlib.contextmanager
    def _translating_commit(self) -> Iterator[list[bool]]:
        """Errors of the database at the beginning and the end of the block, not those of the handler."""
        translating = [True]
        try:
            yield translating
        except (DatabaseError, InterfaceError) as error:
            if translating[-1]:
                raise self._translated(error) from error
            raise

    def claim_in(self, alias: str, entries: Sequence[Entry]) -> list[Claim]:
        """Claim entries in an atomic block of the caller's: see `Once.claim`."""
        if alias != self.using:
            raise InvalidArgument(
                f"claim: this store is of the database {self.using!r}: pass that, not {shown(alias)}"
            )
        if not connections[self.using].in_atomic_block:
            raise InvalidArgument(
                "claim: an atomic block is needed, or the key would be committed before the handler's writes"
            )
        return self.claim(entries)

    def claim(self, entries: Sequence[Entry]) -> list[Claim]:
        """Claim entries in the present atomic block."""
        connection = connections[self.using]
        claim = _VENDORS.get(connection.vendor)
        if claim is None:
            raise InvalidArgument(
                f"DjangoStore knows PostgreSQL, MySQL, MariaDB and SQLite, not {connection.vendor}"
            )
        try:
            with connection.cursor() as cursor:
                return claim(connection, cursor, entries, time.time_ns() // 1_000_000)
        except (DatabaseError, InterfaceError) as error:
            if is_conflict_of_transactions(error.__cause__):
                return [IN_FLIGHT] * len(entries)
            raise self._translated(error) from error

    def _translated(self, error: Exception) -> Exception:
        if is_missing_table(error.__cause__ or error):
            return TableMissing(
                f"table {TABLE} does not exist in database {self.using!r}: add orbitmq.idempotence.django to "
                "INSTALLED_APPS and run manage.py migrate"
            )
        if isinstance(error, OperationalError | InterfaceError):
            lines = str(error).strip().splitlines()
            return StoreUnavailable(
                f"the database {self.using!r} cannot be reached, or does not answer: "
                f"{lines[0] if lines else error!r}; messages wait in the consumer until it does"
            )
        return error

    def keep(self, entry: Entry, result: str) -> None:
        """Keep the result of a claimed entry."""
        with connections[self.using].cursor() as cursor:
            cursor.execute(f"UPDATE {TABLE} SET result = %s WHERE id = %s", [result, entry.id])

    def release(self, entries: Sequence[Entry]) -> None:
        """Delete rows that were inserted in this atomic block."""
        with connections[self.using].cursor() as cursor:
            for entry in entries:
                cursor.execute(f"DELETE FROM {TABLE} WHERE id = %s", [entry.id])

    def purge(self, now_ms: int) -> int:
        """Delete keys past their retention, 500 in a transaction; gives their number."""
        limit_ms, deleted = int(now_ms - self.retention_hours * 3_600_000), 0
        close_old_connections()
        try:
            while True:
                batch = self._purge_batch(limit_ms)
                deleted += batch
                if batch < PURGE_BATCH:
                    return deleted
        except (DatabaseError, InterfaceError) as error:
            raise self._translated(error) from error
        finally:
            close_old_connections()

    def _purge_batch(self, limit_ms: int) -> int:
        connection = connections[self.using]
        skip = "" if connection.vendor == "sqlite" else " FOR UPDATE SKIP LOCKED"
        old = f"SELECT id FROM {TABLE} WHERE done_at_ms < %s ORDER BY done_at_ms LIMIT {PURGE_BATCH}{skip}"
        with transaction.atomic(self.using), connection.cursor() as cursor:
            cursor.execute(old, [limit_ms])
            ids = [row[0] for row in cursor.fetchall()]
            if ids:
                places = ", ".join(["%s"] * len(ids))
                cursor.execute(f"DELETE FROM {TABLE} WHERE id IN ({places})", ids)
        return len(ids)

    def count(self) -> int:
        """Number of keys."""
        try:
            with connections[self.using].cursor() as cursor:
                cursor.execute(f"SELECT count(*) FROM {TABLE}")
                return int(cursor.fetchone()[0])
        except (DatabaseError, InterfaceError) as error:
            raise self._translated(error) from error
        finally:
            close_old_connections()


def _guarding(execute: Any, statement: object, values: Any, many: bool, context: dict[str, Any]) -> Any:
    if isinstance(statement, str):  # psycopg composes others, of parts of statements
        refuse_end(statement, is_mysql=context["connection"].vendor == "mysql")
    return execute(statement, values, many, context)


class _Unit:
    arguments: tuple[Any, ...] = ()

    def __init__(self, store: DjangoStore) -> None:
        self.claim = store.claim
        self.keep = store.keep
        self.release = store.release


def _known(cursor: Any, entry: Entry, suffix: str = "") -> Claim:
    cursor.execute(_KNOWN + suffix, [entry.id])
    row = cursor.fetchone()
    return IN_FLIGHT if row is None else Claim(State.DONE, row[1], row[2], row[3])


def _postgresql(_: Any, cursor: Any, entries: Sequence[Entry], now_ms: int) -> list[Claim]:
    claims = []
    for entry in entries:
        cursor.execute(_INSERT_POSTGRESQL, [*row_of(entry, now_ms).values(), lock_number(entry)])
        claims.append(CLAIMED if cursor.rowcount == 1 else _known(cursor, entry))
    return claims


def _sqlite(_: Any, cursor: Any, entries: Sequence[Entry], now_ms: int) -> list[Claim]:
    cursor.execute("PRAGMA busy_timeout")
    waits_ms = int(cursor.fetchone()[0])
    cursor.execute(f"PRAGMA busy_timeout = {min(SQLITE_WAIT_MS, waits_ms)}")
    claims = []
    try:
        for entry in entries:
            cursor.execute(f"{_INSERT} ON CONFLICT DO NOTHING", list(row_of(entry, now_ms).values()))
            claims.append(CLAIMED if cursor.rowcount == 1 else _known(cursor, entry))
    except OperationalError as error:
        if not is_locked(error.__cause__):
            raise
        return [IN_FLIGHT] * len(entries)
    finally:
        cursor.execute(f"PRAGMA busy_timeout = {waits_ms}")
    return claims


def _mysql(connection: Any, cursor: Any, entries: Sequence[Entry], now_ms: int) -> list[Claim]:
    waits_s = None
    insert = f"SET STATEMENT innodb_lock_wait_timeout=0 FOR {_INSERT}"
    if not connection.mysql_is_mariadb:
        cursor.execute("SELECT @@SESSION.innodb_lock_wait_timeout")
        waits_s, insert = int(cursor.fetchone()[0]), _INSERT
        cursor.execute("SET SESSION innodb_lock_wait_timeout = 1")
    claims = []
    try:
        for entry in entries:
            try:
                cursor.execute(insert, list(row_of(entry, now_ms).values()))
            except (IntegrityError, OperationalError) as error:
                number = number_of(error.__cause__)
                if number not in (MYSQL_DUPLICATE, MYSQL_LOCK_WAIT):
                    raise
                duplicate = number == MYSQL_DUPLICATE
                claims.append(_known(cursor, entry, " LOCK IN SHARE MODE") if duplicate else IN_FLIGHT)
            else:
                claims.append(CLAIMED)
        if CLAIMED in claims and IN_FLIGHT in claims:
            # With innodb_rollback_on_timeout the server has rolled back the rows before, too.
            mine = [entry for entry, claim in zip(entries, claims, strict=True) if claim is CLAIMED]
            if any(_known(cursor, entry) is IN_FLIGHT for entry in mine):
                return [IN_FLIGHT] * len(entries)
    finally:
        if waits_s is not None:
            cursor.execute(f"SET SESSION innodb_lock_wait_timeout = {waits_s}")
    return claims


_VENDORS = {"postgresql": _postgresql, "sqlite": _sqlite, "mysql": _mysql}
