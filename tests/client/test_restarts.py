"""Brokers that stop, die and come back: nobody hangs, everybody goes on, and one can see how things stand."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from orbitmq import FIRST_OFFSET, Message, Producer, PullConsumer, PushConsumer, ReceivedMessage, SendFailed
from orbitmq.client.core.errors import ClientError
from tests.client.naming import fresh, until
from tests.needs import need


class Restartable(Protocol):
    """A cluster of one's own."""

    namesrv: str

    def kill(self) -> None: ...

    def halt(self) -> None: ...

    def start_again(self) -> None: ...

    def end(self) -> None: ...


class RestartableOrbitMQ:
    def __init__(self, folder: Path) -> None:
        from orbitmq.testing import LocalBroker

        self._broker = LocalBroker(folder, own_process=True).start()
        self.namesrv = self._broker.namesrv
        self.kill = self._broker.kill
        self.halt = self.end = self._broker.halt

    def start_again(self) -> None:
        self._broker.start()


class RestartableApache:
    def __init__(self, folder: Path) -> None:
        from tests.peers.apache import Apache

        need("java", "mvn")
        self._apache = Apache.start(folder)
        self.namesrv = self._apache.namesrv
        self.kill = self.end = self._apache.kill  # nobody reads its store again

    def halt(self) -> None:
        self._apache.stop()

    def start_again(self) -> None:
        self._apache.run({})


@pytest.fixture(scope="module", params=["orbitmq", pytest.param("apache", marks=pytest.mark.nightly)])
def own(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Restartable]:
    """A cluster that a test may stop and kill, as long as it starts it again."""
    folder = tmp_path_factory.mktemp("restarts") / "store"
    folder.mkdir()
    kind = RestartableOrbitMQ if request.param == "orbitmq" else RestartableApache
    server = kind(folder)
    yield server
    server.end()


async def test_producer_and_consumer_go_on_after_a_death(own: Restartable) -> None:
    topic, group = fresh("restart"), fresh("g")
    seen: set[bytes] = set()
    errors: list[Exception] = []

    async def handle(message: ReceivedMessage) -> None:
        seen.add(message.body)

    consumer = PushConsumer(group, own.namesrv, consume_from_where=FIRST_OFFSET, on_error=errors.append)
    consumer.subscribe(topic, "*", handle)
    async with Producer("restarts", own.namesrv) as producer:
        await producer.send(Message(topic, b"before"))
        async with consumer:
            await until(lambda: b"before" in seen)
            assert consumer.healthy
            await asyncio.to_thread(own.kill)
            await until(lambda: not consumer.healthy)
            assert errors
            with pytest.raises((SendFailed, ClientError)):
                await producer.send(Message(topic, b"nobody there"), timeout_ms=1000)
            await asyncio.to_thread(own.start_again)
            async with asyncio.timeout(120):
                while True:
                    try:
                        await producer.send(Message(topic, b"after"))
                        break
                    except ClientError:
                        await asyncio.sleep(0.2)
            await until(lambda: b"after" in seen)
            await until(lambda: consumer.healthy)


async def test_a_stream_lasts_through_an_orderly_restart(own: Restartable) -> None:
    topic = fresh("lasting")
    async with Producer("restarts", own.namesrv) as producer:
        await producer.send(Message(topic, b"-1"))
        count = 0

        async def numbers():
            nonlocal count
            while not again.done() or count < 2000:
                yield Message(topic, str(count), sharding_key=str(count % 7))
                count += 1
                if count % 20 == 0:
                    await asyncio.sleep(0.002)

        async def restart() -> None:
            await asyncio.sleep(0.2)
            await asyncio.to_thread(own.halt)
            await asyncio.to_thread(own.start_again)
            await asyncio.sleep(0.5)

        again = asyncio.create_task(restart())
        assert await producer.send_all(numbers(), timeout_ms=180_000) == count
        await again
    last: dict[int, int] = {}
    found: set[int] = set()
    async with PullConsumer("restarts", own.namesrv) as reader, asyncio.timeout(120):
        offsets = dict.fromkeys(await reader.queues(topic), 0)
        # Apache's broker acknowledges messages before they are in their queues.
        while found != set(range(count)):
            for queue, offset in offsets.items():
                messages = await reader.pull(queue, offset)
                offsets[queue] = messages.next_offset
                for message in messages:
                    number = int(message.body)
                    if number >= 0 and number not in found:
                        # A batch may be there twice, but what is new comes in order.
                        assert last.get(number % 7, -1) < number
                        last[number % 7] = number
                        found.add(number)


async def test_close_ends_although_the_broker_is_gone(own: Restartable) -> None:
    topic = fresh("gone")
    async with Producer("restarts", own.namesrv) as producer:
        await producer.send(Message(topic, b"x"))
    consumer = PushConsumer(fresh("g"), own.namesrv, consume_from_where=FIRST_OFFSET)
    consumer.subscribe(topic)
    await consumer.start()
    await until(lambda: len(consumer.queues) == 4)
    await asyncio.to_thread(own.kill)
    async with asyncio.timeout(120):
        await consumer.close()
    await asyncio.to_thread(own.start_again)


async def test_a_broker_killed_and_started_again_costs_a_producer_no_exception() -> None:
    """A process that dies in the midst of sends. A slow machine may start it later than the default waits."""
    from orbitmq.testing import LocalBroker

    with LocalBroker(own_process=True) as broker:
        broker.create_topic("orders", 2)
        stored = 0
        async with Producer("shop", broker.namesrv, delivery_timeout_ms=300_000) as producer:

            async def send(until_set: asyncio.Event) -> None:
                nonlocal stored
                while not until_set.is_set():
                    await producer.send(Message("orders", b"x"))
                    stored += 1

            over = asyncio.Event()
            async with asyncio.TaskGroup() as senders:
                for _ in range(8):
                    senders.create_task(send(over))
                await until(lambda: stored > 100)
                broker.kill()
                before = stored
                await asyncio.to_thread(broker.start)
                await until(lambda: stored > before + 100)
                over.set()
            await until(lambda: producer.healthy)
