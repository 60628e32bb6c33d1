"""Handlers of batches, and messages acknowledged by hand, against OrbitMQ and Apache."""

from __future__ import annotations

import threading
from collections import Counter

import pytest

from orbitmq import FIRST_OFFSET, Message, Producer, PushConsumer, ReceivedMessage, Retry, sync
from tests.client.conftest import Cluster
from tests.client.naming import fresh, until


@pytest.mark.parametrize("ordered", [False, True], ids=["concurrent", "ordered"])
async def test_part_of_a_batch_comes_again(cluster: Cluster, producer: Producer, ordered: bool) -> None:
    topic, calls = fresh("batch"), list[list[str]]()

    async def handle(messages: list[ReceivedMessage]) -> Retry | None:
        calls.append([message.body.decode() for message in messages])
        failed = [one for one in messages if one.body == b"3" and one.reconsume_times == 0]
        return Retry(1, messages=failed) if failed else None

    queue = (await producer.queues(topic))[0]
    for number in range(6):
        await producer.send(Message(topic, str(number)), queue=queue)
    async with PushConsumer(
        fresh("g"),
        cluster.namesrv,
        consume_from_where=FIRST_OFFSET,
        ordered=ordered,
        suspend_current_queue_time_ms=10,
    ) as consumer:
        consumer.subscribe(topic, "*", handle, max_messages=4, max_wait_ms=200)
        await until(lambda: sum(map(len, calls)) == 7, 60)
    assert max(map(len, calls)) <= 4
    assert Counter(body for call in calls for body in call) == {str(n): 1 + (n == 3) for n in range(6)}


def test_the_blocking_face_hands_over_lists(cluster: Cluster) -> None:
    topic, got = fresh("batch"), list[str]()
    with sync.Producer(fresh("p"), cluster.namesrv) as producer:
        for number in range(3):
            producer.send(Message(topic, str(number)))
    with sync.PushConsumer(fresh("g"), cluster.namesrv, consume_from_where=FIRST_OFFSET) as consumer:

        @consumer.on(topic, max_messages=3, max_wait_ms=50)
        def handle(messages: list[ReceivedMessage]) -> None:
            got.extend(message.body.decode() for message in messages)
            if len(got) == 3:
                consumer.close()

        consumer.wait_closed()
    assert sorted(got) == ["0", "1", "2"]


def test_what_is_not_acknowledged_comes_again_to_the_next_member(cluster: Cluster) -> None:
    topic, group = fresh("ack"), fresh("g")
    with sync.Producer(fresh("p"), cluster.namesrv) as producer:
        queue = producer.queues(topic)[0]
        for number in range(4):
            producer.send(Message(topic, str(number)), queue=queue)

    def life(acknowledged: set[str], wanted: set[str]) -> None:
        """One member, until it has got all that is `wanted`."""
        got, there = set[str](), threading.Event()
        with sync.PushConsumer(group, cluster.namesrv, consume_from_where=FIRST_OFFSET) as consumer:

            @consumer.on(topic, manual_ack=True)
            def handle(message: ReceivedMessage) -> None:
                body = message.body.decode()
                if body in acknowledged:
                    consumer.ack(message)
                got.add(body)
                if wanted <= got:
                    there.set()

            assert there.wait(60)

    life({"0", "2", "3"}, {"0", "1", "2", "3"})
    life({"1", "2", "3"}, {"1", "2", "3"})
