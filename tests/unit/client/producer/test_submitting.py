"""Messages that are submitted: batches, order, back-pressure, and a result for each."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from orbitmq import sync
from orbitmq.client.core.errors import CancelledFromOutside, IllegalMessage, SendFailed
from orbitmq.client.core.message import Message, SendResult
from orbitmq.client.producer.deliveries_cy import Delivery
from orbitmq.client.producer.producer import Producer
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.requests.send import SendBatchMessage, SendMessageV2, SendReply
from orbitmq.testing.local_broker import Isolated
from tests.kit.fake_broker import FakeBroker


async def test_each_message_has_a_result_and_batches_grow_with_the_load(
    rocketmq_isolated: Isolated,
) -> None:
    topic = rocketmq_isolated.topic("orders", queues=2)
    heard: list[Delivery] = []
    async with Producer("shop", rocketmq_isolated.namesrv) as producer:
        deliveries = [
            await producer.submit(Message(topic, str(number)), on_delivery=heard.append)
            for number in range(1000)
        ]
        assert not deliveries[-1].done()
        await producer.flush()
        assert all(delivery.done() for delivery in deliveries)
        results = [await delivery for delivery in deliveries]
    assert len({result.message_id for result in results}) == 1000
    assert sorted((result.queue.queue_id, result.queue_offset) for result in results) == [
        (queue, offset) for queue, count in _counts(results) for offset in range(count)
    ]
    assert set(heard) == set(deliveries)


def _counts(results: list[SendResult]) -> list[tuple[int, int]]:
    ids = [result.queue.queue_id for result in results]
    return [(queue, ids.count(queue)) for queue in sorted(set(ids))]


async def test_messages_of_one_key_keep_their_order_over_an_outage(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orbitmq.client.sending.delivery.FIRST_PAUSE_SECONDS", 0.001)
    broker.topic("T", 4)
    stored: list[str] = []
    failures = iter([True, False, True, True] + [False] * 1000)

    def take(request: Any) -> Any:
        if next(failures):
            return Refused(14, "service not available")
        stored.append(request.properties)
        return SendReply("0" * 32, request.queue_id, len(stored))

    broker.on(SendMessageV2, take)
    async with Producer("g", broker.address) as producer:
        deliveries = []
        for number in range(20):
            # One wait each: alternating, so that none of them can share a batch.
            message = Message("T", "x", keys=f"n{number}", sharding_key="k", wait_store_ok=number % 2 == 0)
            deliveries.append(await producer.submit(message))
        await producer.flush()
        assert len({(await delivery).queue for delivery in deliveries}) == 1
    assert [text.split("KEYS\x01n")[1].split("\x02")[0] for text in stored] == [str(n) for n in range(20)]


async def test_a_submit_waits_while_too_many_are_not_stored(broker: FakeBroker) -> None:
    broker.topic("T", 1)
    go: list[bool] = []
    for kind in (SendMessageV2, SendBatchMessage):
        broker.on(kind, lambda _: SendReply("0" * 32, 0, 0) if go else None)
    async with Producer("g", broker.address, max_submitted=3, send_msg_timeout_ms=200) as producer:
        for _ in range(3):
            await producer.submit(Message("T", b"x"))
        fourth = asyncio.create_task(producer.submit(Message("T", b"x")))
        await broker.until(lambda: broker.of(SendBatchMessage))
        assert not fourth.done()
        go.append(True)
        await (await fourth)
        await producer.flush()


async def test_a_failure_is_told_to_whoever_awaits_or_by_flush(broker: FakeBroker) -> None:
    broker.topic("T", 1)
    broker.on(SendMessageV2, lambda _: Refused(13, "illegal"))
    async with Producer("g", broker.address) as producer:
        delivery = await producer.submit(Message("T", b"x"))
        with pytest.raises(Exception, match="illegal"):
            await delivery
        await producer.flush()
        await producer.submit(Message("T", b"x"))
        with pytest.raises(Exception, match="illegal"):
            await producer.flush()
        await producer.flush()
        with pytest.raises(IllegalMessage):
            await producer.submit("hello")  # type: ignore[arg-type]


async def test_one_that_cannot_go_takes_no_others_with_it(broker: FakeBroker) -> None:
    broker.topic("T", 1)
    broker.on(SendMessageV2, lambda _: SendReply("0" * 32, 0, 0))
    async with Producer("g", broker.address) as producer:
        good = [await producer.submit(Message("T", b"x")) for _ in range(2)]
        with pytest.raises(IllegalMessage):
            await producer.submit(Message("T", b"x", properties={"long": "x" * 40_000}))
        good += [await producer.submit(Message("T", b"x", delay_level=1)) for _ in range(2)]
        for delivery in good:
            await delivery


async def test_closing_waits_for_what_was_submitted_and_then_gives_it_up(broker: FakeBroker) -> None:
    broker.topic("T", 1)
    broker.on(SendMessageV2, lambda _: None)
    producer = await Producer("g", broker.address, delivery_timeout_ms=1000, send_msg_timeout_ms=500).start()
    delivery = await producer.submit(Message("T", b"x"))
    await producer.close()
    assert isinstance(delivery.exception(), SendFailed)


def test_a_thread_submits_and_waits(rocketmq_isolated: Isolated) -> None:
    topic = rocketmq_isolated.topic("orders", queues=1)
    with sync.Producer("shop", rocketmq_isolated.namesrv) as producer:
        deliveries = [producer.submit(Message(topic, str(number)), sharding_key="k") for number in range(20)]
        producer.flush()
        assert [delivery.result(120).queue_offset for delivery in deliveries] == list(range(20))
        assert all(delivery.done() for delivery in deliveries)


@pytest.mark.parametrize("at_once", [True, False], ids=["before its first step", "while a batch is sent"])
async def test_submitted_messages_whose_task_somebody_cancels_fail(broker: FakeBroker, at_once: bool) -> None:
    """Their deliveries stayed open for ever, and so did all later ones of the queue."""
    broker.topic("T", 1)
    broker.on(SendMessageV2, lambda _: SendReply("0" * 32, 0, 0))
    async with Producer("shop", broker.address) as producer:
        await producer.queues("T")
        broker.hold(SendMessageV2)
        first = await producer.submit(Message("T", b"first", sharding_key="k"))
        if not at_once:
            await broker.until(lambda: broker._held[SendMessageV2])
        second = await producer.submit(Message("T", b"second", sharding_key="k"))
        (sender,) = producer._submitter._of_queue.values()
        assert sender.task is not None
        sender.task.cancel()
        async with asyncio.timeout(5):
            for delivery in (first, second):
                with pytest.raises(CancelledFromOutside):
                    await delivery
            broker.release(SendMessageV2)
            await (await producer.submit(Message("T", b"third", sharding_key="k")))
            await producer.flush()
