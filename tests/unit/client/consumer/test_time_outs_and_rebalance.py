"""Handlers with a time of their own, and what an application hears of its queues."""

from __future__ import annotations

import asyncio

import pytest

from orbitmq.client.consumer.consumer import PushConsumer
from orbitmq.client.core.errors import HandlerTimeout, InvalidArgument
from orbitmq.client.core.message import ReceivedMessage
from orbitmq.client.core.options import FIRST_OFFSET
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.requests.client import NotifyConsumerIdsChanged
from orbitmq.protocol.requests.send import ConsumerSendMsgBack
from tests.kit.client_queues import Queues, until
from tests.kit.fake_broker import FakeBroker


async def test_a_handler_that_takes_too_long_is_cancelled_and_its_message_comes_again(
    broker: FakeBroker,
) -> None:
    Queues(broker, "T").put(b"0")
    errors, cancelled = list[Exception](), asyncio.Event()
    async with PushConsumer(
        "g", broker.address, consume_from_where=FIRST_OFFSET, on_error=errors.append
    ) as consumer:

        @consumer.on("T", timeout_ms=20)
        async def handle(message: ReceivedMessage) -> None:
            try:
                await asyncio.sleep(60)
            finally:
                cancelled.set()

        await broker.until(lambda: broker.of(ConsumerSendMsgBack))
    assert cancelled.is_set()
    assert [type(error) for error in errors] == [HandlerTimeout]


async def test_a_time_out_of_the_handler_s_own_stays_its_own(broker: FakeBroker) -> None:
    Queues(broker, "T").put(b"0")
    errors = list[Exception]()
    async with PushConsumer(
        "g", broker.address, consume_from_where=FIRST_OFFSET, on_error=errors.append
    ) as consumer:

        @consumer.on("T", timeout_ms=60_000)
        async def handle(message: ReceivedMessage) -> None:
            raise TimeoutError("the database's")

        await broker.until(lambda: broker.of(ConsumerSendMsgBack))
    assert [str(error) for error in errors] == ["the database's"]


def test_a_thread_cannot_be_timed_out() -> None:
    consumer = PushConsumer("g")
    for handler in (print, None):
        with pytest.raises(InvalidArgument, match="async handlers"):
            consumer.subscribe("T", "*", handler, timeout_ms=5)
    with pytest.raises(InvalidArgument, match="timeout_ms"):
        consumer.on("T", timeout_ms=-1)(print)


async def test_queues_that_come_and_go_are_told(broker: FakeBroker) -> None:
    Queues(broker, "T", queues=4)
    told: list[tuple[str, list[int]]] = []

    def teller(word: str, *, fails: bool = False) -> object:
        def tell(queues: list[MessageQueue]) -> None:
            told.append((word, [queue.queue_id for queue in queues]))
            if fails:
                raise RuntimeError("callback")

        return tell

    consumer = PushConsumer(
        "g",
        broker.address,
        on_assigned=teller("assigned", fails=True),  # type: ignore[arg-type]
        on_revoked=teller("revoked"),  # type: ignore[arg-type]
    )
    consumer.subscribe("T", "*", print)
    async with consumer:
        assert told == [("assigned", [0, 1, 2, 3])]
        broker.members["g"] = [consumer.client_id, "zzz"]
        broker.push(NotifyConsumerIdsChanged("g"))
        await until(lambda: len(told) == 2)
        assert told[1] == ("revoked", [2, 3])
        broker.members["g"] = [consumer.client_id]
        broker.push(NotifyConsumerIdsChanged("g"))
        await until(lambda: len(told) == 3)
        assert told[2] == ("assigned", [2, 3])
    assert told[3:] == [("revoked", [0, 1, 2, 3])]
