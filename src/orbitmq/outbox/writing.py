"""Messages into the outbox, in the transaction of the program that writes them."""

from __future__ import annotations

import secrets
import time
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Connection, Insert, MetaData, func, insert
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session
from sqlalchemy.orm import Session, scoped_session

from orbitmq.client.core.checking import check_number, shown
from orbitmq.client.core.errors import InvalidArgument
from orbitmq.client.core.message import Message
from orbitmq.outbox.errors import NotInTransaction, named
from orbitmq.outbox.rows import checked_id, new_id, row_of
from orbitmq.outbox.tables import lock_table, message_table

DEFAULT_TABLE = "orbitmq_outbox"
MAX_TABLE_CHARACTERS = 48
"""PostgreSQL cuts names of more than 63, and those of indexes are longer."""
DEFAULT_MAX_SIZE_BYTES = 4 << 20

Sync = Session | scoped_session[Any] | Connection
Async = AsyncSession | async_scoped_session[Any] | AsyncConnection


class Outbox:
    """An outbox: a table of messages in the program's own database.

        outbox = Outbox()

        with Session(engine) as session, session.begin():
            session.add(order)
            outbox.add(session, Message("orders", body, tags="created", sharding_key=order.id))

    The message is a row of the session's transaction: it is sent if that commits, and is gone if it is rolled
    back, or if the savepoint is. The program commits; the outbox never does. A relay (`Relay`, or `orbitmq
    outbox relay`) sends committed messages, each at least once; messages of one topic and sharding key in the
    order in which they were written.

    `table` and `schema` name the table; a second one, `<table>_lock`, has the locks of relays. `metadata` is
    the program's, if its migrations shall know both tables. `notify` has PostgreSQL tell relays of each
    commit (NOTIFY); without it they find messages when they next look. `max_message_size_bytes` is the
    brokers' limit (`maxMessageSize`). Raises InvalidArgument.
    """

    def __init__(
        self,
        table: str = DEFAULT_TABLE,
        *,
        schema: str | None = None,
        metadata: MetaData | None = None,
        notify: bool = True,
        max_message_size_bytes: int = DEFAULT_MAX_SIZE_BYTES,
    ) -> None:
        for name, value in (("table", table), ("schema", schema)):
            if value is None and name == "schema":
                continue
            if not isinstance(value, str) or not value.isidentifier() or len(value) > MAX_TABLE_CHARACTERS:
                raise InvalidArgument(
                    f"Outbox: {name} has to be a name of letters, digits and _, of {MAX_TABLE_CHARACTERS} "
                    f"characters at most, not {shown(value)}"
                )
        check_number("Outbox", "max_message_size_bytes", max_message_size_bytes, 1, 16 << 20)
        own = MetaData() if metadata is None else metadata
        self.messages = message_table(table, schema, own)
        """The table of messages."""
        self.locks = lock_table(f"{table}_lock", schema, own)
        """The table of locks."""
        self.notify = notify
        self.max_message_size_bytes = max_message_size_bytes
        self.name = self.messages.fullname
        self.channel = self.name.replace(".", "_")
        """Channel on which PostgreSQL tells of new messages."""

    def add(self, session: Sync, message: Message, *, id: str | uuid.UUID | None = None) -> str:
        """Write one message in the transaction of a session or connection, and return its id.

        `id` (a UUID) is the message's own, for a program that may write the same message twice: the second
        time is an AlreadyInOutbox, as long as the first row is kept. Raises IllegalMessage and IllegalName
        before anything is written; NotInTransaction, TableMissing, DatabaseAway; InvalidArgument for an
        asynchronous session; the driver's other errors.
        """
        row = self.row(message, id)
        given = None if id is None else row["id"]
        self._write(self._connection(session), [row], given)
        return str(row["id"])

    def add_all(self, session: Sync, messages: Iterable[Message]) -> list[str]:
        """Write several messages, in their order, and return their ids. Raises what `add` raises."""
        rows = [self.row(message) for message in messages]
        if rows:
            self._write(self._connection(session), rows)
        return [row["id"] for row in rows]

    async def add_async(self, session: Async, message: Message, *, id: str | uuid.UUID | None = None) -> str:
        """The same as `add` for an asynchronous session or connection."""
        row = self.row(message, id)
        given = None if id is None else row["id"]
        connection = await self._async_connection(session)
        await connection.run_sync(self._write, [row], given)
        return str(row["id"])

    async def add_all_async(self, session: Async, messages: Iterable[Message]) -> list[str]:
        """The same as `add_all` for an asynchronous session or connection."""
        rows = [self.row(message) for message in messages]
        if rows:
            await (await self._async_connection(session)).run_sync(self._write, rows)
        return [row["id"] for row in rows]

    def row(self, message: Message, id: str | uuid.UUID | None = None) -> dict[str, Any]:
        """The columns of a message that is written now, with the trace that is under way.

        Raises IllegalMessage, IllegalName.
        """
        now_ms = time.time_ns() // 1_000_000
        message_id = new_id(now_ms, secrets.randbits(80)) if id is None else checked_id(id)
        return row_of(
            message,
            message_id,
            now_ms,
            max_size_bytes=self.max_message_size_bytes,
            carried=_current_trace(),
        )

    def statement(self, dialect: str) -> Insert:
        """The statement that writes rows, in the words of a kind of database."""
        written = insert(self.messages)
        if self.notify and dialect == "postgresql":
            # In the same round trip; PostgreSQL tells of it at the commit, once for each transaction.
            written = written.returning(func.pg_notify(self.channel, ""))
        return written

    def create_tables(self, connection: Connection) -> None:
        """Create the tables that are not there; for programs without migrations."""
        self.messages.metadata.create_all(connection, [self.messages, self.locks])

    def drop_tables(self, connection: Connection) -> None:
        """Drop both tables, with all messages that have not been sent."""
        self.messages.metadata.drop_all(connection, [self.messages, self.locks])

    def _write(self, connection: Connection, rows: list[dict[str, Any]], given_id: str | None = None) -> None:
        _check_transaction(connection)
        with named(self.name, given_id):
            connection.execute(self.statement(connection.dialect.name), rows)

    def _connection(self, session: Sync) -> Connection:
        if isinstance(session, Connection):
            return session
        if isinstance(session, scoped_session):
            session = session()
        if not isinstance(session, Session):
            asynchronous = isinstance(session, AsyncSession | async_scoped_session | AsyncConnection)
            advice = ": await add_async(...) instead" if asynchronous else ""
            raise InvalidArgument(f"add needs a Session or a Connection, not {shown(session)}{advice}")
        return session.connection(bind_arguments={"clause": self.messages})

    async def _async_connection(self, session: Async) -> AsyncConnection:
        if isinstance(session, AsyncConnection):
            return session
        if isinstance(session, async_scoped_session):
            session = session()
        if not isinstance(session, AsyncSession):
            advice = ": call add(...) instead" if isinstance(session, Session | Connection) else ""
            raise InvalidArgument(
                f"add_async needs an AsyncSession or an AsyncConnection, not {shown(session)}{advice}"
            )
        return await session.connection(bind_arguments={"clause": self.messages})


def _check_transaction(connection: Connection) -> None:
    """Raises NotInTransaction where each statement is a transaction of its own."""
    level = connection.get_execution_options().get("isolation_level")
    if level is None:
        level = getattr(connection.dialect, "_on_connect_isolation_level", None)
    if level == "AUTOCOMMIT":
        raise NotInTransaction(
            "the connection has isolation level AUTOCOMMIT, so the message would be sent even if the rest "
            "of your work fails: use a session or connection with transactions"
        )


def _current_trace() -> Mapping[str, str] | None:
    """The properties that continue the trace under way, if the program uses OpenTelemetry."""
    try:
        from opentelemetry import propagate
    except ModuleNotFoundError:
        return None
    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    return carrier
