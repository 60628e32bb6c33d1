"""Going on at other offsets, and pausing single queues, against OrbitMQ and Apache."""

from __future__ import annotations

import pytest

from orbitmq import (
    FIRST_OFFSET,
    InvalidArgument,
    Message,
    MessageQueue,
    Producer,
    PushConsumer,
    ReceivedMessage,
)
from tests.client.conftest import Cluster
from tests.client.naming import fresh, until


async def test_a_group_goes_back_and_past(cluster: Cluster, producer: Producer) -> None:
    topic, seen = fresh("seek"), list[str]()

    async def handle(message: ReceivedMessage) -> None:
        seen.append(message.body.decode())

    queue = (await producer.queues(topic))[0]
    for number in range(5):
        await producer.send(Message(topic, str(number)), queue=queue)
    async with PushConsumer(fresh("g"), cluster.namesrv, consume_from_where=FIRST_OFFSET) as consumer:
        consumer.subscribe(topic, "*", handle)
        await until(lambda: len(seen) == 5)
        seen.clear()
        await consumer.seek({queue: 3})
        await until(lambda: len(seen) == 2)
        assert seen == ["3", "4"]
        with pytest.raises(InvalidArgument, match="not this member's"):
            await consumer.seek({MessageQueue(topic, queue.broker_name, 99): 0})
        consumer.pause(queue)
        assert not consumer.is_paused
        await consumer.seek({queue: 0})
        await until(lambda: queue in consumer.queues)
        other = (await producer.queues(topic))[1]
        await producer.send(Message(topic, "other queue"), queue=other)
        await until(lambda: len(seen) == 3)
        assert seen[2] == "other queue"
        consumer.resume(queue)
        await until(lambda: len(seen) == 8)
    assert sorted(seen[3:]) == ["0", "1", "2", "3", "4"]
