"""Handlers that take long, and handlers that end in unusual ways: the consumer goes on."""

from __future__ import annotations

import asyncio

import pytest

from orbitmq.client.consumer.consumer import PushConsumer
from orbitmq.client.core.message import ReceivedMessage
from orbitmq.client.core.options import FIRST_OFFSET
from orbitmq.protocol.requests.client import GetConsumerListByGroup
from orbitmq.protocol.requests.offset import QueryConsumerOffset
from orbitmq.protocol.requests.pull import PullMessage
from orbitmq.protocol.requests.send import ConsumerSendMsgBack
from tests.kit.client_queues import Queues, Seen, until
from tests.kit.fake_broker import FakeBroker


async def cancels_something(message: ReceivedMessage) -> None:
    lookup = asyncio.create_task(asyncio.sleep(60))
    lookup.cancel()
    await lookup


def finds_nothing(message: ReceivedMessage) -> None:
    next(iter(()))


@pytest.mark.parametrize("fails", [cancels_something, finds_nothing])
async def test_a_handler_that_ends_by_what_steers_python_has_failed(
    broker: FakeBroker, fails: object
) -> None:
    queues = Queues(broker, "T")
    queues.put(b"0", b"1", b"2")
    options = {"concurrency": 1}
    async with PushConsumer("g", broker.address, consume_from_where=FIRST_OFFSET, **options) as consumer:
        consumer.subscribe("T", "*", fails)  # type: ignore[arg-type]
        await broker.until(lambda: len(broker.of(ConsumerSendMsgBack)) == 3)
    assert queues.offsets[("T", 0)] == 3


@pytest.mark.parametrize("fails", [cancels_something, finds_nothing])
async def test_so_it_has_in_a_queue_that_is_read_in_order(broker: FakeBroker, fails: object) -> None:
    queues = Queues(broker, "T")
    queues.put(b"0")
    queues.lock_all()
    errors: list[Exception] = []
    options = {"ordered": True, "suspend_current_queue_time_ms": 10, "on_error": errors.append}
    async with PushConsumer("g", broker.address, consume_from_where=FIRST_OFFSET, **options) as consumer:
        consumer.subscribe("T", "*", fails)  # type: ignore[arg-type]
        await until(lambda: len(errors) >= 3)


async def test_a_consumer_that_is_closed_cancels_handlers_all_the_same(broker: FakeBroker) -> None:
    queues, cancelled = Queues(broker, "T"), asyncio.Event()
    queues.put(b"0")

    async def handle(message: ReceivedMessage) -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    consumer = PushConsumer("g", broker.address, consume_from_where=FIRST_OFFSET)
    consumer.subscribe("T", "*", handle)
    await consumer.start()
    await broker.until(lambda: len(broker.of(PullMessage)) >= 2)
    await consumer.close(10)
    assert cancelled.is_set()
    assert not broker.of(ConsumerSendMsgBack)


async def test_a_queue_is_kept_however_long_its_handlers_take(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orbitmq.client.consumer.pulling.IDLE_MS", 30)
    queues, go, seen = Queues(broker, "T", "%RETRY%g"), asyncio.Event(), Seen()
    queues.put(*(b"%d" % number for number in range(4)))

    async def handle(message: ReceivedMessage) -> None:
        await seen(message)
        await go.wait()

    options = {"pull_threshold_for_queue": 1, "pull_batch_size": 1, "rebalance_interval_ms": 20}
    async with PushConsumer("g", broker.address, consume_from_where=FIRST_OFFSET, **options) as consumer:
        consumer.subscribe("T", "*", handle)
        await seen.count(2)
        [queue] = consumer.queues
        asked = len(broker.of(GetConsumerListByGroup))
        await broker.until(lambda: len(broker.of(GetConsumerListByGroup)) >= asked + 10)
        assert consumer.queues == [queue]
        queries = [one for one in broker.of(QueryConsumerOffset) if one.topic == "T"]
        assert len(queries) == 1, "it was not given up and taken again"
        go.set()
        await seen.count(4)
    assert [message.body for message in seen] == [b"0", b"1", b"2", b"3"]
    assert queues.offsets[("T", 0)] == 4
