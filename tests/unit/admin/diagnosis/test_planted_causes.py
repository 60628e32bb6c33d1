"""Causes of a backlog, planted with real clients on a real broker: `orbitmq why` names each of them first."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from orbitmq import FIRST_OFFSET, Admin, Message, Producer, PushConsumer, ReceivedMessage
from orbitmq.admin.diagnosis import rules
from orbitmq.admin.groups import create_group
from orbitmq.cli.app import run
from orbitmq.protocol.bodies.group import SubscriptionGroupConfig
from orbitmq.protocol.bodies.queue import LockBatchRequestBody, MessageQueue
from orbitmq.protocol.requests.lock import LockBatchMq
from orbitmq.testing import LocalBroker

PATIENCE_SECONDS = 180


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker(messageDelayLevel="1s 1s 1s 1s") as running:
        yield running


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader counts as still, and a queue as stuck, after seconds: rules wait for 30 and 60 s."""
    monkeypatch.setattr(rules, "STALE_MS", 4000)
    monkeypatch.setattr(rules, "STUCK_MS", 4000)


class Planted:
    """A topic and a group of one test."""

    def __init__(self, broker: LocalBroker, name: str, capsys: pytest.CaptureFixture[str]) -> None:
        self.broker, self.name, self._capsys = broker, name, capsys
        self.namesrv = broker.namesrv

    def topic(self, queues: int) -> None:
        self.broker.create_topic(self.name, queues)

    async def send(self, count: int, body: bytes = b"x", queues: int = 1) -> None:
        """So many messages in each queue."""
        async with Admin(self.namesrv) as admin, Producer("planting", self.namesrv) as producer:
            [master] = await admin.masters()
            for number in range(queues):
                queue = MessageQueue(self.name, master.name, number)
                await producer.send_batch([Message(self.name, body) for _ in range(count)], queue=queue)

    def member(self, **options: Any) -> PushConsumer:
        return PushConsumer(self.name, self.namesrv, consume_from_where=FIRST_OFFSET, **options)

    async def why(self) -> dict[str, Any]:
        """The first line of `orbitmq why`."""
        self._capsys.readouterr()
        words = ["why", self.name, "--namesrv", self.namesrv, "--json"]
        assert await asyncio.to_thread(run, words) == 0
        first: dict[str, Any] = json.loads(self._capsys.readouterr().out)[0]
        return first

    async def names(self, cause: str) -> dict[str, Any]:
        """Returns the answer once it is that cause: members tell it after their first minute's figures."""
        answer: dict[str, Any] = {}
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_SECONDS):
                while (answer := await self.why())["cause"] != cause:
                    pass
        assert answer["cause"] == cause, answer
        return answer


