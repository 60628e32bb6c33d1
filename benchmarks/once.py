"""Cost of `orbitmq.idempotence.once` for each message, beside the database's own.

    python -m benchmarks.once [--messages 2000]

For each store: a handler that writes one row in one transaction, without `once` and with it, one message
after the other in one thread. Databases run on this machine and flush each commit to the disk. MySQL is one
of them if ORBITMQ_TEST_MYSQL names its folder. Of a duplicate only the claim is paid.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import create_async_engine

from orbitmq.idempotence import (
    AsyncRedisStore,
    AsyncSqlAlchemyStore,
    MemoryStore,
    RedisStore,
    SqlAlchemyStore,
    once,
)
from tests.kit.client_messages import received
from tests.kit.databases import MariaDbServer, MySqlServer, PostgresServer, mysql_program
from tests.kit.redis_server import redis_server

WRITE = text("INSERT INTO effects VALUES (:name)")
TABLE = text("CREATE TABLE effects (name VARCHAR(50))")


def messages(count: int, name: str) -> list[Any]:
    """Messages with an id of their own each."""
    return [received(number, b"x" * 200, UNIQ_KEY=f"{name}-{number}") for number in range(count)]


def micros(functions: Sequence[Callable[[Any], object]], given: list[Any]) -> list[float]:
    """Time of a call of each function in µs: lower quartiles.

    The functions take turns, so that what else runs on the machine makes all of them longer.
    """
    took: list[list[int]] = [[] for _ in functions]
    for message in given:
        for times, function in zip(took, functions, strict=True):
            began = time.perf_counter_ns()
            function(message)
            times.append(time.perf_counter_ns() - began)
    return [statistics.quantiles(times, n=4)[0] / 1000 for times in took]


async def async_micros(
    functions: Sequence[Callable[[Any], Awaitable[object]]], given: list[Any]
) -> list[float]:
    """The same for async functions."""
    took: list[list[int]] = [[] for _ in functions]
    for message in given:
        for times, function in zip(took, functions, strict=True):
            began = time.perf_counter_ns()
            await function(message)
            times.append(time.perf_counter_ns() - began)
    return [statistics.quantiles(times, n=4)[0] / 1000 for times in took]


def show(name: str, own: float | None, first: float, again: float) -> None:
    """One row of the table."""
    alone = "-" if own is None else f"{own:.0f}"
    print(
        f"| {name} | {alone} | {first:.0f} | {first - (own or 0):.0f} | {1e6 / first:.0f} | {again:.0f} |",
        flush=True,
    )


def plain(name: str, url: str, count: int) -> None:
    """A plain engine."""
    engine = create_engine(url)
    if engine.dialect.name == "sqlite":
        with engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA journal_mode = WAL")
    store = SqlAlchemyStore(engine)
    store.create_table()
    with engine.begin() as connection:
        connection.execute(TABLE)

    def without(message: Any) -> None:
        with engine.begin() as connection:
            connection.execute(WRITE, {"name": message.message_id})

    @once(store, group="g")
    def handle(message: Any, connection: Any) -> None:
        connection.execute(WRITE, {"name": message.message_id})

    given = messages(count, "m")
    show(name, *micros([without, handle, handle], given))
    engine.dispose()


async def asynchronous(name: str, url: str, count: int) -> None:
    """An async engine."""
    engine = create_async_engine(url)
    store = AsyncSqlAlchemyStore(engine)
    await store.create_table()
    async with engine.begin() as connection:
        await connection.execute(TABLE)

    async def without(message: Any) -> None:
        async with engine.begin() as connection:
            await connection.execute(WRITE, {"name": message.message_id})

    @once(store, group="g")
    async def handle(message: Any, connection: Any) -> None:
        await connection.execute(WRITE, {"name": message.message_id})

    given = messages(count, "m")
    show(name, *await async_micros([without, handle, handle], given))
    await engine.dispose()


async def in_redis(port: int, count: int) -> None:
    """The async client of Redis."""
    import redis.asyncio

    client = redis.asyncio.Redis(port=port)

    @once(AsyncRedisStore(client), group="async")
    async def handle(message: Any) -> None: ...

    given = messages(count, "m")
    show("Redis, async", None, *await async_micros([handle, handle], given))
    await client.aclose()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--messages", type=int, default=2000)
    count = parser.parse_args().messages
    print("| store | write alone, µs | with `once`, µs | added, µs | messages/s | duplicate, µs |")
    print("| --- | --- | --- | --- | --- | --- |")
    handler = once(MemoryStore(), group="g")(lambda message: None)
    given = messages(count, "m")
    show("memory", None, *micros([handler, handler], given))
    with tempfile.TemporaryDirectory() as folder:
        plain("SQLite", f"sqlite:///{Path(folder, 'a.db')}", count)
        asyncio.run(asynchronous("SQLite, aiosqlite", f"sqlite+aiosqlite:///{Path(folder, 'b.db')}", count))
    postgres = PostgresServer(durable=True)
    plain("PostgreSQL, psycopg", postgres.database("psycopg"), count)
    asyncio.run(asynchronous("PostgreSQL, asyncpg", postgres.database("asyncpg"), count))
    postgres.remove()
    mariadb = MariaDbServer(durable=True)
    plain("MariaDB, pymysql", mariadb.database("pymysql"), count)
    asyncio.run(asynchronous("MariaDB, aiomysql", mariadb.database("aiomysql"), count))
    mariadb.remove()
    if mysql_program() is not None:
        mysql = MySqlServer(durable=True)
        plain("MySQL, pymysql", mysql.database("pymysql"), count)
        asyncio.run(asynchronous("MySQL, aiomysql", mysql.database("aiomysql"), count))
        mysql.remove()
    with redis_server() as server:
        client = server.client()
        in_redis_plain = once(RedisStore(client), group="g")(lambda message: None)
        show("Redis", None, *micros([in_redis_plain, in_redis_plain], given))
        client.close()
        asyncio.run(in_redis(server.port, count))


if __name__ == "__main__":
    main()
