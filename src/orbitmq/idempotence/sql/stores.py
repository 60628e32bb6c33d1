"""The stores: they open the session or connection, hand it to the handler, and commit."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

from orbitmq.client import InvalidArgument
from orbitmq.client.core.checking import check_number, shown
from orbitmq.idempotence.both_forms import Of, at_once, awaited, given, plain
from orbitmq.idempotence.contract import DEFAULT_RETENTION_HOURS, PURGE_BATCH, AsyncOf, Claim
from orbitmq.idempotence.keys import Entry
from orbitmq.idempotence.rows import TABLE
from orbitmq.idempotence.sql.table import handled_messages

# isort: split
# The module above names the extra where SQLAlchemy is missing.
from sqlalchemy import Connection, Engine, MetaData, Table
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession, async_sessionmaker
from sqlalchemy.orm import Session, sessionmaker

from orbitmq.idempotence.sql.claiming import Statements
from orbitmq.idempotence.sql.failures import translated
from orbitmq.idempotence.sql.guarding import TransactionGuard

R = TypeVar("R")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class _Base:
    def __init__(self, bind: object, table: str, schema: str | None, retention_hours: float) -> None:
        check_number(type(self).__name__, "retention_hours", retention_hours, 0)
        for part, name in (("table", table), ("schema", schema)):
            if name is not None and not (isinstance(name, str) and name):
                raise InvalidArgument(f"{type(self).__name__}: {part} has to be a name, not {shown(name)}")
        self._bind: Any = bind
        self.retention_hours = retention_hours
        self.table: Table = handled_messages(MetaData(), table, schema)
        """The table, in a MetaData of its own."""
        self._statements = Statements(self.table)

    async def _purge(self, now_ms: int, in_transaction: Callable[..., Any], of: Of) -> int:
        limit_ms, deleted = int(now_ms - self.retention_hours * 3_600_000), 0
        while True:
            work = partial(self._statements.purge, limit_ms=limit_ms)
            batch: int = await of(in_transaction(work))
            deleted += batch
            if batch < PURGE_BATCH:
                return deleted

    @contextlib.contextmanager
    def _translating(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            known = translated(error, self.table.fullname)
            if known is None:
                raise
            raise known from error

    @contextlib.asynccontextmanager
    async def _transaction(self, of: Of) -> AsyncIterator[tuple[Any, Any]]:
        """A transaction of the block: the session or connection that handlers get, and the connection."""
        async with contextlib.AsyncExitStack() as opened:
            with self._translating():
                makes_sessions = isinstance(self._bind, sessionmaker | async_sessionmaker)
                target = self._bind() if makes_sessions else self._bind.connect()
                if isinstance(target, AsyncSession | AsyncConnection):
                    await opened.enter_async_context(target)
                else:
                    opened.enter_context(target)
                await of(target.begin())
                connection = await of(target.connection()) if makes_sessions else target
            guard = TransactionGuard(getattr(connection, "sync_connection", None) or connection)
            try:
                yield target, connection
                if makes_sessions:
                    await of(target.flush())  # the handler's writes: their errors are the handler's
                guard.check()
            except BaseException:
                guard.lift()
                with contextlib.suppress(Exception):  # the connection may be gone: nothing was committed
                    await of(target.rollback())
                raise
            with self._translating():
                guard.lift()
                await of(target.commit())

    def _claim(self, connection: Connection, entries: Sequence[Entry]) -> list[Claim]:
        with self._translating():
            return self._statements.claim(connection, entries, _now_ms())


class SqlAlchemyStore(_Base):
    """Keys in a table of the user's database, for plain handlers.

    `bind` is a `sessionmaker`, and handlers get `(message, session)`, or an `Engine`, and they get
    `(message, connection)`. The store begins the transaction, inserts the key, calls the handler and commits.
    If the handler raises or returns `Retry`, everything is rolled back. A handler that commits or rolls back
    itself is an error (TransactionEnded); savepoints (`begin_nested`) are its own.

    `schema` is the database's schema of the table, `retention_hours` the time for which keys are kept (a
    week). Raises InvalidArgument.
    """

    _bind: Engine | sessionmaker[Session]

    def __init__(
        self,
        bind: Engine | sessionmaker[Session],
        *,
        table: str = TABLE,
        schema: str | None = None,
        retention_hours: float = DEFAULT_RETENTION_HOURS,
    ) -> None:
        if not isinstance(bind, Engine | sessionmaker):
            raise InvalidArgument(
                f"SqlAlchemyStore: bind has to be an Engine or a sessionmaker, not {shown(bind)}; "
                "for async engines there is AsyncSqlAlchemyStore"
            )
        super().__init__(bind, table, schema, retention_hours)

    @contextlib.contextmanager
    def unit(self) -> Iterator[_Unit]:
        """A transaction."""
        with plain(self._transaction(given)) as (target, connection):
            yield _Unit(self, target, connection)

    def claim_in(self, transaction: Session | Connection, entries: Sequence[Entry]) -> list[Claim]:
        """Claim entries in a transaction of the caller's: see `Once.claim`."""
        if not isinstance(transaction, Session | Connection):
            raise InvalidArgument(f"claim: a Session or a Connection is needed, not {shown(transaction)}")
        with self._translating():
            connection = transaction.connection() if isinstance(transaction, Session) else transaction
        return self._claim(connection, entries)

    def _in_transaction(self, work: Callable[[Connection], R]) -> R:
        with self._translating():
            if isinstance(self._bind, sessionmaker):
                with self._bind() as session, session.begin():
                    return work(session.connection())
            with self._bind.begin() as connection:
                return work(connection)

    def create_table(self) -> None:
        """Create the table if it is not there: for tests and first steps, where no migrations run."""
        self._in_transaction(lambda connection: self.table.metadata.create_all(connection))

    def purge(self, now_ms: int) -> int:
        """Delete keys past their retention, 500 in a transaction; gives their number."""
        return at_once(self._purge(now_ms, self._in_transaction, given))

    def count(self) -> int:
        """Number of keys."""
        return self._in_transaction(self._statements.count)


