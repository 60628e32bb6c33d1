"""Outboxes in databases of every kind, and what brokers have got of them."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, select

from orbitmq import PullConsumer, ReceivedMessage
from orbitmq.outbox import Outbox
from tests.kit.databases import mariadb_server, postgres_server

DATABASES = ("sqlite", "postgresql", "mariadb")
ASYNC_DRIVERS = {"postgresql": "asyncpg", "mariadb": "asyncmy", "sqlite": "aiosqlite"}


def database_url(kind: str, folder: Path) -> str:
    """URL of a new, empty database of a kind, for a synchronous driver."""
    if kind == "sqlite":
        return f"sqlite:///{folder / 'test.db'}"
    return (postgres_server() if kind == "postgresql" else mariadb_server()).database()


@functools.cache
def _shared(kind: str) -> str:
    return (postgres_server() if kind == "postgresql" else mariadb_server()).database()


def shared_database_url(kind: str, folder: Path) -> str:
    """The same of a database that tests of this process use one after the other: a new one takes time."""
    return database_url(kind, folder) if kind == "sqlite" else _shared(kind)


def async_url(kind: str, url: str) -> str:
    """The same database by an asynchronous driver."""
    return f"{url.partition('://')[0].partition('+')[0]}+{ASYNC_DRIVERS[kind]}://{url.partition('://')[2]}"


def rows(outbox: Outbox, engine: Engine) -> list[Any]:
    """All rows, in the order in which they were written."""
    with engine.connect() as connection:
        return list(connection.execute(select(outbox.messages).order_by(outbox.messages.c.seq)))


def states(outbox: Outbox, engine: Engine) -> list[str]:
    """The states of all rows, in the order in which they were written."""
    return [row.state for row in rows(outbox, engine)]


async def until_in_database(
    engine: Engine, condition: Callable[[Connection], object], seconds: float = 60
) -> None:
    """Returns once `condition` holds of the database; the event loop goes on meanwhile."""

    def holds() -> bool:
        with engine.connect() as connection:
            return bool(condition(connection))

    async with asyncio.timeout(seconds):
        while not await asyncio.to_thread(holds):  # noqa: ASYNC110 - others bring it about
            await asyncio.sleep(0.01)


async def stored(namesrv: str, topic: str, least: int = 0, seconds: float = 60) -> Sequence[ReceivedMessage]:
    """All messages of a topic, queue by queue, once there are `least` of them."""
    async with asyncio.timeout(seconds), PullConsumer("outbox-tests", namesrv) as consumer:
        found: list[ReceivedMessage] = []
        offsets: dict[Any, int] = {}
        while True:
            for queue in await consumer.queues(topic):
                while pulled := await consumer.pull(queue, offsets.get(queue, 0), 1000):
                    offsets[queue] = pulled.next_offset
                    found.extend(pulled)
            if len(found) >= least:
                return sorted(found, key=lambda one: (one.queue, one.queue_offset))
            await asyncio.sleep(0.02)
