"""Stores in SQL: key and effect are one transaction, on every database, plain and async."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, String, create_engine, event, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, sessionmaker
from sqlalchemy.pool import NullPool

from orbitmq.client import HoldBack, InvalidArgument, ReceivedMessage, Reply, Retry
from orbitmq.idempotence import (
    AsyncSqlAlchemyStore,
    Event,
    KeyConflict,
    Once,
    SqlAlchemyStore,
    StoreUnavailable,
    TableMissing,
    TransactionEnded,
    once,
)
from tests.kit.client_messages import received
from tests.kit.databases import mariadb_server, postgres_server

Work = Callable[[Connection], Any]
DRIVERS = ["pysqlite", "aiosqlite", "psycopg", "asyncpg", "pymysql", "aiomysql", "mysql"]
ASYNC = ("aiosqlite", "asyncpg", "aiomysql")


class Database:
    """One driver's database, with a table of effects, and a store over it."""

    def __init__(self, driver: str, kind: str, folder: Path) -> None:
        self.is_async = driver in ASYNC
        self.is_sqlite = "sqlite" in driver
        if self.is_sqlite:
            url = f"sqlite+{driver}:///{folder / 'test.db'}"
        elif driver in ("psycopg", "asyncpg"):
            url = postgres_server().database(driver)
        else:
            url = mariadb_server().database("pymysql" if driver == "mysql" else driver)
        self.engine: Any = (
            create_async_engine(url, poolclass=NullPool) if self.is_async else create_engine(url)
        )
        sync_engine = self.engine.sync_engine if self.is_async else self.engine
        if driver == "mysql":
            # The way of MySQL, which cannot try a lock: on a server that is none.
            with self.engine.connect():
                self.engine.dialect.is_mariadb = False
        if self.is_sqlite:
            # As SQLAlchemy's page has it for savepoints.
            event.listen(sync_engine, "connect", _leave_transactions_to_sqlalchemy)
            event.listen(sync_engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
        sessions: Any = async_sessionmaker if self.is_async else sessionmaker
        self.bind = sessions(self.engine) if kind == "session" else self.engine
        kind_of_store: Any = AsyncSqlAlchemyStore if self.is_async else SqlAlchemyStore
        self.store = kind_of_store(self.bind)

    async def make(self) -> None:
        await finished(self.store.create_table())
        await self.write(text("CREATE TABLE effects (name VARCHAR(50), note VARCHAR(50))"))

    async def write(self, statement: Any) -> None:
        if self.is_async:
            async with self.engine.begin() as connection:
                await connection.execute(statement)
        else:
            with self.engine.begin() as connection:
                connection.execute(statement)

    async def effects(self) -> list[str]:
        query = text("SELECT name FROM effects ORDER BY name")
        if self.is_async:
            async with self.engine.connect() as connection:
                return list((await connection.execute(query)).scalars())
        with self.engine.connect() as connection:
            return list(connection.execute(query).scalars())

    async def rows(self) -> int:
        return int(await finished((self.store.async_count if self.is_async else self.store.count)()))

    def handler(self, guard: Once, work: Callable[[Any, Any], Any]) -> Any:
        """`work` gets what a handler gets, but a plain session or connection in any case."""
        if not self.is_async:
            return guard(work)

        async def handle(given: Any, target: Any) -> Any:
            return await target.run_sync(lambda plain: work(given, plain))

        return guard(handle)

    async def run(self, handler: Any, given: Any) -> Any:
        return await finished(handler(given)) if self.is_async else await asyncio.to_thread(handler, given)

    async def purge(self, now_ms: int) -> int:
        return int(await finished((self.store.async_purge if self.is_async else self.store.purge)(now_ms)))

    async def close(self) -> None:
        await finished(self.engine.dispose())


def _leave_transactions_to_sqlalchemy(connection: Any, _: Any) -> None:
    connection.isolation_level = None


async def finished(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


@contextlib.asynccontextmanager
async def opened(driver: str, kind: str, folder: Path) -> AsyncIterator[Database]:
    database = Database(driver, kind, folder)
    try:
        await database.make()
        yield database
    finally:
        await database.close()


@pytest.fixture(params=["aiosqlite", "psycopg", "asyncpg", "pymysql"])
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    async with opened(request.param, "session", tmp_path) as one:
        yield one


def order(number: int, body: bytes = b"body", **properties: str) -> ReceivedMessage:
    return received(number, body, **{"UNIQ_KEY": f"ID{number}", **properties})


def guarded(database: Database, **options: Any) -> Once:
    return once(database.store, **{"group": "billing", "name": "charge", "busy_pause_ms": 7, **options})


def book(message: ReceivedMessage, target: Any, note: str = "") -> None:
    target.execute(
        text("INSERT INTO effects VALUES (:name, :note)"), {"name": message.message_id, "note": note}
    )


@pytest.mark.parametrize("kind", ["session", "connection"])
@pytest.mark.parametrize("driver", DRIVERS)
async def test_key_and_effect_are_committed_together_and_once(driver: str, kind: str, tmp_path: Path) -> None:
    async with opened(driver, kind, tmp_path) as database:
        guard = guarded(database, keep_result=True)

        def work(message: ReceivedMessage, target: Any) -> Reply:
            book(message, target)
            return Reply(b"\xff" + message.message_id.encode())

        handler = database.handler(guard, work)
        first, again = await database.run(handler, order(1)), await database.run(handler, order(1))
        assert first.body == again.body == b"\xffID1"
        await database.run(handler, order(2))
        assert await database.effects() == ["ID1", "ID2"]
        assert (guard.counts[Event.HANDLED], guard.counts[Event.DUPLICATE]) == (2, 1)
        with pytest.raises(KeyConflict):
            await database.run(handler, order(1, b"other"))
        assert await database.rows() == 2


@pytest.mark.parametrize("how", ["raises", "returns Retry", "raises Retry"])
async def test_a_failure_leaves_neither_key_nor_effect(database: Database, how: str) -> None:
    failing = [True]

    def work(message: ReceivedMessage, target: Any) -> Any:
        book(message, target)
        if not failing:
            return None
        failing.clear()
        if how == "raises":
            raise ValueError("no")
        if how == "raises Retry":
            raise Retry(2)
        return Retry(2)

    handler = database.handler(guarded(database), work)
    with pytest.raises(ValueError, match="no") if how == "raises" else contextlib.nullcontext():
        assert await database.run(handler, order(1)) == Retry(2)
    assert await database.effects() == []
    assert await database.rows() == 0
    assert await database.run(handler, order(1)) is None
    assert await database.effects() == ["ID1"]


@pytest.mark.parametrize("database", [*DRIVERS[1:5], "aiomysql", "mysql"], indirect=True)
async def test_a_second_delivery_meanwhile_does_not_wait(database: Database) -> None:
    began, end = threading.Event(), threading.Event()

    def work(message: ReceivedMessage, target: Any) -> None:
        book(message, target)

    guard = guarded(database)
    slow: Any
    if database.is_async:

        @guard
        async def slow(message: ReceivedMessage, session: AsyncSession) -> None:
            await session.run_sync(lambda plain: book(message, plain))
            began.set()
            await asyncio.to_thread(end.wait, 60)
    else:

        @guard
        def slow(message: ReceivedMessage, session: Session) -> None:
            book(message, session)
            began.set()
            end.wait(60)

    handler = database.handler(guard, work)
    first = asyncio.create_task(database.run(slow, order(1)))
    await asyncio.to_thread(began.wait, 60)
    assert await database.run(handler, order(1)) == HoldBack(7)
    if not database.is_sqlite:
        # Others are not held up.
        assert await database.run(handler, order(2)) is None
        batch = [order(1), order(3)]
        in_batch = database.handler(
            guard, lambda messages, target: [book(one, target) for one in messages][:0] or None
        )
        assert await database.run(in_batch, batch) == HoldBack(7, messages=batch[:1])
    end.set()
    assert await first is None
    assert await database.run(handler, order(1)) is None
    assert await database.effects() == (["ID1"] if database.is_sqlite else ["ID1", "ID2", "ID3"])


@pytest.mark.parametrize(
    "how", ["commit", "commit, error swallowed", "rollback", "close", "COMMIT", "rollback -- all"]
)
@pytest.mark.parametrize("kind", ["session", "connection"])
@pytest.mark.parametrize("driver", ["pysqlite", "aiosqlite"])
async def test_a_handler_that_ends_the_transaction_is_an_error_and_nothing_is_committed(
    driver: str, kind: str, how: str, tmp_path: Path
) -> None:
    def work(message: ReceivedMessage, target: Any) -> None:
        book(message, target)
        if how == "commit":
            target.commit()
        elif how == "commit, error swallowed":
            with contextlib.suppress(TransactionEnded):
                target.commit()
        elif how == "rollback":
            target.rollback()
        elif how == "close":
            target.close()
        else:
            target.execute(text(how))

    async with opened(driver, kind, tmp_path) as database:
        handler = database.handler(guarded(database), work)
        with pytest.raises(TransactionEnded, match=r"nothing was committed"):
            await database.run(handler, order(1))
        assert await database.effects() == []
        assert await database.rows() == 0
        good = database.handler(guarded(database), book)
        assert await database.run(good, order(1)) is None
        assert await database.effects() == ["ID1"]


async def test_savepoints_are_the_handlers_own(database: Database) -> None:
    def work(message: ReceivedMessage, session: Session) -> None:
        book(message, session)
        with contextlib.suppress(ValueError), session.begin_nested():
            book(order(9), session)
            raise ValueError
        with session.begin_nested():
            book(order(2), session)

    handler = database.handler(guarded(database), work)
    assert await database.run(handler, order(1)) is None
    assert await database.run(handler, order(1)) is None
    assert await database.effects() == ["ID1", "ID2"]


async def test_a_batch_is_one_transaction_and_releases_what_comes_again(database: Database) -> None:
    failing = True

    def work(messages: list[ReceivedMessage], session: Session) -> Any:
        failed = [one for one in messages if failing and one.message_id == "ID3"]
        for message in messages:
            if message not in failed:
                book(message, session)
        return Retry(messages=failed) if failed else None

    handler = database.handler(guarded(database), work)
    await database.run(handler, [order(1)])
    batch = [order(1), order(2), order(3), order(3)]
    outcome = await database.run(handler, batch)
    assert outcome == Retry(messages=batch[2:])
    assert await database.effects() == ["ID1", "ID2"]
    failing = False
    assert await database.run(handler, batch) is None
    assert await database.effects() == ["ID1", "ID2", "ID3"]


async def test_a_claim_in_a_transaction_of_the_users(database: Database) -> None:
    guard = guarded(database)

    async def handle(message: ReceivedMessage, *, fail: bool = False) -> str:
        if database.is_async:
            async with database.bind.begin() as session:
                if await guard.async_claim(session, message) is not None:
                    return "done before"
                await session.run_sync(lambda plain: book(message, plain))
                if fail:
                    raise ValueError
        else:
            with database.bind.begin() as session:
                if guard.claim(session, message) is not None:
                    return "done before"
                book(message, session)
                if fail:
                    raise ValueError
        return "done"

    with pytest.raises(ValueError):  # noqa: PT011 - the handler's own
        await handle(order(1), fail=True)
    assert [await handle(order(1)), await handle(order(1))] == ["done", "done before"]
    assert await database.effects() == ["ID1"]
    with pytest.raises(KeyConflict):
        await handle(order(1, b"other"))
    with pytest.raises(InvalidArgument, match="is needed, not None"):
        await finished((guard.async_claim if database.is_async else guard.claim)(None, order(1)))
    await database.write(text("DROP TABLE orbitmq_handled_messages"))
    with pytest.raises(HoldBack) as raised:
        await handle(order(2))
    assert isinstance(raised.value.__cause__, TableMissing)
    with pytest.raises(InvalidArgument, match="is needed, not None"):
        await finished((guard.async_claim if database.is_async else guard.claim)(None, order(1)))


async def test_a_write_that_the_database_refuses_at_the_end_uses_up_an_attempt(database: Database) -> None:
    # MySQL and MariaDB have the same class of error for it as for a server that is away.
    class Effect(DeclarativeBase):
        __abstract__ = True

    class Row(Effect):
        __tablename__ = "checked"
        name: Mapped[str] = mapped_column(String(50), primary_key=True)

    await database.write(text("CREATE TABLE checked (name VARCHAR(50) PRIMARY KEY CHECK (name <> 'ID1'))"))

    def work(message: ReceivedMessage, session: Session) -> None:
        session.add(Row(name=message.message_id))  # written when the session is flushed

    guard = guarded(database)
    handler = database.handler(guard, work)
    with pytest.raises(DBAPIError):
        await database.run(handler, order(1))
    assert (guard.counts[Event.FAILED], guard.counts[Event.UNAVAILABLE]) == (1, 0)
    assert await database.rows() == 0
    assert await database.run(handler, order(2)) is None


async def test_a_handler_that_is_cancelled_leaves_nothing(database: Database) -> None:
    if not database.is_async:
        return
    guard, began = guarded(database), asyncio.Event()

    @guard
    async def slow(message: ReceivedMessage, session: AsyncSession) -> None:
        await session.run_sync(lambda plain: book(message, plain))
        began.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(slow(order(1)))
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await database.effects(), await database.rows()) == ([], 0)
    assert await database.run(database.handler(guard, book), order(1)) is None


async def test_a_claim_ends_with_its_connection(database: Database) -> None:
    # As of a process that was killed: nobody commits, rolls back, or cleans up.
    if database.is_async:
        return
    guard = guarded(database)
    with database.engine.connect() as connection:
        assert guard.claim(connection, order(1)) is None
        with pytest.raises(HoldBack), database.engine.connect() as other:
            guard.claim(other, order(1))
        connection.invalidate()
        connection.rollback()
    good = database.handler(guard, book)
    async with asyncio.timeout(60):
        # Until the server has noticed.
        while isinstance(await database.run(good, order(1)), HoldBack):  # noqa: ASYNC110 - the server's own
            await asyncio.sleep(0.01)
    assert await database.effects() == ["ID1"]


async def test_a_snapshot_from_before_the_commit_of_another_still_sees_the_key(database: Database) -> None:
    if database.is_async or database.is_sqlite:
        return
    guard = guarded(database)
    other = database.handler(guard, book)
    with database.engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection:
        connection.execute(text("SELECT count(*) FROM effects"))
        await database.run(other, order(1))
        if database.engine.dialect.name == "postgresql":  # it ends the transaction of an old snapshot
            with pytest.raises(HoldBack):
                guard.claim(connection, order(1))
        else:
            assert guard.claim(connection, order(1)) is not None


async def test_old_keys_go_in_small_batches_and_young_ones_stay(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orbitmq.idempotence.sql.claiming.PURGE_BATCH", 2)
    monkeypatch.setattr("orbitmq.idempotence.sql.stores.PURGE_BATCH", 2)
    handler = database.handler(guarded(database), book)
    for number in range(5):
        await database.run(handler, order(number))
    await database.write(text("UPDATE orbitmq_handled_messages SET done_at_ms = 1 WHERE message_id <> 'ID3'"))
    assert await database.purge(10 - 168 * 3_600_000) == 0
    assert await database.purge((168 * 3_600_000) + 2) == 4
    assert await database.rows() == 1
    await database.run(handler, order(3))
    assert await database.effects() == [f"ID{number}" for number in range(5)]


async def test_keys_differ_by_case_and_trailing_space_on_every_database(database: Database) -> None:
    handler = database.handler(guarded(database, key="k"), book)
    for number, key in enumerate(("a", "A", "a ", "\u00e4", "a\U0001f600")):
        assert await database.run(handler, order(number, k=key)) is None
    assert len(await database.effects()) == 5


async def test_a_missing_table_says_how_to_make_it_and_holds_back(database: Database) -> None:
    await database.write(text("DROP TABLE orbitmq_handled_messages"))
    handler = database.handler(guarded(database), book)
    with pytest.raises(HoldBack) as raised:
        await database.run(handler, order(1))
    assert isinstance(raised.value.__cause__, TableMissing)
    assert "create_table()" in str(raised.value.__cause__)
    assert await database.effects() == []
    with pytest.raises(TableMissing):
        await database.purge(0)


@pytest.mark.needs("postgres")
async def test_a_connection_without_transactions_is_refused() -> None:
    engine = create_engine(postgres_server().database("psycopg"), isolation_level="AUTOCOMMIT")
    store = SqlAlchemyStore(engine)
    store.create_table()
    with pytest.raises(InvalidArgument, match="in AUTOCOMMIT: the key would be committed before"):
        once(store, group="g")(lambda message, connection: None)(order(1))
    engine.dispose()


@pytest.mark.parametrize("driver", ["asyncpg", "pymysql"])
async def test_a_database_that_is_away_holds_messages_back_until_it_is_back(
    driver: str, tmp_path: Path
) -> None:
    async with opened(driver, "session", tmp_path) as database:
        server = postgres_server() if driver in ("psycopg", "asyncpg") else mariadb_server()
        guard = guarded(database)
        handler = database.handler(guard, book)
        await database.run(handler, order(1))
        server.stop()
        try:
            with pytest.raises(HoldBack) as raised:
                await database.run(handler, order(2))
            assert isinstance(raised.value.__cause__, StoreUnavailable)
            assert "cannot be reached" in str(raised.value.__cause__)
            assert guard.counts[Event.UNAVAILABLE] == 1
        finally:
            server.start()
        with contextlib.suppress(HoldBack):  # a connection from before
            await database.run(handler, order(2))
        await database.run(handler, order(2))
        await database.run(handler, order(1))
        assert await database.effects() == ["ID1", "ID2"]


async def test_a_database_that_goes_away_in_a_handler_uses_up_an_attempt_and_leaves_nothing(
    tmp_path: Path,
) -> None:
    # A message that kills its own connection may not come again for ever.
    async with opened("psycopg", "session", tmp_path) as database:

        def work(message: ReceivedMessage, session: Session) -> None:
            book(message, session)
            session.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))

        guard = guarded(database)
        with pytest.raises(Exception, match="terminat"):
            await database.run(database.handler(guard, work), order(1))
        assert guard.counts[Event.FAILED] == 1
        assert await database.effects() == []
        assert await database.run(database.handler(guard, book), order(1)) is None


def test_binds_of_the_wrong_kind_are_refused() -> None:
    engine = create_engine("sqlite://")
    for wrong, hint in (
        (lambda: SqlAlchemyStore("sqlite://"), "an Engine or a sessionmaker"),  # type: ignore[arg-type]
        (lambda: AsyncSqlAlchemyStore(engine), "an AsyncEngine or an async_sessionmaker"),  # type: ignore[arg-type]
        (lambda: SqlAlchemyStore(engine, table=""), "table has to be a name"),
        (lambda: SqlAlchemyStore(engine, retention_hours=-1), "retention_hours has to be a number from 0"),
    ):
        with pytest.raises(InvalidArgument, match=hint):
            wrong()


@pytest.mark.needs("postgres")
async def test_a_schema_of_its_own() -> None:
    engine = create_engine(postgres_server().database("psycopg"))
    with engine.begin() as connection:
        connection.execute(text("CREATE SCHEMA messaging"))
    store = SqlAlchemyStore(engine, schema="messaging", table="handled")
    store.create_table()
    handler = once(store, group="g")(lambda message, connection: None)
    handler(order(1))
    with engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM messaging.handled")).scalar_one() == 1
    engine.dispose()
