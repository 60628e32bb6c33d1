"""Relays between real databases and a real broker."""

from __future__ import annotations

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import format_trace_id
from sqlalchemy import Engine, create_engine
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import Session

from orbitmq import InvalidArgument, Message, Middleware, NotRunning, Producer, SendCall, SendNext, SendResult
from orbitmq.outbox import ROW_ID, DatabaseAway, Outbox, Relay, TableMissing, counts, release
from orbitmq.outbox.relay import POLL_MS
from orbitmq.telemetry import OpenTelemetry
from orbitmq.testing import LocalBroker
from orbitmq.testing.local_broker import Isolated
from tests.client.naming import until
from tests.kit.databases import postgres_to_stop
from tests.kit.outbox import async_url, database_url, rows, states, stored, until_in_database

ONE_KIND = pytest.mark.parametrize("kind", ["postgresql"])


@pytest.fixture
async def producer(rocketmq_isolated: Isolated) -> AsyncIterator[Producer]:
    async with Producer("outbox", rocketmq_isolated.namesrv) as started:
        yield started


async def until_sent(outbox: Outbox, engine: Engine) -> None:
    """Returns once nothing is pending."""
    await until_in_database(engine, lambda connection: not counts(outbox, connection).pending)


def add(outbox: Outbox, engine: Engine, *messages: Message) -> Sequence[str]:
    with engine.begin() as connection:
        return outbox.add_all(connection, messages)


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
async def test_what_is_committed_arrives_once_and_in_order(
    outbox: Outbox,
    engine: Engine,
    kind: str,
    url: str,
    producer: Producer,
    rocketmq_isolated: Isolated,
    asynchronous: bool,
) -> None:
    topic = rocketmq_isolated.topic()
    database = create_async_engine(async_url(kind, url)) if asynchronous else engine
    many = [Message(topic, f"{n}".encode(), sharding_key=f"key {n % 7}") for n in range(300)]
    rare = Message(topic, b"rare", tags="created", keys="17", properties={"city": "Zürich"}, flag=3)
    add(outbox, engine, *many[:200])
    async with Relay(outbox, database, producer) as relay, Relay(outbox, database, producer):
        [rare_id] = (
            add(outbox, engine, rare)
            if kind != "sqlite"
            else await asyncio.to_thread(add, outbox, engine, rare)
        )
        await asyncio.to_thread(add, outbox, engine, *many[200:])
        await until_sent(outbox, engine)
        assert relay.healthy
    if asynchronous:
        await database.dispose()  # type: ignore[misc]
    assert set(states(outbox, engine)) == {"sent"}
    found = await stored(rocketmq_isolated.namesrv, topic, 301)
    assert len(found) == 301
    order = defaultdict(list)
    for message in found:
        order[message.sharding_key].append(message.body)
    [one] = order.pop(None)
    assert one == b"rare"
    assert order == {f"key {key}": [f"{n}".encode() for n in range(300) if n % 7 == key] for key in range(7)}
    [arrived] = [message for message in found if message.body == b"rare"]
    assert (arrived.tags, arrived.keys, arrived.flag) == ("created", ["17", rare_id], 3)
    assert (arrived.properties["city"], arrived.properties[ROW_ID]) == ("Zürich", rare_id)


@ONE_KIND
async def test_rolled_back_messages_are_never_sent(
    outbox: Outbox, engine: Engine, producer: Producer, rocketmq_isolated: Isolated
) -> None:
    topic = rocketmq_isolated.topic()
    async with Relay(outbox, engine, producer, retention_ms=0):
        with Session(engine) as session:
            outbox.add(session, Message(topic, b"never"))
            session.rollback()
        add(outbox, engine, Message(topic, b"sent"))
        await until_sent(outbox, engine)
    assert [one.body for one in await stored(rocketmq_isolated.namesrv, topic)] == [b"sent"]
    assert rows(outbox, engine) == []  # no retention


