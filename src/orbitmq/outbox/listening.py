"""PostgreSQL's word that messages were committed (LISTEN), so that a relay need not look often.

A word that is missed costs nothing but time: relays look at their interval as well. Drivers psycopg, psycopg2
and asyncpg can listen; with others the interval alone counts.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import select as sockets
import threading
from collections.abc import Callable
from typing import Any

from sqlalchemy import Engine, text
from sqlalchemy.ext.asyncio import AsyncEngine

from orbitmq.outbox.database import DATABASE_ERRORS
from orbitmq.outbox.errors import reason_of

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
"""Interval at which a thread that listens looks if it shall end."""
_NO_TRANSACTION = "AUTOCOMMIT"
"""A transaction that stays open would hear of nothing, and keep the database from clearing old rows away."""
AGAIN_SECONDS = 1.0
"""Pause before another connection is opened in place of one that has ended."""


def can_listen(engine: Engine | AsyncEngine) -> bool:
    """True if the database tells of commits, and the driver passes it on."""
    return engine.dialect.name == "postgresql" and engine.dialect.driver in {"psycopg", "psycopg2", "asyncpg"}


async def listen(engine: Engine | AsyncEngine, channel: str, wake: Callable[[], None]) -> None:
    """Call `wake` after each commit with messages, until cancelled. A connection that ends is replaced."""
    while True:
        try:
            if isinstance(engine, AsyncEngine):
                await _listen_async(engine, channel, wake)
            else:
                await _listen_in_thread(engine, channel, wake)
        except (*DATABASE_ERRORS, _driver_error(engine)) as error:
            log.info("%s tells of no commits now: %s", channel, reason_of(error))
        wake()
        await asyncio.sleep(AGAIN_SECONDS)


def _driver_error(engine: Engine | AsyncEngine) -> type[BaseException]:
    """The driver's own error, for what is done with it directly. Asynchronous psycopg raises the same."""
    error: type[BaseException] = engine.dialect.loaded_dbapi.Error
    return error


async def _listen_async(engine: AsyncEngine, channel: str, wake: Callable[[], None]) -> None:
    async with engine.connect() as connection:
        driver: Any = (await connection.get_raw_connection()).driver_connection
        try:
            await connection.execution_options(isolation_level=_NO_TRANSACTION)
            await connection.execute(text(f'LISTEN "{channel}"'))
            if engine.dialect.driver == "asyncpg":
                ended = asyncio.Event()
                driver.add_termination_listener(lambda _: ended.set())
                await driver.add_listener(channel, lambda *_: wake())
                wake()
                await ended.wait()
                return
            wake()
            async for _ in driver.notifies():
                wake()
        finally:
            # No other user of the pool shall be told.
            await asyncio.shield(driver.close())
            await asyncio.shield(connection.invalidate())


async def _listen_in_thread(engine: Engine, channel: str, wake: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()
    end = threading.Event()

    def told() -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(wake)

    def work() -> None:
        with engine.connect() as connection:
            try:
                connection.execution_options(isolation_level=_NO_TRANSACTION)
                connection.execute(text(f'LISTEN "{channel}"'))
                driver: Any = connection.connection.driver_connection
                told()
                while not end.is_set():
                    if _is_told(engine.dialect.driver, driver):
                        told()
            finally:
                connection.invalidate()  # no other user of the pool shall be told

    try:
        await asyncio.to_thread(work)
    finally:
        end.set()


def _is_told(name: str, driver: Any) -> bool:
    """True if a word came within a second; `driver` is the connection of the driver of this name."""
    if name == "psycopg":
        return any(True for _ in driver.notifies(timeout=LOOK_SECONDS, stop_after=1))
    if sockets.select([driver], [], [], LOOK_SECONDS) == ([], [], []):
        return False
    driver.poll()
    told = bool(driver.notifies)
    driver.notifies.clear()
    return told
