"""Bodies as objects: what a handler gets, and what becomes of a body that is none."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from orbitmq.client.consumer.consumer import PushConsumer
from orbitmq.client.core.dead_letter_policy import DeadLetterPolicy
from orbitmq.client.core.errors import DeserializationFailed, InvalidArgument
from orbitmq.client.core.message import ReceivedMessage
from orbitmq.client.core.options import FIRST_OFFSET
from orbitmq.protocol.requests.send import SendMessageV2, SendReply
from orbitmq.serializers import JsonSerializer
from tests.kit.client_queues import Queues
from tests.kit.fake_broker import FakeBroker


def consumer_of(broker: FakeBroker, **options: Any) -> PushConsumer:
    return PushConsumer("g", broker.address, consume_from_where=FIRST_OFFSET, **options)


async def test_a_handler_gets_the_value_and_it_is_read_once(broker: FakeBroker) -> None:
    Queues(broker, "T").put(b'{"id": 1}', contentType="application/json")
    got: asyncio.Future[ReceivedMessage[Any]] = asyncio.get_running_loop().create_future()

    async def handle(message: ReceivedMessage[Any]) -> None:
        got.set_result(message)

    async with consumer_of(broker) as consumer:
        consumer.subscribe("T", "*", handle, serializer=JsonSerializer())
        message = await asyncio.wait_for(got, 60)
    assert message.value == {"id": 1}
    assert message.value is message.value
    assert message.content_type == "application/json"


async def test_so_does_async_for(broker: FakeBroker) -> None:
    Queues(broker, "T").put(b"[1]")
    async with consumer_of(broker) as consumer:
        consumer.subscribe("T", serializer=JsonSerializer())
        async for message in consumer:
            assert message.value == [1]
            break


async def test_without_a_serializer_the_error_says_what_to_do(broker: FakeBroker) -> None:
    Queues(broker, "T").put(b"[1]")
    async with consumer_of(broker) as consumer:
        consumer.subscribe("T")
        async for message in consumer:
            with pytest.raises(InvalidArgument, match="serializer="):
                message.value  # noqa: B018
            assert message.decode(JsonSerializer()) == [1]
            break


async def test_a_body_that_cannot_be_read_may_be_a_dead_letter_at_once(broker: FakeBroker) -> None:
    Queues(broker, "T").put(b"no json", UNIQ_KEY="U")
    broker.topic("%RETRY%g", 1)
    broker.on(SendMessageV2, lambda _: SendReply("0" * 32, 0, 0))

    async def handle(message: ReceivedMessage[Any]) -> None:
        message.value  # noqa: B018

    policy = DeadLetterPolicy(dead_letter_on=(DeserializationFailed,))
    async with consumer_of(broker, dead_letter_policy=policy) as consumer:
        consumer.subscribe("T", "*", handle, serializer=JsonSerializer())
        await broker.until(lambda: bool(broker.of(SendMessageV2)))
    [copy] = broker.of(SendMessageV2)
    assert "DeserializationFailed" in (copy.properties or "")
    assert "7 bytes (no content type) cannot be read by JsonSerializer" in (copy.properties or "")
