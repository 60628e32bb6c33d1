"""One way to use synchronous and asynchronous engines: work is a function of a `Connection`.

A `Link` is one connection at a time with its transaction, which may stay open between two pieces of work. A
synchronous engine works in a thread that the link has for itself, for some drivers bind a connection to a
thread.
"""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, create_engine, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from orbitmq.client.core.checking import shown
from orbitmq.client.core.errors import InvalidArgument

T = TypeVar("T")

DATABASE_ERRORS = (SQLAlchemyError, OSError)
"""Errors of a database that is away, or of a statement; asynchronous drivers raise OSErrors for the first."""
KINDS = frozenset({"postgresql", "mysql", "mariadb", "sqlite"})
_ISOLATION = "READ COMMITTED"
"""A statement after a lock has been taken has to see what was committed before the lock was free."""


def open_engine(url: str) -> Engine | AsyncEngine:
    """An engine for a URL of SQLAlchemy, asynchronous if its driver is. Raises InvalidArgument."""
    try:
        parsed = make_url(url)
        if parsed.get_dialect().is_async:
            return create_async_engine(parsed)
        return create_engine(parsed)
    except ModuleNotFoundError as error:
        raise InvalidArgument(
            f"the driver of the database's URL is not installed: pip install {error.name} "
            "(postgresql+psycopg://..., mysql+pymysql://... and sqlite:///... name one)"
        ) from None
    except (ArgumentError, NoSuchModuleError) as error:
        raise InvalidArgument(f"not a URL of a database that SQLAlchemy knows: {error}") from None


def kind_of(engine: Engine | AsyncEngine) -> str:
    """The kind of database. Raises InvalidArgument for one that the outbox does not know."""
    if not isinstance(engine, Engine | AsyncEngine):
        raise InvalidArgument(f"database has to be an Engine or an AsyncEngine, not {shown(engine)}")
    name = engine.dialect.name
    if name not in KINDS:
        raise InvalidArgument(f"the outbox knows {', '.join(sorted(KINDS))}, and not {name}")
    return name


class Link(ABC):
    """One connection to the database at a time, and its transaction."""

    @abstractmethod
    async def run(self, work: Callable[[Connection], T]) -> T:
        """The result of work in the open transaction, or in a new one. Raises what it raises."""

    @abstractmethod
    async def commit(self) -> None:
        """Commit the transaction, and give the connection back."""

    @abstractmethod
    async def rollback(self) -> None:
        """Roll the transaction back, and give the connection back. Raises nothing for a database that is
        away.
        """

    async def once(self, work: Callable[[Connection], T]) -> T:
        """The result of work that ends the open transaction, or has one of its own."""
        try:
            result = await self.run(work)
            await self.commit()
        except BaseException:
            await self.rollback()
            raise
        return result

    @abstractmethod
    async def close(self) -> None:
        """Roll back, and end what the link has."""


def link(engine: Engine | AsyncEngine) -> Link:
    """A new link to the database of an engine."""
    return _SyncLink(engine) if isinstance(engine, Engine) else _AsyncLink(engine)


def _options(engine: Engine | AsyncEngine) -> dict[str, Any]:
    """Options of a connection. Those of an engine would not count if it has some of its own."""
    return {} if engine.dialect.name == "sqlite" else {"isolation_level": _ISOLATION}


class _SyncLink(Link):
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="orbitmq-outbox")
        self._connection: Connection | None = None

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def run(self, work: Callable[[Connection], T]) -> T:
        return await self._in_thread(lambda: self._run(work))

    def _run(self, work: Callable[[Connection], T]) -> T:
        if self._connection is None:
            self._connection = self._engine.connect()
            self._connection.execution_options(**_options(self._engine))
        return work(self._connection)

    async def commit(self) -> None:
        await self._in_thread(self._commit)

    def _commit(self) -> None:
        if self._connection is not None:
            self._connection.commit()
            self._release()

    async def once(self, work: Callable[[Connection], T]) -> T:
        """In one go: a program whose event loop waits for SQLite's lock is not waited for here."""

        def do() -> T:
            try:
                result = self._run(work)
                self._commit()
            finally:
                self._release()
            return result

        return await self._in_thread(do)

    async def rollback(self) -> None:
        await self._in_thread(self._release)

    def _release(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(*DATABASE_ERRORS):
                connection.close()

    async def close(self) -> None:
        await self.rollback()
        self._thread.shutdown(wait=False)


class _AsyncLink(Link):
    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._connection: AsyncConnection | None = None

    async def run(self, work: Callable[[Connection], T]) -> T:
        if self._connection is None:
            self._connection = await self._engine.connect()
            await self._connection.execution_options(**_options(self._engine))
        return await self._connection.run_sync(work)

    async def commit(self) -> None:
        if self._connection is not None:
            await self._connection.commit()
            await self.rollback()

    async def rollback(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(*DATABASE_ERRORS):
                await connection.close()

    async def close(self) -> None:
        await self.rollback()
