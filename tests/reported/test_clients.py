"""Consumers and producers: what was reported of other clients, for memory, threads, start and end."""

from __future__ import annotations

import asyncio
import gc
import inspect
import selectors
import threading
import tracemalloc
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest

from orbitmq import (
    FIRST_OFFSET,
    Admin,
    IllegalMessage,
    Message,
    NotRunning,
    Producer,
    PushConsumer,
    ReceivedMessage,
    TransactionState,
    sync,
)
from orbitmq.admin.topics import create_request
from orbitmq.client.blocking import get_background
from orbitmq.net.errors import NoNameServer
from orbitmq.protocol.bodies.topic import TopicConfig
from orbitmq.server.turn.listener import free_ports
from orbitmq.testing.local_broker import LocalBroker
from tests.client.naming import fresh, until
from tests.kit.client_queues import Seen


async def new_topic(namesrv: str, queues: int = 2) -> str:
    topic = fresh("reported")
    async with Admin(namesrv) as admin:
        for one in await admin.masters():
            config = TopicConfig(topic_name=topic, read_queue_nums=queues, write_queue_nums=queues)
            await admin.call(one.address, create_request(config))
    return topic


async def send(namesrv: str, topic: str, *bodies: bytes) -> None:
    async with Producer(fresh("p"), namesrv) as producer:
        await producer.send_all([Message(topic, body) for body in bodies])


async def test_a_consumer_that_is_full_again_and_again_keeps_its_stack_and_its_tasks(namesrv: str) -> None:
    """apache/rocketmq-clients#1331"""
    topic, depths, tasks = await new_topic(namesrv, 1), list[int](), list[int]()
    consumer = PushConsumer(
        fresh("g"),
        namesrv,
        consume_from_where=FIRST_OFFSET,
        pull_threshold_for_queue=1,
        pull_batch_size=1,
        concurrency=1,
    )

    async def handle(message: ReceivedMessage) -> None:
        depths.append(len(inspect.stack(0)))
        tasks.append(len(asyncio.all_tasks()))
        await asyncio.sleep(0)

    consumer.subscribe(topic, "*", handle)
    await send(namesrv, topic, *(b"%d" % number for number in range(200)))
    async with consumer:
        await until(lambda: len(depths) >= 200)
    # Each of 100 rounds would add to them; a look-up or a heartbeat now and then is a task, too.
    assert max(depths[100:]) < max(depths[:100]) + 10
    assert max(tasks[100:]) < max(tasks[:100]) + 10


@pytest.mark.parametrize("selector", [selectors.SelectSelector, selectors.PollSelector])
def test_a_start_returns_on_loops_with_other_selectors(
    namesrv: str, selector: type[selectors.BaseSelector]
) -> None:
    """apache/rocketmq-clients#1189"""

    async def start() -> None:
        topic, seen = await new_topic(namesrv), Seen()
        await send(namesrv, topic, b"x")
        consumer = PushConsumer(fresh("g"), namesrv, consume_from_where=FIRST_OFFSET)
        consumer.subscribe(topic, "*", seen)
        async with consumer:
            await seen.count(1)

    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector())) as runner:
        runner.run(asyncio.wait_for(start(), 60))


async def test_a_start_without_a_name_server_is_an_error_within_its_time() -> None:
    """apache/rocketmq-clients#1189"""
    consumer = PushConsumer(fresh("g"), f"127.0.0.1:{free_ports()}")
    consumer.subscribe("T", "*", print)
    async with asyncio.timeout(60):
        with pytest.raises(NoNameServer):
            await consumer.start()


