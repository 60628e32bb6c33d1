"""A row that is sent twice, for its relay died before it could note the first send, has one effect."""

from __future__ import annotations

import asyncio

import pytest
from sqlalchemy import Engine, update

from orbitmq import Message, Producer, PushConsumer, ReceivedMessage
from orbitmq.idempotence import Event, MemoryStore, once
from orbitmq.outbox import ROW_ID, Outbox, Relay
from orbitmq.testing.local_broker import Isolated
from tests.kit.outbox import states, stored, until_in_database


@pytest.mark.parametrize("kind", ["sqlite"])
async def test_a_row_that_is_sent_twice_has_one_effect(
    outbox: Outbox, engine: Engine, rocketmq_isolated: Isolated
) -> None:
    topic = rocketmq_isolated.topic()

    def write() -> None:
        with engine.begin() as connection:
            outbox.add_all(connection, [Message(topic, b"%d" % n) for n in range(5)])

    def forget() -> None:
        with engine.begin() as connection:
            connection.execute(update(outbox.messages).values(state="pending"))

    await asyncio.to_thread(write)
    async with Producer("outbox", rocketmq_isolated.namesrv) as producer:
        for _ in range(2):
            async with Relay(outbox, engine, producer):
                await until_in_database(engine, lambda _: set(states(outbox, engine)) == {"sent"})
            await asyncio.to_thread(forget)
    assert len(await stored(rocketmq_isolated.namesrv, topic)) == 10
    effects: list[bytes] = []
    guard = once(MemoryStore(), key=ROW_ID)

    @guard
    async def handle(message: ReceivedMessage) -> None:
        effects.append(message.body)

    consumer = PushConsumer(rocketmq_isolated.group(), rocketmq_isolated.namesrv)
    consumer.subscribe(topic, handler=handle)
    async with consumer, asyncio.timeout(60):
        while guard.counts[Event.DUPLICATE] < 5:  # noqa: ASYNC110 - the consumer's own tasks count
            await asyncio.sleep(0.01)
    assert sorted(effects) == [b"0", b"1", b"2", b"3", b"4"]