class _Unit:
    def __init__(self, store: _Base, target: object, connection: Connection) -> None:
        self._store = store
        self._connection = connection
        self.arguments: tuple[Any, ...] = (target,)

    def claim(self, entries: Sequence[Entry]) -> list[Claim]:
        return self._store._claim(self._connection, entries)

    def keep(self, entry: Entry, result: str) -> None:
        self._store._statements.keep(self._connection, entry, result)

    def release(self, entries: Sequence[Entry]) -> None:
        self._store._statements.release(self._connection, entries)


class AsyncSqlAlchemyStore(_Base):
    """The same for async handlers: `bind` is an `async_sessionmaker` or an `AsyncEngine`, and handlers get an
    `AsyncSession` or an `AsyncConnection`.
    """

    _bind: AsyncEngine | async_sessionmaker[AsyncSession]

    def __init__(
        self,
        bind: AsyncEngine | async_sessionmaker[AsyncSession],
        *,
        table: str = TABLE,
        schema: str | None = None,
        retention_hours: float = DEFAULT_RETENTION_HOURS,
    ) -> None:
        if not isinstance(bind, AsyncEngine | async_sessionmaker):
            raise InvalidArgument(
                "AsyncSqlAlchemyStore: bind has to be an AsyncEngine or an async_sessionmaker, "
                f"not {shown(bind)}; for plain engines there is SqlAlchemyStore"
            )
        super().__init__(bind, table, schema, retention_hours)

    @contextlib.asynccontextmanager
    async def async_unit(self) -> AsyncIterator[AsyncOf]:
        """A transaction."""
        async with self._transaction(awaited) as (target, connection):
            sync_connection = connection.sync_connection
            assert sync_connection is not None

            def run(work: Callable[..., Any], *arguments: Any) -> Awaitable[Any]:
                made: Awaitable[Any] = connection.run_sync(lambda _: work(*arguments))
                return made

            yield AsyncOf(_Unit(self, target, sync_connection), run)

    async def async_claim_in(
        self, transaction: AsyncSession | AsyncConnection, entries: Sequence[Entry]
    ) -> list[Claim]:
        """Claim entries in a transaction of the caller's: see `Once.async_claim`."""
        if not isinstance(transaction, AsyncSession | AsyncConnection):
            raise InvalidArgument(
                f"async_claim: an AsyncSession or an AsyncConnection is needed, not {shown(transaction)}"
            )
        with self._translating():
            connection = (
                await transaction.connection() if isinstance(transaction, AsyncSession) else transaction
            )
        return await connection.run_sync(self._claim, entries)

    async def _in_transaction(self, work: Callable[[Connection], R]) -> R:
        with self._translating():
            if isinstance(self._bind, async_sessionmaker):
                async with self._bind() as session, session.begin():
                    return await (await session.connection()).run_sync(work)
            async with self._bind.begin() as connection:
                return await connection.run_sync(work)

    async def create_table(self) -> None:
        """Create the table if it is not there: for tests and first steps, where no migrations run."""
        await self._in_transaction(lambda connection: self.table.metadata.create_all(connection))

    async def async_purge(self, now_ms: int) -> int:
        """Delete keys past their retention, 500 in a transaction; gives their number."""
        return await self._purge(now_ms, self._in_transaction, awaited)

    async def async_count(self) -> int:
        """Number of keys."""
        return await self._in_transaction(self._statements.count)
