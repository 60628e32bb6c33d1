"""Queues that are read in order, when they change hands: never two handlers on one queue."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from orbitmq.client.consumer.consumer import PushConsumer
from orbitmq.client.core.message import ReceivedMessage
from orbitmq.client.core.options import FIRST_OFFSET
from orbitmq.protocol.bodies.queue import LockBatchResponseBody, MessageQueue
from orbitmq.protocol.requests.client import GetConsumerListByGroup, NotifyConsumerIdsChanged
from orbitmq.protocol.requests.lock import LockBatchMq, LockBatchReply, UnlockBatchMq
from orbitmq.protocol.requests.offset import UpdateConsumerOffset
from tests.kit.client_queues import Queues, until
from tests.kit.fake_broker import FakeBroker

SOMEBODY = "!"
"""A member that sorts before every other: it gets the first queue."""


class Handling:
    """A handler that ends when it is told to."""

    def __init__(self) -> None:
        self.begun: list[bytes] = []
        self.ended: list[bytes] = []
        self.most_at_a_time = 0
        self.go = asyncio.Event()

    async def __call__(self, message: ReceivedMessage) -> None:
        self.begun.append(message.body)
        self.most_at_a_time = max(self.most_at_a_time, len(self.begun) - len(self.ended))
        try:
            await self.go.wait()
        finally:
            self.ended.append(message.body)


@pytest.fixture
def queues(broker: FakeBroker) -> Queues:
    made = Queues(broker, "T", "%RETRY%g")
    made.put(b"0", b"1")
    broker.on(LockBatchMq, lambda request: LockBatchReply(LockBatchResponseBody(request.body.mq_set)))
    return made


@asynccontextmanager
async def reading(broker: FakeBroker, handle: Handling, **options: Any) -> AsyncIterator[PushConsumer]:
    consumer = PushConsumer("g", broker.address, consume_from_where=FIRST_OFFSET, ordered=True, **options)
    consumer.subscribe("T", "*", handle)
    async with consumer:
        await until(lambda: handle.begun)
        yield consumer


def somebody_comes(broker: FakeBroker) -> None:
    broker.members["g"].append(SOMEBODY)
    broker.push(NotifyConsumerIdsChanged("g"))


def somebody_goes(broker: FakeBroker) -> None:
    broker.members["g"].remove(SOMEBODY)
    broker.push(NotifyConsumerIdsChanged("g"))


def unlocked(broker: FakeBroker) -> list[str]:
    return [queue.topic for request in broker.of(UnlockBatchMq) for queue in request.body.mq_set]


async def test_what_is_in_hand_when_a_queue_goes_is_done_first(
    broker: FakeBroker, queues: Queues, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orbitmq.client.consumer.ordering.UNLOCK_WAIT_SECONDS", 60)
    handle = Handling()
    async with reading(broker, handle) as consumer:
        held = consumer._assignment.held(MessageQueue("T", "broker-a", 0))  # type: ignore[union-attr]
        assert held is not None
        somebody_comes(broker)
        await until(lambda: held.dropped)
        handle.go.set()
        await broker.until(lambda: "T" in unlocked(broker))
        assert handle.ended == [b"0"]
        assert queues.offsets["T", 0] == 1
        told = [type(request) for request in broker.asked]
        assert told.index(UpdateConsumerOffset) < told.index(UnlockBatchMq)


async def test_a_queue_is_not_unlocked_under_a_handler(
    broker: FakeBroker, queues: Queues, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orbitmq.client.consumer.ordering.UNLOCK_WAIT_SECONDS", 0.01)
    handle = Handling()
    async with reading(broker, handle, rebalance_interval_ms=10) as consumer:
        somebody_comes(broker)
        await until(lambda: not consumer.queues)
        asked = len(broker.of(GetConsumerListByGroup))
        await broker.until(lambda: len(broker.of(GetConsumerListByGroup)) > asked + 4)
        assert "T" not in unlocked(broker)
        handle.go.set()
        await broker.until(lambda: "T" in unlocked(broker))
        assert handle.ended == [b"0"]


async def test_a_queue_that_comes_back_waits_for_the_handler_it_left(
    broker: FakeBroker, queues: Queues, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orbitmq.client.consumer.ordering.UNLOCK_WAIT_SECONDS", 0.01)
    handle = Handling()
    async with reading(broker, handle, rebalance_interval_ms=10) as consumer:
        somebody_comes(broker)
        await until(lambda: not consumer.queues)
        somebody_goes(broker)
        await until(lambda: consumer.queues)
        asked = len(broker.of(GetConsumerListByGroup))
        await broker.until(lambda: len(broker.of(GetConsumerListByGroup)) > asked + 4)
        assert handle.begun == [b"0"]
        handle.go.set()
        await until(lambda: handle.ended[-1:] == [b"1"])
    assert handle.most_at_a_time == 1
    await broker.until(lambda: "T" in unlocked(broker))
    assert unlocked(broker).count("T") == 1


@pytest.mark.parametrize("in_time", [True, False])
async def test_closing_ends_handlers_of_queues_that_were_given_up(
    broker: FakeBroker, queues: Queues, monkeypatch: pytest.MonkeyPatch, in_time: bool
) -> None:
    monkeypatch.setattr("orbitmq.client.consumer.ordering.UNLOCK_WAIT_SECONDS", 0.01)
    handle = Handling()
    async with reading(broker, handle) as consumer:
        somebody_comes(broker)
        await until(lambda: not consumer.queues)
        if in_time:
            asyncio.get_running_loop().call_later(0.05, handle.go.set)
        await consumer.close(5000 if in_time else 10)
        assert handle.ended == [b"0"]
    assert "T" in unlocked(broker)


async def test_a_lock_that_was_asked_for_is_given_up_by_who_leaves_before_the_answer(
    broker: FakeBroker, queues: Queues
) -> None:
    broker.on(LockBatchMq, lambda request: None)
    consumer = PushConsumer("g", broker.address, ordered=True)
    consumer.subscribe("T", "*", Handling())
    starting = asyncio.create_task(consumer.start())
    await broker.until(lambda: broker.of(LockBatchMq))
    starting.cancel()
    await asyncio.wait([starting])
    [asked] = broker.of(LockBatchMq)
    await broker.until(lambda: unlocked(broker) == [queue.topic for queue in asked.body.mq_set])
