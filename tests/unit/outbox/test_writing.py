"""Messages are rows of the program's own transaction, whichever session it has; misuse is told."""

from __future__ import annotations

import uuid

import pytest
from sqlalchemy import Column, Engine, Integer, MetaData, Table, create_engine, insert, text
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from orbitmq import IllegalMessage, InvalidArgument, Message
from orbitmq.outbox import AlreadyInOutbox, DatabaseAway, NotInTransaction, Outbox, TableMissing
from tests.kit.databases import postgres_to_stop
from tests.kit.outbox import async_url, rows

MESSAGE = Message("orders", b"x", tags="created", keys="17", properties={"a": "ü🚀"}, sharding_key="Key")


def test_a_message_is_there_if_the_transaction_commits(outbox: Outbox, engine: Engine) -> None:
    with Session(engine) as session, session.begin():
        first = outbox.add(session, MESSAGE)
    with Session(engine) as session:
        outbox.add(session, MESSAGE)
        session.rollback()
    with engine.begin() as connection:
        second, third = outbox.add_all(connection, [MESSAGE, MESSAGE])
        assert outbox.add_all(connection, []) == []
    scope = scoped_session(sessionmaker(engine))
    fourth = outbox.add(scope, MESSAGE)
    scope.commit()
    scope.remove()
    found = rows(outbox, engine)
    assert [row.id for row in found] == [first, second, third, fourth]
    row = found[0]
    assert (row.aggregatetype, row.aggregateid, row.type, row.payload) == ("orders", "Key", "created", b"x")
    assert (row.message_keys, row.properties, row.state) == ("17", '{"a": "ü🚀"}', "pending")


def test_a_savepoint_that_is_rolled_back_takes_its_message_along(outbox: Outbox, engine: Engine) -> None:
    with Session(engine) as session, session.begin():
        kept = outbox.add(session, MESSAGE)
        nested = session.begin_nested()
        outbox.add(session, MESSAGE)
        nested.rollback()
        with session.begin_nested():
            also = outbox.add(session, MESSAGE)
    assert [row.id for row in rows(outbox, engine)] == [kept, also]


async def test_asynchronous_sessions(outbox: Outbox, engine: Engine, kind: str, url: str) -> None:
    asynchronous = create_async_engine(async_url(kind, url))
    async with AsyncSession(asynchronous) as session, session.begin():
        first = await outbox.add_async(session, MESSAGE)
    async with AsyncSession(asynchronous) as session:
        await outbox.add_async(session, MESSAGE)
        await session.rollback()
    async with asynchronous.begin() as connection:
        more = await outbox.add_all_async(connection, [MESSAGE, MESSAGE])
    scope = async_scoped_session(async_sessionmaker(asynchronous), scopefunc=lambda: 1)
    last = await outbox.add_async(scope, MESSAGE)
    await scope.commit()
    await scope.remove()
    await asynchronous.dispose()
    assert [row.id for row in rows(outbox, engine)] == [first, *more, last]


def test_an_id_of_the_program_is_taken_once(outbox: Outbox, engine: Engine) -> None:
    own = uuid.uuid5(uuid.NAMESPACE_URL, "order 17 created")
    with Session(engine) as session, session.begin():
        assert outbox.add(session, MESSAGE, id=own) == str(own)
    with pytest.raises(AlreadyInOutbox, match=str(own)), Session(engine) as session, session.begin():
        outbox.add(session, MESSAGE, id=str(own).upper())
    assert len(rows(outbox, engine)) == 1


def test_a_missing_table_is_told(engine: Engine) -> None:
    with pytest.raises(TableMissing, match="create-tables"), engine.begin() as connection:
        Outbox("elsewhere").add(connection, MESSAGE)


def test_nothing_is_written_without_a_transaction(outbox: Outbox, engine: Engine, url: str) -> None:
    with (
        pytest.raises(NotInTransaction, match="AUTOCOMMIT"),
        engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection,
    ):
        outbox.add(connection, MESSAGE)
    whole = create_engine(url, isolation_level="AUTOCOMMIT")
    with pytest.raises(NotInTransaction), Session(whole) as session:
        outbox.add(session, MESSAGE)
    whole.dispose()
    assert rows(outbox, engine) == []


def test_an_illegal_message_leaves_the_transaction_usable(outbox: Outbox, engine: Engine) -> None:
    with Session(engine) as session, session.begin():
        with pytest.raises(IllegalMessage):
            outbox.add(session, Message("orders", b"x", sharding_key="k" * 10_000))
        with pytest.raises(IllegalMessage):
            outbox.add_all(session, [MESSAGE, Message("orders", b"x", sharding_key="")])
        outbox.add(session, MESSAGE)
    assert len(rows(outbox, engine)) == 1


@pytest.mark.parametrize("kind", ["sqlite"])
async def test_the_wrong_kind_of_session_is_told_what_to_call(
    outbox: Outbox, engine: Engine, url: str
) -> None:
    asynchronous = create_async_engine(async_url("sqlite", url))
    async with AsyncSession(asynchronous) as session:
        with pytest.raises(InvalidArgument, match="await add_async"):
            outbox.add(session, MESSAGE)  # type: ignore[arg-type]
    with Session(engine) as session, pytest.raises(InvalidArgument, match=r"call add\("):
        await outbox.add_async(session, MESSAGE)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="not 'x'"):
        outbox.add("x", MESSAGE)  # type: ignore[arg-type]
    await asynchronous.dispose()


@pytest.mark.parametrize("name", ["a b", 'x"; DROP', "", "t" * 49, 3])
def test_a_table_has_a_plain_name(name: str) -> None:
    with pytest.raises(InvalidArgument, match="table"):
        Outbox(name)


@pytest.mark.parametrize("kind", ["postgresql"])
def test_a_table_of_the_programs_own_metadata_and_schema(engine: Engine) -> None:
    metadata = MetaData()
    orders = Table("orders", metadata, Column("id", Integer, primary_key=True))
    outbox = Outbox("events", schema="shop", metadata=metadata)
    with engine.begin() as connection:
        connection.execute(text("CREATE SCHEMA IF NOT EXISTS shop"))
        metadata.create_all(connection)
        connection.execute(insert(orders).values(id=1))
        outbox.add(connection, MESSAGE)
        assert connection.execute(text("SELECT count(*) FROM shop.events")).scalar() == 1
        metadata.drop_all(connection)
    assert outbox.name == "shop.events"


def test_a_database_that_goes_away_is_told() -> None:
    with postgres_to_stop() as server:
        engine = create_engine(server.database())
        outbox = Outbox()
        with engine.connect() as connection:
            outbox.create_tables(connection)
            connection.commit()
            server.stop()
            with pytest.raises(DatabaseAway, match="does not answer"):
                outbox.add(connection, MESSAGE)
        engine.dispose()
