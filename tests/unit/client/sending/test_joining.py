"""Sends that begin at the same time and share a request: each has its own result, and its own failure."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from orbitmq.client.consumer.pull_consumer import PullConsumer
from orbitmq.client.core.errors import CancelledFromOutside, IllegalMessage
from orbitmq.client.core.message import Message, SendResult
from orbitmq.client.producer.producer import Producer
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.errors import BrokerRefused, Refused
from orbitmq.protocol.records.batch_cy import split_batch
from orbitmq.protocol.records.properties import decode_properties
from orbitmq.protocol.requests.send import SendBatchMessage, SendMessageV2, SendReply
from orbitmq.testing.local_broker import Isolated
from tests.kit.fake_broker import FakeBroker


def bodies_of(request: SendBatchMessage) -> list[bytes]:
    return [bytes(entry[1]) for entry in split_batch(request.body)]


def storing(broker: FakeBroker) -> None:
    """A broker that stores whatever comes, one offset after the other."""
    ends: dict[int, int] = {}

    def store(request: Any) -> SendReply:
        count = len(bodies_of(request)) if isinstance(request, SendBatchMessage) else 1
        first = ends.get(request.queue_id, 0)
        ends[request.queue_id] = first + count
        ids = ",".join(f"{first + number:032X}" for number in range(count))
        return SendReply(ids, request.queue_id, first)

    broker.on(SendMessageV2, store)
    broker.on(SendBatchMessage, store)


async def test_each_of_many_sends_at_a_time_has_the_place_of_its_own_message(
    rocketmq_isolated: Isolated,
) -> None:
    topic = rocketmq_isolated.topic("orders", queues=4)
    async with Producer("shop", rocketmq_isolated.namesrv) as producer:
        results = await asyncio.gather(
            *(producer.send(Message(topic, str(number), keys=f"k{number}")) for number in range(500))
        )
        queues = await producer.queues(topic)
    assert len({result.message_id for result in results}) == 500
    assert len({(result.queue, result.queue_offset) for result in results}) == 500
    stored = {}
    async with PullConsumer("readers", rocketmq_isolated.namesrv) as consumer:
        for queue in queues:
            offset = 0
            while pulled := await consumer.pull(queue, offset):
                offset = pulled.next_offset
                for message in pulled:
                    stored[queue, message.queue_offset] = message.body, message.message_id, message.keys
    for number, result in enumerate(results):
        assert stored[result.queue, result.queue_offset] == (
            str(number).encode(),
            result.message_id,
            [f"k{number}"],
        )


async def test_the_first_leaves_at_once_and_those_beside_it_together(broker: FakeBroker) -> None:
    broker.topic("T", 1)
    storing(broker)
    async with Producer("g", broker.address) as producer:
        await producer.send(Message("T", b"before"))
        await asyncio.gather(*(producer.send(Message("T", b"%d" % number)) for number in range(10)))
        await producer.send(Message("T", b"after"))
    assert [request.body for request in broker.of(SendMessageV2)] == [b"before", b"0", b"after"]
    assert [bodies_of(request) for request in broker.of(SendBatchMessage)] == [
        [b"%d" % number for number in range(1, 10)]
    ]


async def test_a_result_is_that_of_a_send_by_itself(broker: FakeBroker) -> None:
    broker.topic("T", 1)
    storing(broker)
    async with Producer("g", broker.address) as producer:
        results = await asyncio.gather(*(producer.send(Message("T", b"x")) for _ in range(3)))
    queue = MessageQueue("T", "broker-a", 0)
    assert [(result.queue, result.queue_offset) for result in results] == [(queue, at) for at in range(3)]
    assert [int(result.offset_message_id, 16) for result in results] == [0, 1, 2]
    for result in results[1:]:
        assert result.transaction_id == result.message_id


@pytest.mark.parametrize(
    ("odd", "options"),
    [
        (Message("T", b"odd", delay_level=1), {}),
        (Message("T", b"odd", delay_ms=1000), {}),
        (Message("T", b"odd" * 1000), {"compress_msg_body_over_bytes": 2000}),
        (Message("T", b"odd", wait_store_ok=False), {}),
        (Message("U", b"odd"), {}),
    ],
)
async def test_what_no_batch_holds_goes_alone(
    broker: FakeBroker, odd: Message, options: dict[str, Any]
) -> None:
    broker.topic("T", 1)
    broker.topic("U", 1)
    storing(broker)
    async with Producer("g", broker.address, **options) as producer:
        plain = [Message("T", b"%d" % number) for number in range(4)]
        await asyncio.gather(*(producer.send(message) for message in [*plain[:2], odd, *plain[2:]]))
    assert len(broker.of(SendMessageV2)) == 2
    assert [bodies_of(request) for request in broker.of(SendBatchMessage)] == [[b"1", b"2", b"3"]]


async def test_sends_to_a_queue_or_of_a_key_keep_to_it(broker: FakeBroker) -> None:
    broker.topic("T", 4)
    storing(broker)
    third = MessageQueue("T", "broker-a", 3)
    async with Producer("g", broker.address) as producer:
        by_queue = [producer.send(Message("T", b"q%d" % number), queue=third) for number in range(5)]
        by_key = [producer.send(Message("T", b"k%d" % number), sharding_key="k") for number in range(5)]
        results = await asyncio.gather(*by_queue, *by_key)
    assert {result.queue for result in results[:5]} == {third}
    keyed = results[5:]
    assert len({result.queue for result in keyed}) == 1
    assert [result.queue_offset for result in keyed] == sorted(result.queue_offset for result in keyed)


async def test_many_bytes_are_several_requests(broker: FakeBroker) -> None:
    broker.topic("T", 1)
    storing(broker)
    async with Producer("g", broker.address) as producer:
        await asyncio.gather(*(producer.send(Message("T", b"x" * 3000)) for _ in range(301)))
    sizes = [len(request.body) for request in broker.of(SendBatchMessage)]
    assert len(sizes) >= 4
    assert max(sizes) <= 256 << 10
    assert sum(len(bodies_of(request)) for request in broker.of(SendBatchMessage)) == 300


async def test_where_a_request_is_refused_only_the_message_that_no_broker_takes_fails(
    broker: FakeBroker,
) -> None:
    broker.topic("T", 1)
    storing(broker)
    ids: list[str] = []

    def refuse(request: SendBatchMessage) -> Refused:
        ids.extend(
            decode_properties(bytes(entry[2]).decode())["UNIQ_KEY"] for entry in split_batch(request.body)
        )
        return Refused(13, "the message is illegal")

    def take_alone(request: SendMessageV2) -> SendReply | Refused:
        return Refused(13, "the message is illegal") if request.body == b"3" else SendReply("0" * 32, 0, 0)

    broker.on(SendBatchMessage, refuse)
    broker.on(SendMessageV2, take_alone)
    async with Producer("g", broker.address) as producer:
        outcomes = await asyncio.gather(
            *(producer.send(Message("T", b"%d" % number)) for number in range(6)), return_exceptions=True
        )
    assert [isinstance(outcome, SendResult) for outcome in outcomes] == [True, True, True, False, True, True]
    assert isinstance(outcomes[3], BrokerRefused)
    sent_again = {
        decode_properties(request.properties or "")["UNIQ_KEY"] for request in broker.of(SendMessageV2)
    }
    assert set(ids) < sent_again, "under the ids that they have"


async def test_an_illegal_message_fails_its_own_send_alone(broker: FakeBroker) -> None:
    broker.topic("T", 1)
    storing(broker)
    async with Producer("g", broker.address) as producer:
        bad = Message("T", b"x")
        bad.keys = ("a\x02b",)
        good = [producer.send(Message("T", b"x")) for _ in range(3)]
        outcomes = await asyncio.gather(*good, producer.send(bad), return_exceptions=True)
    assert isinstance(outcomes[-1], IllegalMessage)
    assert all(isinstance(outcome, SendResult) for outcome in outcomes[:-1])


async def test_a_send_that_is_cancelled_before_it_leaves_is_not_sent(broker: FakeBroker) -> None:
    broker.topic("T", 1)
    storing(broker)
    async with Producer("g", broker.address) as producer:
        await producer.send(Message("T", b"before"))
        sends = [asyncio.ensure_future(producer.send(Message("T", b"%d" % number))) for number in range(5)]
        await asyncio.sleep(0)
        sends[2].cancel()
        outcomes = await asyncio.gather(*sends, return_exceptions=True)
    assert isinstance(outcomes[2], asyncio.CancelledError)
    assert [bodies_of(request) for request in broker.of(SendBatchMessage)] == [[b"1", b"3", b"4"]]


async def test_a_send_that_is_cancelled_on_its_way_takes_no_others_with_it(broker: FakeBroker) -> None:
    broker.topic("T", 1)
    answers: list[bool] = []
    broker.on(SendMessageV2, lambda _: SendReply("0" * 32, 0, 0))
    broker.on(SendBatchMessage, lambda _: SendReply("0" * 32, 0, 1) if answers else None)
    async with Producer("g", broker.address, send_msg_timeout_ms=200) as producer:
        sends = [asyncio.ensure_future(producer.send(Message("T", b"%d" % number))) for number in range(4)]
        await broker.until(lambda: broker.of(SendBatchMessage))
        sends[2].cancel()
        answers.append(True)
        outcomes = await asyncio.gather(*sends, return_exceptions=True)
    assert [isinstance(outcome, SendResult) for outcome in outcomes] == [True, True, False, True]


async def test_without_the_option_each_send_is_a_request(broker: FakeBroker) -> None:
    broker.topic("T", 1)
    storing(broker)
    async with Producer("g", broker.address, join_sends=False) as producer:
        await asyncio.gather(*(producer.send(Message("T", b"x")) for _ in range(10)))
    assert len(broker.of(SendMessageV2)) == 10
    assert not broker.of(SendBatchMessage)


async def test_closing_waits_for_sends_that_share_a_request(broker: FakeBroker) -> None:
    broker.topic("T", 1)
    storing(broker)
    producer = await Producer("g", broker.address).start()
    sends = [asyncio.ensure_future(producer.send(Message("T", b"x"))) for _ in range(5)]
    await asyncio.sleep(0)
    await producer.close()
    assert all(isinstance(result, SendResult) for result in await asyncio.gather(*sends))


async def test_a_send_whose_task_somebody_cancels_fails(broker: FakeBroker) -> None:
    """The caller waited for ever: a program that cancels all tasks that it finds cancelled that one, too."""
    storing(broker)
    broker.topic("T", 1)
    async with Producer("shop", broker.address) as producer:
        await producer.queues("T")
        for kind in (SendMessageV2, SendBatchMessage):
            broker.hold(kind)
        alone, *joined = [asyncio.create_task(producer.send(Message("T", b"x"))) for _ in range(3)]
        await broker.until(lambda: broker._held[SendBatchMessage])
        for task in producer._joiner._tasks:
            task.cancel()
        async with asyncio.timeout(5):
            found = await asyncio.gather(*joined, return_exceptions=True)
        assert [type(one) for one in found] == [CancelledFromOutside] * 2
        for kind in (SendMessageV2, SendBatchMessage):
            broker.release(kind)
        await alone
        await producer.send(Message("T", b"after"))
