"""Sending, against OrbitMQ and Apache: every message is read back from the place that was told."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections import Counter

import pytest

from orbitmq import (
    BrokerRefused,
    IllegalMessage,
    Message,
    MessageQueue,
    MessageTooLarge,
    NoNameServer,
    NotRunning,
    Producer,
    PullConsumer,
    ReceivedMessage,
    SendResult,
    SendStatus,
    TopicNotFound,
)
from orbitmq.protocol.names import IllegalName
from tests.client.conftest import Cluster
from tests.client.naming import fresh
from tests.kit.brokers import BOTH_BROKERS


@pytest.fixture
async def reader(cluster: Cluster):
    async with PullConsumer("client-tests-reader", cluster.namesrv) as started:
        yield started


async def read_all(reader: PullConsumer, topic: str, count: int) -> list[ReceivedMessage]:
    """Every message of a topic, once there are so many: what is stored can be pulled a little later."""
    found: list[ReceivedMessage] = []
    async with asyncio.timeout(120):
        offsets = {queue: await reader.min_offset(queue) for queue in await reader.queues(topic)}
        while len(found) < count:
            for queue, offset in offsets.items():
                messages = await reader.pull(queue, offset)
                found += messages
                offsets[queue] = messages.next_offset
    return found


async def stored(reader: PullConsumer, result: SendResult, after: int = 0) -> ReceivedMessage:
    """The message at the place that a send told, or so many after it."""
    async with asyncio.timeout(60):
        while True:
            with contextlib.suppress(TopicNotFound):  # a broker may tell name servers of a new topic later
                if messages := await reader.pull(result.queue, result.queue_offset + after, 1, wait_ms=1000):
                    return messages[0]
            await asyncio.sleep(0.05)


async def all_stored(reader: PullConsumer, queue: MessageQueue, count: int) -> list[ReceivedMessage]:
    """The first messages of a queue, once there are so many: what is stored can be pulled a little later."""
    async with asyncio.timeout(60):
        while len(messages := await reader.pull(queue, 0, wait_ms=1000)) < count:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    return messages


@BOTH_BROKERS
async def test_a_message_arrives_as_it_was_sent(producer: Producer, reader: PullConsumer) -> None:
    topic = fresh("sent")
    message = Message(
        topic, "grüße", tags="TagA", keys=["k1", "k2"], properties={"user": "ö"}, flag=7, sharding_key="s"
    )
    result = await producer.send(message)
    assert result.status is SendStatus.SEND_OK
    assert result.queue_offset == 0
    received = await stored(reader, result)
    assert received.body.decode() == "grüße"
    assert (received.tags, received.keys, received.flag) == ("TagA", ["k1", "k2"], 7)
    assert (received.properties["user"], received.sharding_key) == ("ö", "s")
    assert received.message_id == result.message_id
    assert received.offset_message_id == result.offset_message_id
    assert received.reconsume_times == 0
    assert abs(received.store_timestamp_ms - received.born_timestamp_ms) < 60_000


async def test_messages_go_to_every_queue_in_turn(producer: Producer) -> None:
    topic = fresh("turns")
    results = [await producer.send(Message(topic, b"x")) for _ in range(8)]
    assert Counter(result.queue.queue_id for result in results) == dict.fromkeys(range(4), 2)


async def test_each_queue_can_be_sent_to(producer: Producer, reader: PullConsumer) -> None:
    topic = fresh("queues")
    for queue in await producer.queues(topic):
        result = await producer.send(Message(topic, f"to {queue.queue_id}"), queue=queue)
        assert result.queue == queue
        received = await stored(reader, result)
        assert received.body.decode() == f"to {queue.queue_id}"


async def test_a_selector_and_a_key_decide_the_queue_and_so_the_order(
    producer: Producer, reader: PullConsumer
) -> None:
    topic = fresh("ordered")
    for number in range(30):
        await producer.send(Message(topic, str(number)), sharding_key=f"k{number % 3}")
    last = await producer.send(Message(topic, b"chosen"), selector=lambda queues, message: queues[-1])
    assert last.queue == (await producer.queues(topic))[-1]
    by_queue: dict[int, list[int]] = {}
    for message in await read_all(reader, topic, 31):
        if message.body != b"chosen":
            by_queue.setdefault(message.queue.queue_id, []).append(int(message.body))
    assert sum(map(len, by_queue.values())) == 30
    for numbers in by_queue.values():
        assert numbers == sorted(numbers)
    for key in range(3):
        queues = {queue for queue, numbers in by_queue.items() if key in {n % 3 for n in numbers}}
        assert len(queues) == 1


async def test_many_sends_under_way_at_a_time(producer: Producer, reader: PullConsumer) -> None:
    topic = fresh("many")
    await producer.send(Message(topic, b"first"))
    results = await asyncio.gather(*(producer.send(Message(topic, str(n))) for n in range(500)))
    assert len({(result.queue, result.queue_offset) for result in results}) == 500
    assert {m.body for m in await read_all(reader, topic, 501)} == {
        b"first",
        *(str(n).encode() for n in range(500)),
    }


async def test_oneway(producer: Producer, reader: PullConsumer) -> None:
    topic = fresh("oneway")
    first = await producer.send(Message(topic, b"first"))
    await producer.send_oneway(Message(topic, b"oneway"), queue=first.queue)
    assert (await stored(reader, first, after=1)).body == b"oneway"


@BOTH_BROKERS
async def test_a_batch_has_a_result_for_each_message(producer: Producer, reader: PullConsumer) -> None:
    topic = fresh("batch")
    results = await producer.send_batch(Message(topic, f"m{n}", tags="t", keys=f"k{n}") for n in range(20))
    assert len({result.queue for result in results}) == 1
    assert [result.queue_offset for result in results] == list(range(20))
    for number, message in enumerate(await all_stored(reader, results[0].queue, 20)):
        assert message.body.decode() == f"m{number}"
        assert message.message_id == results[number].message_id
        assert message.offset_message_id == results[number].offset_message_id
    assert await producer.send_batch([]) == []


async def test_a_batch_over_the_limit_is_split(producer: Producer, reader: PullConsumer) -> None:
    topic = fresh("split")
    queue = (await producer.queues(topic))[0]
    bodies = [bytes([n]) * 900_000 for n in range(10)]
    results = await producer.send_batch([Message(topic, body) for body in bodies], queue=queue)
    assert [result.queue_offset for result in results] == list(range(10))
    assert [message.body for message in await read_all(reader, topic, 10)] == bodies


async def test_large_bodies_come_back_whole(producer: Producer, reader: PullConsumer) -> None:
    topic = fresh("large")
    body = b"0123456789" * 100_000
    result = await producer.send(Message(topic, body))
    message = await stored(reader, result)
    assert message.body == body
    assert len(message.record.body) == len(body)


async def test_a_stream_keeps_the_order_of_its_keys(producer: Producer, reader: PullConsumer) -> None:
    topic = fresh("stream")
    sent: list[int] = []
    messages = (Message(topic, str(n), sharding_key=f"key{n % 17}") for n in range(5000))
    count = await producer.send_all(messages, on_sent=lambda results: sent.append(len(results)))
    assert count == sum(sent) == 5000
    last: dict[int, int] = {}
    found = await read_all(reader, topic, 5000)
    assert len(found) == 5000
    for message in found:
        number = int(message.body)
        assert last.get(number % 17, -1) < number
        last[number % 17] = number


async def test_an_async_stream(producer: Producer, reader: PullConsumer) -> None:
    topic = fresh("astream")

    async def source():
        for number in range(50):
            if number % 10 == 0:
                await asyncio.sleep(0.005)
            yield Message(topic, str(number))

    assert await producer.send_all(source()) == 50
    assert {int(message.body) for message in await read_all(reader, topic, 50)} == set(range(50))


@BOTH_BROKERS
async def test_a_delayed_message_comes_later(producer: Producer, reader: PullConsumer) -> None:
    topic = fresh("delayed")
    now = await producer.send(Message(topic, b"now"))
    await stored(reader, now)
    await producer.send(Message(topic, b"later", delay_level=1), queue=now.queue)
    later = await stored(reader, now, after=1)
    assert later.body == b"later"
    assert later.store_timestamp_ms - later.born_timestamp_ms >= 900


async def test_a_message_comes_at_the_time_it_names(producer: Producer, reader: PullConsumer) -> None:
    topic = fresh("timers")
    now = await producer.send(Message(topic, b"now"))
    await stored(reader, now)
    due_ms = time.time_ns() // 1_000_000 + 2500
    sent = await producer.send(Message(topic, b"later", deliver_at_ms=due_ms), queue=now.queue)
    assert sent.recall_handle is not None
    later = await stored(reader, now, after=1)
    assert (later.body, later.message_id) == (b"later", sent.message_id)
    assert later.store_timestamp_ms >= due_ms


async def test_a_recalled_message_does_not_come(producer: Producer, reader: PullConsumer) -> None:
    topic = fresh("recall")
    now = await producer.send(Message(topic, b"now"))
    taken_back, _ = [
        await producer.send(Message(topic, body, delay_ms=8000), queue=now.queue) for body in (b"one", b"two")
    ]
    assert taken_back.recall_handle is not None
    assert await producer.recall(taken_back.recall_handle) == taken_back.message_id
    assert (await stored(reader, now, after=1)).body == b"two"
    assert await reader.pull(now.queue, 2) == []
    with pytest.raises(IllegalMessage):
        await producer.recall("no handle")


async def test_what_no_broker_takes_is_refused_here(producer: Producer) -> None:
    with pytest.raises(MessageTooLarge):
        await producer.send(Message("T", os.urandom((4 << 20) + 1)))
    with pytest.raises(IllegalMessage):
        await producer.send(Message("T", b""))
    with pytest.raises(IllegalName):
        await producer.send(Message("no good", b"x"))


@pytest.mark.parametrize("body", [os.urandom(4 << 20), bytes(6 << 20)], ids=["random", "compressed"])
async def test_the_limit_of_4_mib_is_for_what_is_sent(
    cluster: Cluster, producer: Producer, body: bytes
) -> None:
    sent = await producer.send(Message(fresh("large"), body), timeout_ms=60_000)
    assert sent.status is SendStatus.SEND_OK
    async with PullConsumer(fresh("reader"), cluster.namesrv) as reader:
        [message] = await reader.pull(sent.queue, sent.queue_offset)
        assert message.body == body


async def test_a_brokers_refusal_has_its_code(cluster: Cluster) -> None:
    async with Producer("client-tests", cluster.namesrv, max_message_size_bytes=6 << 20) as producer:
        with pytest.raises(BrokerRefused) as caught:
            await producer.send(Message(fresh("toolarge"), os.urandom(5 << 20)), timeout_ms=10_000)
    assert caught.value.code == 13


async def test_a_closed_producer_sends_nothing(cluster: Cluster) -> None:
    producer = Producer("client-tests", cluster.namesrv)
    with pytest.raises(NotRunning):
        await producer.send(Message("T", b"x"))
    async with producer:
        await producer.send(Message(fresh("closing"), b"x"))
    with pytest.raises(NotRunning):
        await producer.send(Message("T", b"x"))
    with pytest.raises(NotRunning):
        await producer.start()


async def test_no_name_server_is_said_at_once() -> None:
    async with Producer("client-tests", "127.0.0.1:9;127.0.0.1:19") as producer:
        with pytest.raises(NoNameServer, match=r"127\.0\.0\.1:19"):
            await producer.send(Message("T", b"x"))
