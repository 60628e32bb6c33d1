"""Messages that are done when somebody says so, not when their handler ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from orbitmq.client.consumer.consumer import PushConsumer
from orbitmq.client.core.errors import InvalidArgument
from orbitmq.client.core.handlers import Retry
from orbitmq.client.core.message import ReceivedMessage
from orbitmq.client.core.options import FIRST_OFFSET
from orbitmq.protocol.requests.send import ConsumerSendMsgBack
from tests.kit.client_queues import Queues, Seen, until
from tests.kit.fake_broker import FakeBroker


@pytest.fixture
def queues(broker: FakeBroker) -> Queues:
    made = Queues(broker, "T")
    made.put(b"0", b"1", b"2")
    return made


@pytest.fixture
async def consumer(broker: FakeBroker) -> AsyncIterator[PushConsumer]:
    made = PushConsumer(
        "g",
        broker.address,
        consume_from_where=FIRST_OFFSET,
        persist_consumer_offset_interval_ms=10,
        consume_timeout_ms=60_000,
    )
    async with made:
        yield made


async def test_the_offset_stays_before_what_is_not_acknowledged(
    queues: Queues, consumer: PushConsumer
) -> None:
    seen = Seen()
    consumer.subscribe("T", "*", seen, manual_ack=True)
    await seen.count(3)
    await consumer._assignment.commit(confirmed=True)  # type: ignore[union-attr]
    assert queues.offsets.get(("T", 0), 0) == 0, "their handlers have ended"
    first, second, third = sorted(seen, key=lambda message: message.queue_offset)
    await third.ack()
    await first.ack()
    await until(lambda: queues.offsets.get(("T", 0)) == 1)
    await first.ack()  # again is nothing new
    await consumer.ack(second)
    await until(lambda: queues.offsets.get(("T", 0)) == 3)


async def test_what_was_not_acknowledged_is_not_committed_at_the_end(
    queues: Queues, consumer: PushConsumer
) -> None:
    seen = Seen()
    consumer.subscribe("T", "*", seen, manual_ack=True)
    await seen.count(3)
    for message in seen:
        if message.queue_offset != 1:
            await message.ack()
    await consumer.close()
    assert queues.offsets["T", 0] == 1


async def test_a_handler_may_acknowledge_and_may_fail(
    broker: FakeBroker, queues: Queues, consumer: PushConsumer
) -> None:
    async def handle(message: ReceivedMessage) -> None:
        if message.queue_offset == 0:
            raise Retry(3)
        await message.ack()
        if message.queue_offset == 1:
            raise RuntimeError("too late: it is done")

    consumer.subscribe("T", "*", handle, manual_ack=True)
    await until(lambda: queues.offsets.get(("T", 0)) == 3)
    assert [request.delay_level for request in broker.of(ConsumerSendMsgBack)] == [3]


async def test_it_may_be_handed_out_again_after_its_handler(
    broker: FakeBroker, queues: Queues, consumer: PushConsumer
) -> None:
    lists = list[list[ReceivedMessage]]()

    async def handle(messages: list[ReceivedMessage]) -> None:
        lists.append(messages)

    consumer.subscribe("T", "*", handle, manual_ack=True, max_messages=3, max_wait_ms=10_000)
    await until(lambda: lists)
    [messages] = lists
    await consumer.retry(messages[0], 4)
    await asyncio.gather(*(message.ack() for message in messages))
    await until(lambda: queues.offsets.get(("T", 0)) == 3)
    assert [request.delay_level for request in broker.of(ConsumerSendMsgBack)] == [4]


async def test_an_acknowledgement_after_its_queue_went_is_nothing(
    queues: Queues, consumer: PushConsumer
) -> None:
    seen = Seen()
    consumer.subscribe("T", "*", seen, manual_ack=True)
    await seen.count(3)
    old = seen.copy()
    seen.clear()
    await consumer.seek({consumer.queues[0]: 0})
    await seen.count(3)
    for message in old:
        await message.ack()
    await consumer.close()
    assert queues.offsets["T", 0] == 0


async def test_who_never_acknowledges_sees_it_again(broker: FakeBroker, queues: Queues) -> None:
    seen = Seen()
    async with PushConsumer(
        "g", broker.address, consume_from_where=FIRST_OFFSET, consume_timeout_ms=100
    ) as consumer:
        consumer.subscribe("T", "*", seen, manual_ack=True)
        await broker.until(lambda: len(broker.of(ConsumerSendMsgBack)) == 3)


async def test_a_message_whose_handler_decides_cannot_be_acknowledged(
    queues: Queues, consumer: PushConsumer
) -> None:
    seen = Seen()
    consumer.subscribe("T", "*", seen)
    await seen.count(3)
    with pytest.raises(InvalidArgument, match="manual_ack"):
        await seen[0].ack()


async def test_a_message_of_an_iterator_can(queues: Queues, consumer: PushConsumer) -> None:
    consumer.subscribe("T")
    async for message in consumer:
        await message.ack()
        break
    await until(lambda: queues.offsets.get(("T", 0)) == 1)


def test_where_it_is_for_nothing() -> None:
    with pytest.raises(InvalidArgument, match="manual_ack"):
        PushConsumer("g").subscribe("T", manual_ack=True)
    with pytest.raises(InvalidArgument, match="manual_ack"):
        PushConsumer("g", ordered=True).subscribe("T", "*", print, manual_ack=True)
