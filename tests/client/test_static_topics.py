"""Our clients on a static topic while its queues move between brokers."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator

import pytest
from click.testing import CliRunner

from orbitmq import FIRST_OFFSET, Admin, Message, Producer, PullConsumer, PushConsumer, ReceivedMessage
from orbitmq.admin.static_topics import create_static_topic, move_static_topic
from orbitmq.cli.app import app
from orbitmq.testing import LocalCluster
from tests.client.naming import fresh, until

BLOCK = 10_000
SOON = {"poll_name_server_interval_ms": 500}


@pytest.fixture(scope="module")
def namesrv() -> Iterator[str]:
    with LocalCluster(masters=2) as cluster:
        yield cluster.namesrv


@pytest.fixture
async def admin(namesrv: str) -> AsyncIterator[Admin]:
    async with Admin(namesrv) as admin:
        yield admin


async def read(consumer: PullConsumer, topic: str) -> dict[int, list[tuple[int, str]]]:
    """All messages by queue, as offset and body."""
    found = defaultdict(list)
    for queue in await consumer.queues(topic):
        offset, end = await consumer.min_offset(queue), await consumer.max_offset(queue)
        while offset < end:
            pulled = await consumer.pull(queue, offset)
            found[queue.queue_id] += [(one.queue_offset, one.body.decode()) for one in pulled]
            offset = pulled.next_offset
    return found


async def test_an_ordered_consumer_reads_everything_once_over_moves(namesrv: str, admin: Admin) -> None:
    topic, group = fresh("static"), fresh("g")
    await create_static_topic(admin, topic, 2, broker="broker-a")
    seen: dict[int, list[tuple[int, str]]] = defaultdict(list)
    failed: set[str] = set()

    def handle(message: ReceivedMessage) -> None:
        if message.body == b"1-2" and message.reconsume_times == 0 and not failed:
            failed.add(message.message_id)
            raise ValueError("once more")
        seen[message.queue.queue_id].append((message.queue_offset, message.body.decode()))

    consumer = PushConsumer(group, namesrv, consume_from_where=FIRST_OFFSET, ordered=True, **SOON)
    consumer.subscribe(topic, "*", handle)
    expected: dict[int, list[tuple[int, str]]] = {0: [], 1: []}
    async with consumer, Producer(fresh("p"), namesrv) as producer:
        for number, broker in enumerate(("", "broker-b", "broker-a")):
            if broker:
                await move_static_topic(admin, topic, [broker])
            # The producer has the route of before the move, and names the queue.
            for queue in sorted(await producer.queues(topic)):
                for n in range(3):
                    body = f"{number}-{n}"
                    sent = await producer.send(Message(topic, body), queue=queue)
                    assert sent.queue == queue
                    assert sent.queue_offset == number * BLOCK + n
                    expected[queue.queue_id].append((sent.queue_offset, body))
            await until(lambda: seen == expected, 60)
        await until(lambda: consumer.queues, 10)
    async with PullConsumer(group, namesrv) as reader:
        assert await read(reader, topic) == expected
        for queue in await reader.queues(topic):
            assert await reader.committed(queue) == 2 * BLOCK + 3, "it was committed where the queue is now"
            await reader.commit(queue, 2)
            assert await reader.committed(queue) == 2, "and a group may go back to an earlier broker"


async def test_a_failed_message_is_retried_and_any_queue_takes_what_is_sent(
    namesrv: str, admin: Admin
) -> None:
    topic = fresh("static")
    await create_static_topic(admin, topic, 3)
    tried: list[tuple[str, int]] = []

    def handle(message: ReceivedMessage) -> None:
        tried.append((message.body.decode(), message.reconsume_times))
        if message.body == b"bad" and message.reconsume_times == 0:
            raise ValueError("once more")

    consumer = PushConsumer(fresh("g"), namesrv, consume_from_where=FIRST_OFFSET, **SOON)
    consumer.subscribe(topic, "*", handle)
    async with consumer, Producer(fresh("p"), namesrv) as producer:
        await producer.send(Message(topic, "bad"))
        await move_static_topic(admin, topic, ["broker-b"])
        for _ in range(4):
            await producer.send(Message(topic, "good"))
        await producer.send_batch([Message(topic, "good"), Message(topic, "good")])
        await until(lambda: sorted(tried) == [("bad", 0), ("bad", 1)] + [("good", 0)] * 6, 60)


def test_the_commands_make_a_topic_and_move_its_queues(namesrv: str) -> None:
    topic = fresh("static")

    def ask(*words: str) -> list[tuple[str, int]]:
        done = CliRunner().invoke(app, ["admin", "topic", *words, "--namesrv", namesrv, "--json"])
        assert done.exit_code == 0, done.output
        return [(row["broker"], row["firstOffset"]) for row in json.loads(done.output)]

    before = ask("static", topic, "--queues", "2")
    assert {broker for broker, _ in before} == {"broker-a", "broker-b"}
    after = ask("static", topic, "--queues", "5")
    assert after[:2] == before
    assert ask("static", topic) == after
    moved = ask("move", topic, "--to", "broker-b")
    assert {broker for broker, _ in moved} == {"broker-b"}
    assert sorted(first for _, first in moved) == sorted(
        BLOCK if broker == "broker-a" else 0 for broker, _ in after
    )
    assert ask("move", topic, "--to", "broker-b") == moved
