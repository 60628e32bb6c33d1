"""Choosing by properties, and getting everything, against OrbitMQ and Apache."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from orbitmq import BrokerRefused, Message, MessageQueue, Producer, PullConsumer, PushConsumer, Sql
from orbitmq.client.consumer.local_offsets import read_offsets
from tests.client.conftest import Cluster
from tests.client.naming import fresh, until
from tests.client.test_consuming import Seen, consumer

PRICES = ("5", "11", "none", "200", "12.5")


async def send(producer: Producer, topic: str) -> dict[MessageQueue, int]:
    """Sends all prices; tells how far each queue goes then."""
    ends: dict[MessageQueue, int] = {}
    for number, price in enumerate(PRICES):
        properties = {} if price == "none" else {"price": price, "color": "red" if number % 2 else "blue"}
        tag = "even" if number % 2 == 0 else "odd"
        result = await producer.send(Message(topic, price, tags=tag, properties=properties))
        ends[result.queue] = result.queue_offset + 1
    return ends


async def until_readable(reader: PullConsumer, ends: dict[MessageQueue, int]) -> None:
    """Apache's broker acknowledges messages before they are in their queues."""
    async with asyncio.timeout(60):
        for queue, end in ends.items():
            while await reader.max_offset(queue) < end:  # noqa: ASYNC110 - the broker's own time
                await asyncio.sleep(0.01)


async def test_messages_are_chosen_by_an_expression(cluster: Cluster, producer: Producer) -> None:
    topic, seen = fresh("sql"), Seen()
    await send(producer, topic)
    async with consumer(cluster, fresh("g")) as reader:
        reader.subscribe(
            topic, Sql("price > 10 AND color IN ('red') OR TAGS = 'even' AND price IS NULL"), seen
        )
        await until(lambda: len(seen.messages) >= 3)
        await send(producer, topic)
        await until(lambda: len(seen.messages) >= 6)
        assert reader.healthy
    assert sorted(seen.bodies) == ["11", "11", "200", "200", "none", "none"]


async def test_a_wrong_expression_is_refused_with_its_reason(cluster: Cluster, producer: Producer) -> None:
    topic = fresh("sql")
    await send(producer, topic)
    reader = consumer(cluster, fresh("g"))
    reader.subscribe(topic, Sql("price >"))
    with pytest.raises(BrokerRefused, match="SUBSCRIPTION_PARSE_FAILED") as refused:
        await reader.start()
    assert refused.value.code == 23


async def test_queues_are_read_by_an_expression(cluster: Cluster, producer: Producer) -> None:
    topic = fresh("sql")
    ends = await send(producer, topic)
    found = []
    async with PullConsumer(fresh("g"), cluster.namesrv) as reader:
        await until_readable(reader, ends)
        for queue, end in ends.items():
            offset = 0
            while offset < end:
                pulled = await reader.pull(queue, offset, tags=Sql("price BETWEEN 6.0 AND 100.0"))
                found += [message.body.decode() for message in pulled]
                offset = pulled.next_offset
    assert sorted(found) == ["11", "12.5"]


async def test_every_member_gets_every_message_once(
    cluster: Cluster, producer: Producer, tmp_path: Path
) -> None:
    topic, group = fresh("all"), fresh("g")
    await send(producer, topic)
    all_seen = [Seen(), Seen()]

    def member(number: int) -> PushConsumer:
        reader = consumer(
            cluster,
            group,
            broadcasting=True,
            instance_name=f"member-{number}",
            local_offsets_folder=str(tmp_path),
        )
        reader.subscribe(topic, "*", all_seen[number])
        return reader

    async with member(0), member(1):
        await until(lambda: all(len(seen.messages) >= len(PRICES) for seen in all_seen))
    await send(producer, topic)
    async with member(0):
        await until(lambda: len(all_seen[0].messages) >= 2 * len(PRICES))
    assert sorted(all_seen[0].bodies) == sorted(PRICES * 2)
    assert sorted(all_seen[1].bodies) == sorted(PRICES)
    file = next(tmp_path.glob("*@member-0/*/offsets.json"))  # noqa: ASYNC240 (a folder of two files)
    assert sum(read_offsets(file).values()) == 2 * len(PRICES)


async def test_a_pull_with_a_wrong_expression(cluster: Cluster, producer: Producer) -> None:
    topic = fresh("sql")
    ends = await send(producer, topic)
    async with PullConsumer(fresh("g"), cluster.namesrv) as reader:
        await until_readable(reader, ends)
        queue = next(iter(ends))
        if cluster.name == "apache":
            # It counts for nothing there: a difference on purpose.
            assert await reader.pull(queue, 0, tags=Sql("price >"))
            return
        with pytest.raises(BrokerRefused) as refused:
            await reader.pull(queue, 0, tags=Sql("price >"))
        assert refused.value.code == 23
