"""Messages of one key take turns, those of others do not wait for them."""

from __future__ import annotations

import asyncio

import pytest

from orbitmq.client.consumer.consumer import PushConsumer
from orbitmq.client.core.errors import InvalidArgument
from orbitmq.client.core.message import ReceivedMessage
from orbitmq.client.core.options import FIRST_OFFSET
from tests.kit.client_queues import Queues
from tests.kit.fake_broker import FakeBroker


def consumer_of(broker: FakeBroker, most: int) -> PushConsumer:
    return PushConsumer("g", broker.address, consume_from_where=FIRST_OFFSET, max_in_flight_per_key=most)


class Held:
    """A handler that notes which messages are in hand, and ends each when it is told to."""

    def __init__(self) -> None:
        self.begun: list[bytes] = []
        self._ends: dict[bytes, asyncio.Event] = {}
        self._news = asyncio.Condition()

    async def __call__(self, message: ReceivedMessage) -> None:
        ended = self._ends[message.body] = asyncio.Event()
        async with self._news:
            self.begun.append(message.body)
            self._news.notify_all()
        await ended.wait()
        if message.body.endswith(b"!"):
            raise RuntimeError("failed")

    def end(self, body: bytes) -> None:
        self._ends[body].set()

    async def count(self, most: int) -> list[bytes]:
        async with self._news, asyncio.timeout(60):
            await self._news.wait_for(lambda: len(self.begun) >= most)
        return sorted(self.begun)


async def test_the_next_of_a_key_begins_when_the_one_before_has_ended(broker: FakeBroker) -> None:
    queues = Queues(broker, "T")
    queues.put(b"a1!", b"a2", b"a3", KEYS="a")
    queues.put(b"b1", KEYS="b other")
    queues.put(b"free1", b"free2")
    held = Held()
    async with consumer_of(broker, 1) as consumer:
        consumer.subscribe("T", "*", held)
        assert await held.count(4) == [b"a1!", b"b1", b"free1", b"free2"]
        held.end(b"a1!")  # one that fails holds up nobody
        assert (await held.count(5))[1] == b"a2"
        held.end(b"a2")
        assert await held.count(6) == [b"a1!", b"a2", b"a3", b"b1", b"free1", b"free2"]
        for body in (b"a3", b"b1", b"free1", b"free2"):
            held.end(body)


async def test_so_many_of_a_key_as_are_wanted(broker: FakeBroker) -> None:
    queues = Queues(broker, "T")
    queues.put(b"a1", b"a2", b"a3", KEYS="a")
    held = Held()
    async with consumer_of(broker, 2) as consumer:
        consumer.subscribe("T", "*", held)
        assert await held.count(2) == [b"a1", b"a2"]
        held.end(b"a2")
        assert await held.count(3) == [b"a1", b"a2", b"a3"]
        for body in (b"a1", b"a3"):
            held.end(body)


def test_is_neither_for_batches_nor_for_ordered_consumers() -> None:
    with pytest.raises(InvalidArgument, match="max_in_flight_per_key"):
        PushConsumer("g", max_in_flight_per_key=1, ordered=True)
    consumer = PushConsumer("g", max_in_flight_per_key=1)
    with pytest.raises(InvalidArgument, match="single messages"):
        consumer.subscribe("T", "*", print, max_messages=2)
