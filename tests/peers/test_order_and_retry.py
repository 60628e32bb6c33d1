"""Order, retry and dead letters as Apache's Java consumer sees them, over either broker."""

from __future__ import annotations

import asyncio
import re
import signal
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from orbitmq import Message, Producer, PullConsumer, ReceivedMessage, TopicNotFound
from tests.client.naming import fresh
from tests.needs import need
from tests.peers.apache import Apache
from tests.peers.mqadmin_shell import Shell
from tests.peers.orbitmq_process import OrbitMQ

pytestmark = pytest.mark.timeout(600)


class Heard(NamedTuple):
    """One delivery."""

    at_ms: int
    body: str
    reconsume_times: int
    topic: str


@pytest.fixture
def java(cluster: OrbitMQ | Apache, tmp_path: Path) -> Iterator[Shell]:
    need("java", "mvn")
    shell = Shell(cluster.namesrv, tmp_path / "java")
    yield shell
    shell.close()


def heard(java: Shell, group: str, count: int, limit_ms: int = 60_000) -> list[Heard]:
    lines = java.done(f"@heard {group} {count} {limit_ms}").splitlines()
    rows = [re.fullmatch(r"(\d+) (.*) (\d+) (\S+) \S+ \d+ \d+", line) for line in lines]
    return [Heard(int(row[1]), row[2], int(row[3]), row[4]) for row in rows if row]


async def send(cluster: OrbitMQ | Apache, topic: str, *bodies: str) -> None:
    """Sends to one queue, in this order."""
    async with Producer(fresh("p"), cluster.namesrv) as producer:
        queue = (await producer.queues(topic))[0]
        for body in bodies:
            await producer.send(Message(topic, body), queue=queue)


async def dead_letters(cluster: OrbitMQ | Apache, group: str) -> list[ReceivedMessage] | None:
    """Messages in the group's dead-letter topic; None where there is no such topic."""
    async with PullConsumer(fresh("g"), cluster.namesrv) as consumer:
        try:
            (queue,) = await consumer.queues(f"%DLQ%{group}")
        except TopicNotFound:
            return None
        return list(await consumer.pull(queue, await consumer.min_offset(queue)))


async def until_dead(cluster: OrbitMQ | Apache, group: str, count: int) -> list[ReceivedMessage]:
    deadline = time.monotonic() + 60
    while len(letters := await dead_letters(cluster, group) or []) < count:
        assert time.monotonic() < deadline, f"{len(letters)} of {count} dead letters"
        await asyncio.sleep(0.1)
    return letters


async def test_an_ordered_message_is_repeated_in_place_and_then_a_dead_letter(
    cluster: OrbitMQ | Apache, java: Shell
) -> None:
    topic, group = fresh("ordered"), fresh("g")
    java.done(f"updateTopic -c DefaultCluster -t {topic} -r 1 -w 1")
    await send(cluster, topic, "one", "bad", "three")
    java.done(f"@listen ordered {group} {topic} 2")
    got = heard(java, group, 5)
    assert [(row.body, row.reconsume_times) for row in got] == [
        ("one", 0),
        ("bad", 0),
        ("bad", 1),
        ("bad", 2),
        ("three", 0),
    ]
    waits = [after.at_ms - before.at_ms for before, after in pairwise(got[1:4])]
    assert all(wait >= 1000 for wait in waits), waits
    (letter,) = await until_dead(cluster, group, 1)
    assert letter.body == b"bad"
    assert letter.properties["RETRY_TOPIC"] == topic
    assert letter.properties["ORIGIN_MESSAGE_ID"]


async def test_dead_letters_are_made_when_first_needed_and_the_origin_is_kept(
    cluster: OrbitMQ | Apache, java: Shell
) -> None:
    topic, group = fresh("retried"), fresh("g")
    java.done(f"updateTopic -c DefaultCluster -t {topic} -r 1 -w 1")
    java.done(f"@listen concurrently {group} {topic} 2")
    await send(cluster, topic, "bad")
    got = heard(java, group, 2)
    assert await dead_letters(cluster, group) is None
    got = heard(java, group, 3)
    assert [(row.body, row.reconsume_times, row.topic) for row in got] == [
        ("bad", times, topic) for times in range(3)
    ]
    letters = await until_dead(cluster, group, 1)
    await send(cluster, topic, "dead")
    letters = await until_dead(cluster, group, 2)
    assert [(letter.body, letter.reconsume_times) for letter in letters] == [(b"bad", 3), (b"dead", 1)]
    async with PullConsumer(fresh("g"), cluster.namesrv) as reader:
        (queue,) = await reader.queues(topic)
        origins = [message.offset_message_id for message in await reader.pull(queue, 0)]
    assert [letter.properties["ORIGIN_MESSAGE_ID"] for letter in letters] == origins
    assert {letter.properties["RETRY_TOPIC"] for letter in letters} == {topic}


async def test_broadcasting_never_retries(cluster: OrbitMQ | Apache, java: Shell) -> None:
    topic, group = fresh("broadcast"), fresh("g")
    java.done(f"updateTopic -c DefaultCluster -t {topic} -r 1 -w 1")
    java.done(f"@listen broadcasting {group} {topic} 16")
    await send(cluster, topic, "bad", "good")
    assert sorted(row.body for row in heard(java, group, 2)) == ["bad", "good"]
    assert len(heard(java, group, 3, 3000)) == 2
    assert await dead_letters(cluster, group) is None


@pytest.mark.nightly
async def test_the_queues_of_an_ordered_consumer_that_died_go_on_elsewhere_in_order(
    orbitmq_server: OrbitMQ, tmp_path: Path
) -> None:
    need("java", "mvn")
    topic, group = fresh("inherited"), fresh("g")
    first, second = (Shell(orbitmq_server.namesrv, tmp_path / name) for name in ("first", "second"))
    try:
        first.done(f"updateTopic -c DefaultCluster -t {topic} -r 1 -w 1")
        await send(orbitmq_server, topic, "one", "bad", "three")
        first.done(f"@listen ordered {group} {topic} 1000")
        assert [row.body for row in heard(first, group, 3)][:3] == ["one", "bad", "bad"]
        second.done(f"@listen ordered {group} {topic} 0")
        await asyncio.to_thread(time.sleep, 2)
        assert heard(second, group, 1, 100) == [], "the queue is the first one's"
        first.end(signal.SIGKILL)
        got = await asyncio.to_thread(heard, second, group, 2, 200_000)
        if got[0].body == "one":
            # Its consumer died before it had saved how far it was.
            got = (await asyncio.to_thread(heard, second, group, 3, 60_000))[1:]
    finally:
        second.close()
        first.close()
    assert [row.body for row in got] == ["bad", "three"], "what was in hand comes first"
