"""Offsets of a group: committed for what is finished, as often as asked for, some with pulls."""

from __future__ import annotations

import asyncio

from orbitmq.client.consumer.consumer import PushConsumer
from orbitmq.client.core.message import ReceivedMessage
from orbitmq.client.core.options import FIRST_OFFSET
from orbitmq.protocol.requests.offset import UpdateConsumerOffset
from orbitmq.protocol.requests.pull import COMMITS_OFFSET, PullMessage, PullReply
from orbitmq.protocol.schema.declare import Reply
from tests.kit.client_queues import Queues, Seen, until
from tests.kit.fake_broker import FakeBroker


async def test_what_was_not_finished_is_not_committed(broker: FakeBroker) -> None:
    queues = Queues(broker, "T")
    queues.put(b"0", b"1", b"2")
    go = asyncio.Event()
    seen = Seen()

    async def handle(message: ReceivedMessage) -> None:
        if message.body == b"1":
            await go.wait()
        await seen(message)

    consumer = PushConsumer("g", broker.address, consume_from_where=FIRST_OFFSET)
    consumer.subscribe("T", "*", handle)
    await consumer.start()
    await seen.count(2)
    await consumer.close(50)
    assert queues.offsets[("T", 0)] == 1


async def test_offsets_are_told_as_often_as_asked_for(broker: FakeBroker) -> None:
    queues, seen = Queues(broker, "T"), Seen()
    queues.put(b"0")
    options = {"persist_consumer_offset_interval_ms": 20}
    async with PushConsumer("g", broker.address, consume_from_where=FIRST_OFFSET, **options) as consumer:
        consumer.subscribe("T", "*", seen)
        await until(lambda: queues.offsets.get(("T", 0)) == 1)


async def test_the_first_offset_of_a_topic_goes_alone(broker: FakeBroker) -> None:
    # Apache's broker may forget some of several that come before it has any of the topic.
    queues, seen = Queues(broker, "T", queues=4), Seen()
    for queue_id in range(4):
        queues.put(b"x", queue_id=queue_id)
    broker.hold(UpdateConsumerOffset)
    consumer = PushConsumer("g", broker.address, consume_from_where=FIRST_OFFSET)
    consumer.subscribe("T", "*", seen)
    await consumer.start()
    await seen.count(4)
    closing = asyncio.create_task(consumer.close())
    await broker.until(lambda: broker.of(UpdateConsumerOffset))
    await asyncio.sleep(0.05)
    assert len(broker.of(UpdateConsumerOffset)) == 1
    assert not [pull for pull in broker.of(PullMessage) if pull.sys_flag & 1]
    broker.release(UpdateConsumerOffset)
    await closing
    assert queues.offsets == {("T", queue_id): 1 for queue_id in range(4)}


async def test_pulls_carry_offsets_once_the_broker_has_one_of_the_topic(broker: FakeBroker) -> None:
    queues, seen = Queues(broker, "T"), Seen()
    queues.put(b"0", b"1", b"2")
    # A pull that is held would keep the next one, which may carry an offset, waiting.
    nothing = PullReply(0, 3, 0, 3, code=19)
    broker.on(PullMessage, lambda request: queues.pull(request) or nothing)
    options = {"pull_batch_size": 1, "persist_consumer_offset_interval_ms": 3_600_000}
    async with PushConsumer("g", broker.address, consume_from_where=FIRST_OFFSET, **options) as consumer:
        consumer.subscribe("T", "*", seen)
        await broker.until(lambda: [pull for pull in broker.of(PullMessage) if pull.sys_flag & 1])
    riding = [pull.commit_offset for pull in broker.of(PullMessage) if pull.sys_flag & 1]
    assert riding[0] >= broker.of(UpdateConsumerOffset)[0].commit_offset > 0


async def test_a_pull_that_is_handled_late_does_not_take_back_what_is_committed_at_the_end(
    broker: FakeBroker,
) -> None:
    """As by Apache's broker, which handles pulls and commits in different threads."""
    queues, go, seen = Queues(broker, "T"), asyncio.Event(), Seen()
    queues.put(*(b"%d" % n for n in range(100)))
    queues.offsets["T", 0] = 1

    def carries(pull: PullMessage) -> int:
        return pull.sys_flag & COMMITS_OFFSET

    def pull(request: PullMessage) -> Reply | None:
        if carries(request):
            queues.offsets["T", 0] = request.commit_offset
        return queues.pull(request)

    async def handle(message: ReceivedMessage) -> None:
        await go.wait()
        await seen(message)

    broker.on(PullMessage, pull)
    broker.hold(PullMessage, only=carries)
    options = {
        "pull_batch_size": 1,
        "persist_consumer_offset_interval_ms": 3_600_000,
        "mq_client_api_timeout_ms": 60_000,
    }
    consumer = PushConsumer("g", broker.address, **options)
    consumer.subscribe("T", "*", handle)
    await consumer.start()
    await broker.until(lambda: any(map(carries, broker.of(PullMessage))))
    go.set()
    await seen.count(1)
    closing = asyncio.create_task(consumer.close())
    await asyncio.wait([closing], timeout=0.2)
    broker.release(PullMessage)
    await closing
    assert queues.offsets == {("T", 0): 1 + len(seen)}