@pytest.fixture
def planted(
    broker: LocalBroker, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> Planted:
    return Planted(broker, request.node.name.removeprefix("test_")[:60], capsys)


async def done(message: ReceivedMessage) -> None:
    pass


@contextlib.asynccontextmanager
async def traffic(planted: Planted) -> AsyncIterator[None]:
    """Messages come in all the time."""

    async def flow() -> None:
        async with Producer("traffic", planted.namesrv) as producer:
            while True:
                await producer.send(Message(planted.name, b"x", tags="other"))
                await asyncio.sleep(0.02)

    task = asyncio.create_task(flow())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_no_consumer_is_connected(planted: Planted) -> None:
    planted.topic(2)
    member = planted.member()
    member.subscribe(planted.name, "*", done)
    async with member:
        pass
    await planted.send(20)
    await planted.names("NO_CONSUMER")


async def test_subscriptions_of_members_differ(planted: Planted) -> None:
    planted.topic(2)
    await planted.send(20)
    async with planted.member() as first, planted.member() as second:
        first.subscribe(planted.name, "*", done)
        second.subscribe(planted.name, "new", done)
        answer = await planted.names("SUBSCRIPTIONS_DIFFER")
        ids = first.client_id, second.client_id
    assert all(
        f"`{text}` ({one})" in answer["evidence"][0] for text, one in zip(("*", "new"), ids, strict=True)
    )


async def test_one_queue_is_stuck(planted: Planted, soon: None) -> None:
    planted.topic(2)
    await planted.send(8, queues=2)
    go_on = asyncio.Event()

    async def hangs(message: ReceivedMessage) -> None:
        if message.queue_offset == 1 and message.queue.queue_id == 1:
            await go_on.wait()

    async with planted.member(concurrency=4) as member:
        member.subscribe(planted.name, "*", hangs)
        answer = await planted.names("STUCK_QUEUE")
        go_on.set()
    assert answer["sentence"].startswith("queue 1 of ")


async def test_a_handler_blocks_the_event_loop(planted: Planted) -> None:
    planted.topic(1)
    await planted.send(2)

    async def blocks(message: ReceivedMessage) -> None:
        time.sleep(2.5)  # noqa: ASYNC251 - it is what must not be done

    async with planted.member() as member:
        member.subscribe(planted.name, "*", blocks)
        answer = await planted.names("LOOP_BLOCKED")
    assert "in blocks" in answer["evidence"][0]


async def test_the_handler_is_slow(planted: Planted) -> None:
    planted.topic(1)
    await planted.send(900)

    async def slow(message: ReceivedMessage) -> None:
        await asyncio.sleep(0.15)

    async with planted.member(concurrency=2) as member:
        member.subscribe(planted.name, "*", slow)
        await planted.names("SLOW_HANDLER")


async def test_a_poison_message_comes_again_and_again(planted: Planted) -> None:
    planted.topic(1)
    await planted.send(1, b"poison")

    async def fails(message: ReceivedMessage) -> None:
        raise ValueError("no such customer")

    async with planted.member(max_reconsume_times=100) as member:
        member.subscribe(planted.name, "*", fails)
        await planted.names("HANDLER_FAILS")


async def test_an_ordered_queue_is_locked_by_a_dead_client(planted: Planted) -> None:
    planted.topic(1)
    await planted.send(5)
    async with Admin(planted.namesrv) as admin:
        [master] = await admin.masters()
        queue = MessageQueue(planted.name, master.name, 0)
        await create_group(admin, master.address, SubscriptionGroupConfig(planted.name))
        await admin.set_offset(planted.name, queue, 1)
        lock = LockBatchRequestBody(planted.name, "a-dead-client@1", mq_set=[queue])
        await admin.call(master.address, LockBatchMq(body=lock))
        async with planted.member(ordered=True) as member:
            member.subscribe(planted.name, "*", done)
            answer = await planted.names("LOCKED_BY_ANOTHER")
    assert "queue 0 of" in answer["evidence"][0]


async def test_there_are_more_members_than_queues(planted: Planted) -> None:
    planted.topic(1)
    await planted.send(900)

    async def busy(message: ReceivedMessage) -> None:
        await asyncio.sleep(0.05)

    async with planted.member(concurrency=1) as first, planted.member(concurrency=1) as second:
        first.subscribe(planted.name, "*", busy)
        second.subscribe(planted.name, "*", busy)
        await planted.names("MORE_MEMBERS_THAN_QUEUES")


async def test_a_member_is_paused(planted: Planted, soon: None) -> None:
    planted.topic(1)
    async with planted.member() as member:
        handled = asyncio.Event()

        async def handle(message: ReceivedMessage) -> None:
            handled.set()

        member.subscribe(planted.name, "*", handle)
        await planted.send(1)
        await asyncio.wait_for(handled.wait(), PATIENCE_SECONDS)
        member.pause()
        async with traffic(planted):  # a pull that is under way still brings some
            await planted.names("PAUSED")


async def test_the_topic_may_not_be_read(planted: Planted) -> None:
    planted.topic(1)
    await planted.send(5)
    async with Admin(planted.namesrv) as admin:
        [master] = await admin.masters()
        await create_group(admin, master.address, SubscriptionGroupConfig(planted.name))
        await admin.set_offset(planted.name, MessageQueue(planted.name, master.name, 0), 5)
        words = ["admin", "topic", "perm", planted.name, "2", "--namesrv", planted.namesrv]
        assert await asyncio.to_thread(run, words) == 0
        await planted.send(5)
    async with planted.member() as member:  # no earlier: it would read on until it is forbidden
        member.subscribe(planted.name, "*", done)
        await planted.names("TOPIC_NOT_READABLE")


async def test_the_filter_drops_all(planted: Planted) -> None:
    planted.topic(1)
    await planted.send(5)
    async with traffic(planted), planted.member() as member:
        member.subscribe(planted.name, "never", done)
        await planted.names("FILTER_DROPS_ALL")


async def test_members_hold_as_much_as_they_may(planted: Planted) -> None:
    planted.topic(1)
    await planted.send(3000)

    async def busy(message: ReceivedMessage) -> None:
        await asyncio.sleep(0.05)

    async with planted.member(concurrency=1, pull_batch_size=256) as member:
        member.subscribe(planted.name, "*", busy)
        await planted.names("FLOW_CONTROL")


async def test_the_group_may_not_consume(planted: Planted) -> None:
    planted.topic(1)
    await planted.send(5)
    async with Admin(planted.namesrv) as admin:
        [master] = await admin.masters()
        await create_group(admin, master.address, SubscriptionGroupConfig(planted.name, consume_enable=False))
        async with planted.member() as member:
            member.subscribe(planted.name, "*", done)
            await planted.names("GROUP_DISABLED")
