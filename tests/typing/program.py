"""A program as users write them: it is only checked, by mypy strict and by pyright, and never run."""

from __future__ import annotations

from typing import assert_type

import msgspec

import orbitmq.sync
from orbitmq import (
    Admin,
    ClientEvent,
    DeadLetterPolicy,
    Delivery,
    Message,
    MessageQueue,
    Producer,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
    Reply,
    Retry,
    SendResult,
    TransactionProducer,
    TransactionState,
    run,
)
from orbitmq.errors import BrokerRefused, DeserializationFailed, SendFailed
from orbitmq.serializers import JsonSerializer, MsgspecSerializer
from orbitmq.telemetry import OpenTelemetry
from orbitmq.testing import LocalBroker


class Order(msgspec.Struct):
    """The value that travels."""

    id: str
    quantity: int


orders = MsgspecSerializer(Order)
consumer = PushConsumer(
    "billing",
    ["127.0.0.1:9876"],
    dead_letter_policy=DeadLetterPolicy(max_attempts=5, dead_letter_on=(DeserializationFailed,)),
    max_in_flight_per_key=1,
    middleware=[OpenTelemetry()],
)


@consumer.on("orders", tags="new || changed", serializer=orders, timeout_ms=5000)
async def bill(message: ReceivedMessage[Order]) -> None:
    """A handler of objects."""
    assert_type(message.value, Order)
    assert_type(message.value.quantity, int)
    assert_type(message.keys, list[str])


@consumer.on("invoices", max_messages=100, max_wait_ms=500)
async def insert(messages: list[ReceivedMessage]) -> Retry | None:
    """A handler of batches."""
    failed = [message for message in messages if not message.body]
    return Retry(messages=failed) if failed else None


@consumer.on("questions")
def answer(message: ReceivedMessage) -> Reply:
    """A plain handler."""
    return Reply(message.body.upper())


async def send() -> None:
    """Sends in every way."""

    def stored(delivery: Delivery) -> None:
        assert_type(delivery.message, Message)

    def heard(event: ClientEvent) -> None:
        assert_type(event.address, str)

    async with Producer("shop", on_event=heard) as producer:
        result = await producer.send(Message.of("orders", Order("17", 3), orders, keys="17"))
        assert_type(result, SendResult)
        assert_type(result.queue, MessageQueue)
        delivery = await producer.submit(Message("orders", b"{}"), on_delivery=stored)
        assert_type(await delivery, SendResult)
        await producer.flush()
        assert_type(await producer.send_batch([Message("orders", "1")]), list[SendResult])
        reply = await producer.request(Message("questions", "why"), timeout_ms=1000)
        assert_type(reply.decode(orders), Order)
        JsonSerializer().deserialize(reply.body, reply.properties)
        try:
            await producer.send(Message("orders", b"1"))
        except SendFailed as error:
            assert_type(error.failures, list[tuple[str, Exception]])
        except BrokerRefused as error:
            print(error.code, error.remark)


async def read() -> None:
    """Reads by hand, and asks operators' questions."""
    async with PullConsumer("audit") as reader:
        for queue in await reader.queues("orders"):
            for message in await reader.pull(queue, 0):
                assert_type(message.queue_offset, int)
    async with Admin() as admin:
        assert_type(await admin.create_topic("orders", queues=4), list[str])
        assert_type((await admin.group_progress("billing")).lag, int)


def blocking() -> None:
    """The same without asyncio."""
    with LocalBroker() as broker, orbitmq.sync.Producer("shop", broker.namesrv) as producer:
        assert_type(producer.send(Message("orders", b"1")), SendResult)
        delivery = producer.submit(Message("orders", b"1"))
        assert_type(delivery.result(), SendResult)
    with orbitmq.sync.PushConsumer("billing") as blocking_consumer:
        blocking_consumer.subscribe("orders")
        for message in blocking_consumer:
            print(message.body)


def decide(message: Message | ReceivedMessage) -> TransactionState:
    """The decision about a half message."""
    return TransactionState.COMMIT


transactions = TransactionProducer("shop", check=decide)

if __name__ == "__main__":
    raise SystemExit(run(consumer))