@ONE_KIND
async def test_delays_count_from_the_transaction(
    outbox: Outbox, engine: Engine, producer: Producer, rocketmq_isolated: Isolated
) -> None:
    topic = rocketmq_isolated.topic()
    began_ms = time.time() * 1000
    add(
        outbox,
        engine,
        Message(topic, b"level", delay_level=1),
        Message(topic, b"time", delay_ms=1500, sharding_key="k"),
        Message(topic, b"much later", delay_ms=86_400_000, sharding_key="k"),
        Message(topic, b"not held up by it", sharding_key="k"),
    )
    async with Relay(outbox, engine, producer):
        found = await stored(rocketmq_isolated.namesrv, topic, 3)
    at = {one.body: one.store_timestamp_ms - began_ms for one in found}
    assert at[b"time"] >= 1000  # the broker's timers have a precision of a second at most
    assert at[b"level"] >= 900
    assert at.keys() == {b"time", b"level", b"not held up by it"}


def refused_for_good(topic: str, key: str | None = "a") -> Message:
    """A message whose delay is over the broker's limit of three days."""
    return Message(topic, b"refused", delay_ms=30 * 86_400_000, sharding_key=key)


@ONE_KIND
async def test_a_message_that_is_refused_for_good_is_parked_and_its_key_goes_on(
    outbox: Outbox, engine: Engine, producer: Producer, rocketmq_isolated: Isolated
) -> None:
    topic = rocketmq_isolated.topic()
    add(outbox, engine, refused_for_good(topic), Message(topic, b"later", sharding_key="a"))
    async with Relay(outbox, engine, producer) as relay:
        await until_sent(outbox, engine)
    assert relay.metrics.parked == 1
    assert states(outbox, engine) == ["parked", "sent"]
    assert "MESSAGE_ILLEGAL" in rows(outbox, engine)[0].reason


async def test_a_parked_message_may_block_its_key_until_it_is_released(
    outbox: Outbox, engine: Engine, producer: Producer, rocketmq_isolated: Isolated
) -> None:
    topic = rocketmq_isolated.topic()
    messages = [
        *(Message(topic, b"before", sharding_key="a"), refused_for_good(topic)),
        *(Message(topic, b"after", sharding_key="a"), Message(topic, b"other", sharding_key="b")),
    ]
    await asyncio.to_thread(add, outbox, engine, *messages)
    async with Relay(outbox, engine, producer, park_blocks_key=True):
        await until_sent(outbox, engine)
        assert states(outbox, engine) == ["sent", "blocking", "held", "sent"]
        await asyncio.to_thread(add, outbox, engine, Message(topic, b"last", sharding_key="a"))
        await until_sent(outbox, engine)
        assert states(outbox, engine)[-1] == "held"

        def correct() -> None:
            with engine.begin() as connection:
                messages = outbox.messages
                late = messages.c.state == "blocking"
                connection.execute(messages.update().where(late).values(deliver_at_ms=None))
                release(outbox, connection)

        await asyncio.to_thread(correct)
        await until_sent(outbox, engine)
    assert states(outbox, engine) == ["sent"] * 5
    found = await stored(rocketmq_isolated.namesrv, topic, 5)
    assert [one.body for one in found if one.sharding_key == "a"] == [
        b"before",
        b"refused",
        b"after",
        b"last",
    ]


@ONE_KIND
async def test_the_guilty_one_of_a_batch_is_found(
    outbox: Outbox, engine: Engine, rocketmq_isolated: Isolated
) -> None:
    topic = rocketmq_isolated.topic()
    bodies = [b"1", b"2", random.Random(0).randbytes(5000), b"4", b"5"]  # it does not shrink
    add(outbox, engine, *(Message(topic, body, sharding_key="a") for body in bodies))
    async with (
        Producer("outbox", rocketmq_isolated.namesrv, max_message_size_bytes=4000) as small,
        Relay(outbox, engine, small),
    ):
        await until_sent(outbox, engine)
    assert states(outbox, engine) == ["sent", "sent", "parked", "sent", "sent"]
    assert "4000" in rows(outbox, engine)[2].reason
    found = await stored(rocketmq_isolated.namesrv, topic, 4)
    assert [one.body for one in found] == [b"1", b"2", b"4", b"5"]


@ONE_KIND
async def test_a_row_that_others_wrote_wrongly_is_parked(
    outbox: Outbox, engine: Engine, producer: Producer, rocketmq_isolated: Isolated
) -> None:
    topic = rocketmq_isolated.topic()
    add(outbox, engine, *(Message(topic, b"x", sharding_key="a") for _ in range(3)))
    with engine.begin() as connection:
        second = outbox.messages.c.seq == 2
        connection.execute(outbox.messages.update().where(second).values(properties="{"))
    async with Relay(outbox, engine, producer):
        await until_sent(outbox, engine)
    assert states(outbox, engine) == ["sent", "parked", "sent"]


