from __future__ import annotations

import asyncio

import pytest

from orbitmq.client.core.message import Message, SendResult
from orbitmq.client.producer.producer import Producer
from orbitmq.protocol.errors import MessageIllegal, Refused
from orbitmq.protocol.records.batch_cy import split_batch
from orbitmq.protocol.requests.send import SendBatchMessage, SendReply
from tests.kit.fake_broker import FakeBroker


class Log:
    """Stores batches as a broker does, and watches how many are under way per queue."""

    def __init__(self, broker: FakeBroker) -> None:
        self.queues: dict[int, list[bytes]] = {}
        self.batches: list[int] = []
        self.failing = 0
        broker.on(SendBatchMessage, self.store)

    def store(self, request: SendBatchMessage) -> SendReply | Refused:
        if self.failing:
            self.failing -= 1
            return Refused(2, "busy")
        queue = self.queues.setdefault(request.queue_id, [])
        parts = split_batch(bytes(request.body))
        self.batches.append(len(parts))
        first = len(queue)
        queue += [body for _, body, _ in parts]
        return SendReply(",".join(["X"] * len(parts)), request.queue_id, first)


async def test_everything_is_sent_in_batches_and_in_order(broker: FakeBroker) -> None:
    broker.topic("T", 4)
    log = Log(broker)
    told: list[SendResult] = []
    async with Producer("g", broker.address) as producer:
        messages = (Message("T", str(n), sharding_key=f"k{n % 5}") for n in range(1000))
        assert await producer.send_all(messages, batch_size=50, on_sent=told.extend) == 1000
    assert len(told) == sum(log.batches) == 1000
    assert max(log.batches) == 50
    assert len(log.batches) < 100
    for bodies in log.queues.values():
        for key in range(5):
            mine = [int(body) for body in bodies if int(body) % 5 == key]
            assert mine == sorted(mine)


async def test_messages_without_a_key_fill_batch_after_batch(broker: FakeBroker) -> None:
    broker.topic("T", 4)
    log = Log(broker)
    async with Producer("g", broker.address) as producer:
        assert await producer.send_all((Message("T", b"x") for _ in range(800)), batch_size=100) == 800
    assert {queue: len(bodies) for queue, bodies in log.queues.items()} == dict.fromkeys(range(4), 200)


async def test_a_batch_that_failed_is_sent_again_in_its_place(broker: FakeBroker) -> None:
    broker.topic("T", 1)
    log = Log(broker)
    log.failing = 2
    async with Producer("g", broker.address) as producer:
        assert await producer.send_all(Message("T", str(n)) for n in range(300)) == 300
    assert [int(body) for body in log.queues[0]] == list(range(300))


async def test_a_refusal_ends_it_and_is_raised(broker: FakeBroker) -> None:
    broker.topic("T", 2)
    broker.on(SendBatchMessage, lambda _: Refused(13, "illegal"))
    read = 0

    def messages():
        nonlocal read
        for _ in range(100_000):
            read += 1
            yield Message("T", b"x")

    async with Producer("g", broker.address) as producer:
        with pytest.raises(MessageIllegal):
            await producer.send_all(messages())
    assert read < 2000


async def test_several_topics_may_be_mixed(broker: FakeBroker) -> None:
    broker.topic("T", 1)
    broker.topic("U", 1)
    sent: dict[str, int] = {}

    def store(request: SendBatchMessage) -> SendReply:
        count = len(split_batch(bytes(request.body)))
        sent[request.topic] = sent.get(request.topic, 0) + count
        return SendReply("X", 0, 0)

    broker.on(SendBatchMessage, store)
    async with Producer("g", broker.address) as producer:
        assert await producer.send_all(Message("TU"[n % 2], b"x") for n in range(100)) == 100
    assert sent == {"T": 50, "U": 50}


async def test_a_slow_stream_is_not_held_back(broker: FakeBroker) -> None:
    broker.topic("T", 1)
    log = Log(broker)

    async def messages():
        for number in range(3):
            yield Message("T", str(number))
            await broker.until(lambda number=number: len(log.queues.get(0, ())) > number)

    async with Producer("g", broker.address) as producer, asyncio.timeout(120):
        assert await producer.send_all(messages()) == 3


async def test_who_is_cancelled_leaves_nothing_under_way(broker: FakeBroker) -> None:
    broker.topic("T", 4)
    broker.on(SendBatchMessage, lambda _: None)
    async with Producer("g", broker.address, send_msg_timeout_ms=600_000) as producer:
        before = asyncio.all_tasks()
        messages = [Message("T", b"x")] * 10_000
        sending = asyncio.create_task(producer.send_all(messages))
        await broker.until(lambda: len(broker.of(SendBatchMessage)) == 4)
        sending.cancel()
        async with asyncio.timeout(120):
            with pytest.raises(asyncio.CancelledError):
                await sending
            if left := asyncio.all_tasks() - before:
                await asyncio.wait(left)
    assert len(broker.of(SendBatchMessage)) == 4