async def test_threads_share_a_producer_of_transactions(namesrv: str) -> None:
    """apache/rocketmq-client-python#161"""
    topic, seen, commit = await new_topic(namesrv), Seen(), TransactionState.COMMIT

    def work() -> None:
        producer = sync.TransactionProducer(fresh("p"), namesrv, check=lambda message: commit)
        with producer, ThreadPoolExecutor(16) as threads:

            def pay(number: int) -> None:
                producer.send_in_transaction(Message(topic, b"%d" % number), lambda sent: commit)

            list(threads.map(pay, range(64)))

    await asyncio.to_thread(work)
    consumer = PushConsumer(fresh("g"), namesrv, consume_from_where=FIRST_OFFSET)
    consumer.subscribe(topic, "*", seen)
    async with consumer:
        await seen.count(64)
    assert {message.body for message in seen} == {b"%d" % number for number in range(64)}


async def test_a_running_consumer_lives_though_nobody_refers_to_it(namesrv: str) -> None:
    """apache/rocketmq-client-python#134"""
    topic, seen = await new_topic(namesrv), threading.Event()

    def start() -> weakref.ref[PushConsumer]:
        consumer = sync.PushConsumer(fresh("g"), namesrv, consume_from_where=FIRST_OFFSET)
        consumer.subscribe(topic, "*", lambda message: seen.set())
        consumer.start()
        return weakref.ref(consumer._core)

    started = start()
    for _ in range(3):
        gc.collect()
    await send(namesrv, topic, b"x")
    assert await asyncio.to_thread(seen.wait, 60)
    running = started()
    assert running is not None
    await asyncio.to_thread(get_background().run, running.close())


async def test_a_handler_that_is_cancelled_at_the_end_has_acknowledged_nothing(namesrv: str) -> None:
    """ag2ai/faststream#2999"""
    topic, group, began, seen = await new_topic(namesrv, 1), fresh("g"), asyncio.Event(), Seen()

    async def hang(message: ReceivedMessage) -> None:
        began.set()
        await asyncio.sleep(3600)

    consumer = PushConsumer(group, namesrv, consume_from_where=FIRST_OFFSET)
    consumer.subscribe(topic, "*", hang)
    await consumer.start()
    await send(namesrv, topic, b"x")
    await began.wait()
    await consumer.close(timeout_ms=50)
    again = PushConsumer(group, namesrv, consume_from_where=FIRST_OFFSET)
    again.subscribe(topic, "*", seen)
    async with again:
        await seen.count(1)


async def test_a_close_amid_a_reconnect_leaves_no_task() -> None:
    """mosquito/aio-pika#432"""
    before = asyncio.all_tasks()
    with LocalBroker() as broker:
        broker.create_topic("T", 2)
        consumer = PushConsumer("g", broker.namesrv)
        consumer.subscribe("T", "*", print)
        await consumer.start()
    await until(lambda: not consumer.healthy)
    async with asyncio.timeout(60):
        await consumer.close()
    assert asyncio.all_tasks() <= before


async def test_refused_messages_with_properties_leave_no_memory_behind(namesrv: str) -> None:
    """confluentinc/confluent-kafka-python#2167"""
    producer = Producer(fresh("p"), namesrv)
    await producer.start()

    async def refused(count: int, error: type[Exception]) -> None:
        for _ in range(count):
            message = Message("T", b"x" * 1000, properties={"a": "b" * 1000})
            if error is IllegalMessage:
                message.properties = {"a": "b" * 40_000}
            with pytest.raises(error):
                await producer.send(message)
            with pytest.raises(error):
                await producer.submit(message)

    async def kept(error: type[Exception]) -> list[int]:
        """Bytes that each of some rounds leaves behind. The process has other threads, which allocate too."""
        tracemalloc.start()
        sizes = []
        for _ in range(4):
            gc.collect()
            before = tracemalloc.get_traced_memory()[0]
            await refused(100, error)
            gc.collect()
            sizes.append(tracemalloc.get_traced_memory()[0] - before)
        tracemalloc.stop()
        return sizes

    assert min(await kept(IllegalMessage)) < 50_000
    await producer.close()
    assert min(await kept(NotRunning)) < 50_000