@ONE_KIND
async def test_a_topic_that_is_unknown_delays_no_other_and_is_sent_once_it_is_there(
    outbox: Outbox, engine: Engine, tmp_path: Path
) -> None:
    with LocalBroker(autoCreateTopicEnable="false") as broker:
        broker.create_topic("known")
        add(outbox, engine, Message("unknown", b"x", sharding_key="a"), Message("known", b"x"))
        async with (
            Producer("outbox", broker.namesrv) as producer,
            Relay(outbox, engine, producer, max_pause_ms=200) as relay,
        ):
            await until_in_database(engine, lambda _: states(outbox, engine)[1] == "sent")
            await until_in_database(engine, lambda _: rows(outbox, engine)[0].attempts)
            assert "TopicNotFound" in rows(outbox, engine)[0].reason
            await until(lambda: not relay.healthy)
            assert list(relay.errors) == ["unknown"]
            await asyncio.to_thread(broker.create_topic, "unknown")
            await until_sent(outbox, engine)
            await until(lambda: relay.healthy)
            assert rows(outbox, engine)[0].reason is None


@ONE_KIND
async def test_a_message_is_parked_if_an_operator_takes_too_long(outbox: Outbox, engine: Engine) -> None:
    with LocalBroker(autoCreateTopicEnable="false") as broker:
        add(outbox, engine, Message("unknown", b"x"))
        async with (
            Producer("outbox", broker.namesrv) as producer,
            Relay(outbox, engine, producer, max_pause_ms=100, park_after_ms=300),
        ):
            await until_sent(outbox, engine)
    assert states(outbox, engine) == ["parked"]


@ONE_KIND
async def test_a_broker_that_is_away_costs_a_pause_and_no_message(outbox: Outbox, engine: Engine) -> None:
    with LocalBroker() as broker:
        broker.create_topic("orders")
        async with Producer("outbox", broker.namesrv) as producer:
            await producer.send(Message("orders", b"first"))
            await asyncio.to_thread(broker.halt)
            add(outbox, engine, *(Message("orders", b"x", sharding_key="a") for _ in range(5)))
            async with Relay(outbox, engine, producer, send_timeout_ms=300, max_pause_ms=300) as relay:
                await until_in_database(engine, lambda _: relay.metrics.failed_sends >= 2)
                assert states(outbox, engine) == ["pending"] * 5
                assert rows(outbox, engine)[0].attempts == 0
                await asyncio.to_thread(broker.start)
                await until_sent(outbox, engine)
        found = await stored(broker.namesrv, "orders", 6)
        assert len({one.properties.get(ROW_ID) for one in found}) == 6


