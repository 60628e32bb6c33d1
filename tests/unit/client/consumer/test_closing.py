"""Closing ends what waits, and takes no longer than it has to."""

from __future__ import annotations

import asyncio

import pytest

from orbitmq import sync
from orbitmq.client.core.errors import NotRunning
from orbitmq.client.core.message import Message, ReceivedMessage
from orbitmq.client.core.options import FIRST_OFFSET
from orbitmq.client.producer.producer import Producer
from orbitmq.protocol.names import TRACE_TOPIC
from orbitmq.protocol.requests.send import SendMessageV2, SendReply
from tests.kit.client_queues import Queues
from tests.kit.fake_broker import FakeBroker


async def test_who_waits_for_a_reply_is_told_that_the_producer_was_closed(broker: FakeBroker) -> None:
    broker.topic("T", 1)
    broker.on(SendMessageV2, lambda _: SendReply("0" * 32, 0, 0))
    producer = await Producer("g", broker.address).start()
    asking = asyncio.create_task(producer.request(Message("T", b"?"), timeout_ms=60_000))
    await broker.until(lambda: broker.of(SendMessageV2))
    await producer.close()
    async with asyncio.timeout(120):
        with pytest.raises(NotRunning):
            await asking


async def test_a_trace_that_nobody_takes_does_not_hold_up_the_end(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orbitmq.client.trace.tracing.TIMEOUT_MS", 1000)
    topics = [f"T{number}" for number in range(5)]
    for topic in (*topics, TRACE_TOPIC):
        broker.topic(topic, 1)
    broker.on(
        SendMessageV2,
        lambda request: None if request.topic == TRACE_TOPIC else SendReply("0" * 32, 0, 0),
    )
    producer = await Producer("g", broker.address, trace=True).start()
    for topic in topics:
        await producer.send(Message(topic, b"x"))
    await producer.close()
    assert len([request for request in broker.of(SendMessageV2) if request.topic == TRACE_TOPIC]) == 1


async def test_a_plain_handler_may_close_its_own_consumer(broker: FakeBroker) -> None:
    Queues(broker, "T").put(b"last")

    known_as: list[str] = []

    def consume() -> None:
        consumer = sync.PushConsumer(
            "g", broker.address, consume_from_where=FIRST_OFFSET, close_timeout_ms=300_000
        )

        def handle(message: ReceivedMessage) -> None:
            known_as.append(consumer.client_id)
            consumer.close()

        consumer.subscribe("T", "*", handle)
        with consumer:
            consumer.wait_closed()

    async with asyncio.timeout(60):  # long before the consumer gives its handlers up
        await asyncio.to_thread(consume)
    assert "@" in known_as[0]
