"""Costs of an outbox, beside those of the database alone.

Microseconds for each message that is written, messages per second of a relay, and the time from a commit to
the broker's answer.

    PYTHONPATH=src:. python benchmarks/outbox.py [MESSAGES]

PostgreSQL and MariaDB are started for it with their durable defaults, and SQLite with its own.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

from sqlalchemy import Engine, create_engine, text

from orbitmq import Message, Producer
from orbitmq.outbox import Outbox, Relay
from orbitmq.outbox.claiming import Noted, claim, note
from orbitmq.outbox.locking import make_locks
from orbitmq.testing import LocalBroker
from tests.kit.databases import MariaDbServer, PostgresServer

TOPIC = "orders"
KEYS = 100
BODY = b"x" * 300


def _message(number: int) -> Message:
    return Message(TOPIC, BODY, tags="created", sharding_key=f"key {number % KEYS}")


def write(engine: Engine, outbox: Outbox, count: int) -> tuple[float, float]:
    """Microseconds of a transaction that stores an order, and of one that writes a message, too: medians.

    They take turns, so that a machine that is busy for a while slows both.
    """
    took: tuple[list[float], list[float]] = ([], [])
    for number in range(2 * count):
        began = time.perf_counter()
        with engine.begin() as connection:
            connection.execute(text("INSERT INTO orders (number) VALUES (:number)"), {"number": number})
            if number % 2:
                outbox.add(connection, _message(number))
        took[number % 2].append((time.perf_counter() - began) * 1e6)
    return statistics.median(took[0]), statistics.median(took[1])


def fill(engine: Engine, outbox: Outbox, count: int) -> None:
    """Pending messages, and no others."""
    with engine.begin() as connection:
        connection.execute(outbox.messages.delete())
        outbox.add_all(connection, [_message(number) for number in range(count)])


def database_alone(engine: Engine, outbox: Outbox, count: int) -> float:
    """Messages per second of the relay's statements alone: nothing is sent."""
    fill(engine, outbox, count)
    began, lock = time.perf_counter(), 0
    while True:
        with engine.begin() as connection:
            claimed = claim(outbox, connection, batch_size=256, first_lock=lock)
            if not claimed.rows:
                return count / (time.perf_counter() - began)
            lock = claimed.next_lock
            note(outbox, connection, Noted(sent=[row["seq"] for row in claimed.rows]), 1, keep_sent=True)


async def relayed(engine: Engine, outbox: Outbox, producer: Producer, count: int, relays: int) -> float:
    """Messages per second of relays, until each is stored and noted."""
    await asyncio.to_thread(fill, engine, outbox, count)
    running = [Relay(outbox, engine, producer) for _ in range(relays)]
    began = time.perf_counter()
    for relay in running:
        await relay.start()
    while sum(relay.metrics.sent for relay in running) < count:  # noqa: ASYNC110 - others count
        await asyncio.sleep(0.002)
    took = time.perf_counter() - began
    for relay in running:
        await relay.stop()
    return count / took


async def latencies(engine: Engine, outbox: Outbox, producer: Producer, count: int) -> list[float]:
    """Milliseconds from the end of a commit, at any moment of an idle relay, until the message is stored and
    noted; sorted.
    """

    def commit() -> float:
        with engine.begin() as connection:
            outbox.add(connection, _message(0))
        return time.perf_counter()

    found = []
    async with Relay(outbox, engine, producer) as relay:
        for _ in range(count):
            await asyncio.sleep(random.uniform(0.3, 1))
            before = relay.metrics.sent
            committed = await asyncio.to_thread(commit)
            while relay.metrics.sent == before:  # noqa: ASYNC110 - the relay counts
                await asyncio.sleep(0.0005)
            found.append((time.perf_counter() - committed) * 1000)
    return sorted(found)


async def measure(name: str, url: str, broker: LocalBroker, count: int) -> None:
    """One row of the table."""
    engine, outbox = create_engine(url), Outbox()
    with engine.begin() as connection:
        outbox.create_tables(connection)
        make_locks(outbox, connection)
        connection.execute(text("CREATE TABLE orders (number INTEGER)"))
    plain, both = await asyncio.to_thread(write, engine, outbox, min(count, 500))
    alone = await asyncio.to_thread(database_alone, engine, outbox, count)
    async with Producer("benchmark", broker.namesrv) as producer:
        await producer.send(_message(0))
        one = await relayed(engine, outbox, producer, count, 1)
        two = await relayed(engine, outbox, producer, count, 2)
        times = await latencies(engine, outbox, producer, 50)
    engine.dispose()
    print(
        f"| {name} | {plain:,.0f} | {both:,.0f} | {alone:,.0f} | {one:,.0f} | {two:,.0f} | "
        f"{statistics.median(times):.0f} | {times[-2]:.0f} |",
        flush=True,
    )


def main() -> None:
    """The table, a row for each database."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
    print(
        "| database | order, µs | with message, µs | statements alone, /s | relay, /s | two, /s | ms | p98 |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    with LocalBroker(own_process=True) as broker, tempfile.TemporaryDirectory() as folder:
        broker.create_topic(TOPIC)
        for name, make in (("PostgreSQL", PostgresServer), ("MariaDB", MariaDbServer)):
            server = make(durable=True)
            try:
                asyncio.run(measure(name, server.database(), broker, count))
            finally:
                server.remove()
        asyncio.run(measure("SQLite", f"sqlite:///{Path(folder) / 'test.db'}", broker, count))


if __name__ == "__main__":
    main()
