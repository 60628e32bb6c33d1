from __future__ import annotations

import asyncio

import pytest

from orbitmq.client.consumer.pull_consumer import PullConsumer
from orbitmq.client.core.errors import NotRunning, TopicNotFound
from orbitmq.net.errors import ConnectFailed
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.errors import Malformed, PeerFailed, Refused, TopicNotExist
from orbitmq.protocol.requests.offset import UpdateConsumerOffset
from orbitmq.protocol.requests.pull import PullMessage, PullReply
from tests.kit.client_messages import record, stored
from tests.kit.client_queues import Queues
from tests.kit.fake_broker import FakeBroker

QUEUE = MessageQueue("T", "broker-a", 0)


async def test_what_is_asked_and_what_comes(broker: FakeBroker) -> None:
    broker.topic("T", 2)
    body = record(stored(5, b"x", TAGS="a")) + record(stored(6, b"y", TAGS="b"))
    broker.on(PullMessage, lambda _: PullReply(1, 7, 2, 9, body=body))
    async with PullConsumer("g", broker.address) as consumer:
        assert await consumer.queues("T") == [QUEUE, MessageQueue("T", "broker-a", 1)]
        pulled = await consumer.pull(QUEUE, 5, 10, tags="a", wait_ms=200)
        assert [message.body for message in pulled] == [b"x"]
        assert (pulled.next_offset, pulled.min_offset, pulled.max_offset, pulled.moved) == (7, 2, 9, False)
    [asked] = broker.of(PullMessage)
    assert (asked.sys_flag, asked.queue_offset, asked.max_msg_nums) == (6, 5, 10)
    assert (asked.subscription, asked.suspend_timeout_millis) == ("a", 200)


@pytest.mark.parametrize("code", [19, 20, 21])
async def test_nothing_there_is_an_empty_list(broker: FakeBroker, code: int) -> None:
    broker.topic("T", 1)
    broker.on(PullMessage, lambda _: PullReply(0, 4, 4, 4, code=code))
    async with PullConsumer("g", broker.address) as consumer:
        pulled = await consumer.pull(QUEUE, 9)
        assert pulled == []
        assert (pulled.next_offset, pulled.moved) == (4, code == 21)


async def test_real_errors_are_errors(broker: FakeBroker) -> None:
    broker.topic("T", 1)
    broker.on(PullMessage, lambda _: Refused(17, "topic not exist"))
    async with PullConsumer("g", broker.address) as consumer:
        with pytest.raises(TopicNotExist):
            await consumer.pull(QUEUE, 0)
        with pytest.raises(TopicNotFound):
            await consumer.queues("U")
        broker.on(PullMessage, lambda _: PullReply(0, 4, 4, 4, body=b"no record"))
        with pytest.raises(Malformed):
            await consumer.pull(QUEUE, 0)
    with pytest.raises(NotRunning):
        await consumer.pull(QUEUE, 0)


async def test_where_a_slave_does_not_answer_the_master_is_asked_next(
    broker: FakeBroker, other_broker: FakeBroker
) -> None:
    broker.topic("T", 1)
    broker.topics["T"].broker_datas[0].broker_addrs = {0: broker.address, 1: other_broker.address}
    broker.on(PullMessage, lambda _: PullReply(1, 4, 4, 4, code=19))
    async with PullConsumer("g", broker.address) as consumer:
        assert await consumer.pull(QUEUE, 4) == []
        await other_broker.stop()
        with pytest.raises(ConnectFailed):
            await consumer.pull(QUEUE, 4)
        assert await consumer.pull(QUEUE, 4) == []


async def test_the_first_offset_of_a_topic_is_committed_alone(broker: FakeBroker) -> None:
    queues = Queues(broker, "T", queues=4)
    broker.hold(UpdateConsumerOffset)
    async with PullConsumer("g", broker.address) as consumer:
        commits = [asyncio.create_task(consumer.commit(queue, 7)) for queue in await consumer.queues("T")]
        await broker.until(lambda: broker.of(UpdateConsumerOffset))
        await asyncio.sleep(0.05)
        assert len(broker.of(UpdateConsumerOffset)) == 1
        broker.release(UpdateConsumerOffset)
        await asyncio.gather(*commits)
    assert queues.offsets == {("T", queue_id): 7 for queue_id in range(4)}


async def test_a_first_offset_that_is_refused_keeps_no_other_back(broker: FakeBroker) -> None:
    queues = Queues(broker, "T", queues=3)
    answers = iter([Refused(1, "not now")])
    broker.on(UpdateConsumerOffset, lambda request: next(answers, None) or queues.update(request))
    async with PullConsumer("g", broker.address) as consumer:
        done = await asyncio.gather(
            *(consumer.commit(queue, 7) for queue in await consumer.queues("T")), return_exceptions=True
        )
    assert [type(one) for one in done] == [PeerFailed, type(None), type(None)]
    assert queues.offsets == {("T", 1): 7, ("T", 2): 7}
