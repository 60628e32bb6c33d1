"""Members of a group with different filters, where one is of Apache's Java client and the other is ours."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from orbitmq import FIRST_OFFSET, Message, Producer, PushConsumer
from tests.client.naming import fresh, until
from tests.kit.client_queues import Seen
from tests.needs import need
from tests.peers.mqadmin_shell import Shell
from tests.peers.orbitmq_process import OrbitMQ


@pytest.fixture(scope="module")
def java(orbitmq_server: OrbitMQ, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    need("java", "mvn")
    shell = Shell(orbitmq_server.namesrv, tmp_path_factory.mktemp("java") / "java")
    yield shell
    shell.close()


async def send(namesrv: str, topic: str, *bodies: str) -> None:
    """Good messages, to the queues in turn."""
    async with Producer(fresh("p"), namesrv) as producer:
        queues = await producer.queues(topic)
        for number, body in enumerate(bodies):
            await producer.send(Message(topic, body, tags="good"), queue=queues[number % len(queues)])


@pytest.mark.parametrize("heartbeats", ["concurrently", "v2"])
async def test_javas_consumer_goes_on_after_a_stray_member_of_ours(
    orbitmq_server: OrbitMQ, java: Shell, heartbeats: str
) -> None:
    namesrv, topic, group = orbitmq_server.namesrv, fresh("stray"), fresh("g")
    java.done(f"updateTopic -c DefaultCluster -t {topic} -r 2 -w 2")
    java.done(f"@listen {heartbeats} {group} {topic} 16 good")
    await send(namesrv, topic, "one", "two")
    assert len(java.done(f"@heard {group} 2 60000").splitlines()) == 2
    stray = PushConsumer(group, namesrv, consume_from_where=FIRST_OFFSET)
    stray.subscribe(topic, "other", Seen())
    async with stray:
        await until(lambda: stray.queues)
    await send(namesrv, topic, "three", "four", "five", "six")
    told = await asyncio.to_thread(java.done, f"@heard {group} 6 60000")
    assert sorted(line.split()[1] for line in told.splitlines()) == sorted(
        ["one", "two", "three", "four", "five", "six"]
    )


async def test_our_consumer_goes_on_beside_and_after_a_stray_member_of_javas(
    orbitmq_server: OrbitMQ, java: Shell
) -> None:
    namesrv, topic, group, seen = orbitmq_server.namesrv, fresh("stray"), fresh("g"), Seen()
    java.done(f"updateTopic -c DefaultCluster -t {topic} -r 2 -w 2")
    consumer = PushConsumer(group, namesrv, consume_from_where=FIRST_OFFSET)
    consumer.subscribe(topic, "good", seen)
    async with consumer:
        await until(lambda: len(consumer.queues) == 2)
        java.done(f"@listen concurrently {group} {topic} 16 other")
        await until(lambda: len(consumer.queues) == 1)
        await until(lambda: "different" in "".join(consumer.errors))
        assert not consumer.healthy
        told = "".join(map(str, consumer.errors.values()))
        assert f"`good` ({consumer.client_id})" in told
        assert "`other` (" in told
        [queue] = consumer.queues
        async with Producer(fresh("p"), namesrv) as producer:
            await producer.send(Message(topic, b"beside", tags="good"), queue=queue)
        await seen.count(1)
        java.done(f"@leave {group}")
        await until(lambda: consumer.healthy and len(consumer.queues) == 2)
        await send(namesrv, topic, "one", "two")
        await seen.count(3)