class Gate(Middleware):
    """Holds every send until it is opened."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.open = asyncio.Event()
        self.waiting = self.most = 0
        """Messages under way, and the most of them at a time."""

    async def send(self, call: SendCall, call_next: SendNext) -> Sequence[SendResult]:
        self.waiting += len(call.messages)
        self.most = max(self.most, self.waiting)
        self.reached.set()
        await self.open.wait()
        try:
            return await call_next()
        finally:
            self.waiting -= len(call.messages)


@ONE_KIND
async def test_workers_and_the_size_of_a_batch_bound_what_is_under_way(
    outbox: Outbox, engine: Engine, rocketmq_isolated: Isolated
) -> None:
    topic = rocketmq_isolated.topic()
    add(outbox, engine, *(Message(topic, b"x", sharding_key=f"{n}") for n in range(30)))
    gate = Gate()
    async with (
        Producer("outbox", rocketmq_isolated.namesrv, middleware=[gate]) as producer,
        Relay(outbox, engine, producer, workers=2, batch_size=3),
    ):
        await until(lambda: gate.waiting == 6)
        gate.open.set()
        await until_sent(outbox, engine)
    assert gate.most == 6
    assert len(await stored(rocketmq_isolated.namesrv, topic, 30)) == 30


async def test_a_stop_in_mid_batch_notes_what_is_sent_and_leaves_the_rest(
    outbox: Outbox, engine: Engine, rocketmq_isolated: Isolated
) -> None:
    topic = rocketmq_isolated.topic()
    await asyncio.to_thread(
        add, outbox, engine, *(Message(topic, b"%d" % n, sharding_key="a") for n in range(5))
    )
    gate = Gate()
    async with Producer("outbox", rocketmq_isolated.namesrv, middleware=[gate]) as producer:
        relay = await Relay(outbox, engine, producer).start()
        await gate.reached.wait()
        stopping = asyncio.create_task(relay.stop())
        await asyncio.sleep(0)
        gate.open.set()
        await stopping
    assert states(outbox, engine) == ["sent"] + ["pending"] * 4
    assert len(await stored(rocketmq_isolated.namesrv, topic)) == 1


class Broken(Middleware):
    async def send(self, call: SendCall, call_next: SendNext) -> Sequence[SendResult]:
        raise ZeroDivisionError("a fault of the program's own")


@ONE_KIND
async def test_an_error_that_has_nothing_to_do_with_brokers_ends_in_parking(
    outbox: Outbox, engine: Engine, rocketmq_isolated: Isolated
) -> None:
    add(outbox, engine, Message(rocketmq_isolated.topic(), b"x"))
    async with (
        Producer("outbox", rocketmq_isolated.namesrv, middleware=[Broken()]) as producer,
        Relay(outbox, engine, producer, max_pause_ms=100),
    ):
        await until_sent(outbox, engine)
    [row] = rows(outbox, engine)
    assert (row.state, row.attempts) == ("parked", 10)
    assert row.reason == "ZeroDivisionError: a fault of the program's own"


@ONE_KIND
async def test_the_trace_goes_on_from_the_transaction(
    outbox: Outbox, engine: Engine, rocketmq_isolated: Isolated
) -> None:
    topic = rocketmq_isolated.topic()
    provider = TracerProvider()
    with provider.get_tracer("test").start_as_current_span("order") as span:
        trace_id = format_trace_id(span.get_span_context().trace_id)
        add(outbox, engine, *(Message(topic, b"x", sharding_key="a") for _ in range(2)))
    async with (
        Producer("outbox", rocketmq_isolated.namesrv, middleware=[OpenTelemetry(provider)]) as traced,
        Relay(outbox, engine, traced),
    ):
        await until_sent(outbox, engine)
    async with Producer("outbox", rocketmq_isolated.namesrv) as plain:
        with provider.get_tracer("test").start_as_current_span("order") as span:
            second = format_trace_id(span.get_span_context().trace_id)
            add(outbox, engine, Message(topic, b"x", sharding_key="a"))
        async with Relay(outbox, engine, plain):
            await until_sent(outbox, engine)
    found = [
        one.properties["traceparent"].split("-") for one in await stored(rocketmq_isolated.namesrv, topic)
    ]
    assert [parts[1] for parts in found] == [trace_id, trace_id, second]
    assert found[0][2] != found[1][2]  # a span of its own for each send


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg", "psycopg async"])
@ONE_KIND
async def test_postgresql_tells_of_commits(
    outbox: Outbox, engine: Engine, url: str, producer: Producer, rocketmq_isolated: Isolated, driver: str
) -> None:
    topic = rocketmq_isolated.topic()
    database = engine
    if driver != "psycopg":
        name = "asyncpg" if driver == "asyncpg" else "psycopg"
        database = create_async_engine(url.replace("psycopg", name))  # type: ignore[assignment]
    hour = 3_600_000
    async with Relay(outbox, database, producer, poll_interval_ms=hour):
        await until_in_database(
            engine,
            lambda connection: connection.exec_driver_sql(
                "SELECT 1 FROM pg_stat_activity WHERE query LIKE 'LISTEN%%' AND datname = current_database()"
            ).first(),
        )
        for _ in range(3):
            add(outbox, engine, Message(topic, b"x"))
            await until_sent(outbox, engine)
    if driver != "psycopg":
        await database.dispose()  # type: ignore[func-returns-value]


@pytest.mark.parametrize("kind", ["sqlite"])
async def test_where_no_database_tells_of_commits_they_are_looked_for_at_the_interval(
    outbox: Outbox,
    engine: Engine,
    producer: Producer,
    rocketmq_isolated: Isolated,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic, waits, idle = rocketmq_isolated.topic(), asyncio.Event(), Relay._idle

    async def told(relay: Relay, wake: asyncio.Event, took_ms: float) -> None:
        waits.set()
        await idle(relay, wake, took_ms)

    monkeypatch.setattr(Relay, "_idle", told)
    async with Relay(outbox, engine, producer, poll_interval_ms=3_600_000) as relay:
        await waits.wait()
        await asyncio.to_thread(add, outbox, engine, Message(topic, b"x"))
        await asyncio.sleep(2 * POLL_MS / 1000)
        assert states(outbox, engine) == ["pending"]
        relay.wake()
        await until_sent(outbox, engine)
    waits.clear()
    async with Relay(outbox, engine, producer):
        await waits.wait()
        await asyncio.to_thread(add, outbox, engine, Message(topic, b"x"))
        await until_sent(outbox, engine)


async def test_a_database_that_goes_away_and_comes_back(
    producer: Producer, rocketmq_isolated: Isolated
) -> None:
    topic = rocketmq_isolated.topic()
    with postgres_to_stop() as server:
        engine = create_engine(server.database(), pool_pre_ping=True)
        outbox = Outbox()
        with engine.begin() as connection:
            outbox.create_tables(connection)
        async with Relay(outbox, engine, producer, max_pause_ms=200) as relay:
            add(outbox, engine, Message(topic, b"1"))
            await until_sent(outbox, engine)
            await asyncio.to_thread(server.stop)
            await until(lambda: "database" in relay.errors)
            await asyncio.to_thread(server.start)
            add(outbox, engine, Message(topic, b"2"))
            await until_sent(outbox, engine)
            await until(lambda: relay.healthy)
            assert relay.metrics.database_errors
        await asyncio.to_thread(server.stop)
        engine.dispose()
        with pytest.raises(DatabaseAway):
            await Relay(outbox, engine, producer).start()
        engine.dispose()
    assert [one.body for one in await stored(rocketmq_isolated.namesrv, topic)] in (
        [b"1", b"2"],
        [b"2", b"1"],
    )


@pytest.mark.parametrize("kind", ["sqlite"])
async def test_a_relay_that_cannot_begin_says_why(
    engine: Engine, outbox: Outbox, producer: Producer, tmp_path: Path
) -> None:
    empty = create_engine(database_url("sqlite", tmp_path / ".."))
    with pytest.raises(TableMissing, match="create-tables"):
        await Relay(Outbox("other"), engine, producer).start()
    empty.dispose()
    with pytest.raises(NotRunning):
        await Relay(outbox, engine, Producer("never-started")).start()
    with pytest.raises(InvalidArgument, match="batch_size"):
        Relay(outbox, engine, producer, batch_size=0)
    with pytest.raises(InvalidArgument, match="Engine"):
        Relay(outbox, "sqlite://", producer)  # type: ignore[arg-type]
    relay = await Relay(outbox, engine, producer).start()
    with pytest.raises(NotRunning, match="once"):
        await relay.start()
    await relay.stop()


@pytest.mark.parametrize("kind", ["sqlite"])
async def test_a_program_may_write_in_the_event_loop_of_the_relay(
    outbox: Outbox, engine: Engine, producer: Producer, rocketmq_isolated: Isolated
) -> None:
    topic = rocketmq_isolated.topic()
    async with Relay(outbox, engine, producer, poll_interval_ms=1, retention_ms=0):
        for _ in range(30):
            add(outbox, engine, Message(topic, b"x"))
            await asyncio.sleep(0.01)
        await until_sent(outbox, engine)


@ONE_KIND
async def test_a_producer_that_is_closed_ends_the_relay(
    outbox: Outbox, engine: Engine, rocketmq_isolated: Isolated
) -> None:
    producer = await Producer("outbox", rocketmq_isolated.namesrv).start()
    relay = await Relay(outbox, engine, producer).start()
    await producer.close()
    add(outbox, engine, Message(rocketmq_isolated.topic(), b"x"))
    with pytest.raises(NotRunning):
        await relay.ended()
    assert not relay.healthy
    await relay.stop()
    assert states(outbox, engine) == ["pending"]


@ONE_KIND
async def test_sent_rows_are_kept_for_a_while_and_then_deleted(
    outbox: Outbox, engine: Engine, producer: Producer, rocketmq_isolated: Isolated
) -> None:
    add(outbox, engine, Message(rocketmq_isolated.topic(), b"x"))
    async with Relay(outbox, engine, producer):
        await until_sent(outbox, engine)
    assert states(outbox, engine) == ["sent"]
    async with Relay(outbox, engine, producer, retention_ms=1) as relay:
        await until_in_database(engine, lambda _: not rows(outbox, engine))
        await until(lambda: relay.metrics.deleted == 1)
