"""Connections that end between a message being stored and its answer, or that are cut and torn; and a
consumer that is killed while it handles a message.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from orbitmq import FIRST_OFFSET, Message, Producer, PushConsumer, ReceivedMessage
from orbitmq.client.core.errors import ClientError
from orbitmq.protocol.requests.offset import QueryConsumerOffset
from orbitmq.server.turn.listener import free_ports
from orbitmq.testing import LocalBroker
from tests.client.naming import until
from tests.kit.broker_load import QUEUES, pool_of, records, send

pytestmark = pytest.mark.timeout(600)


class Cut(Exception):
    """A proxy's connection ends here."""


Pass = Callable[[bytes], list[bytes]]
"""Fate of bytes on their way: pieces that are passed on one after another. May raise Cut."""


class Proxy:
    """Between clients and a broker; `to_broker` and `to_client` say what becomes of what passes."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.target = 0
        self.to_broker: Pass = lambda data: [data]
        self.to_client: Pass = lambda data: [data]
        self.cuts = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of a client."""
        there, onward = await asyncio.open_connection("127.0.0.1", self.target)
        ways = [
            asyncio.ensure_future(self._carry(reader, onward, lambda data: self.to_broker(data))),
            asyncio.ensure_future(self._carry(there, writer, lambda data: self.to_client(data))),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            onward.transport.abort()
            writer.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, what: Pass) -> None:
        with suppress(OSError):
            while data := await reader.read(4096):
                try:
                    pieces = what(data)
                except Cut:
                    self.cuts += 1
                    return
                for piece in pieces:
                    writer.write(piece)
                    await writer.drain()
                    if len(pieces) > 1:
                        await asyncio.sleep(0.001)


@asynccontextmanager
async def behind_a_proxy(folder: Path) -> AsyncIterator[tuple[LocalBroker, Proxy]]:
    """A broker whose address in routes is the proxy's."""
    proxy = Proxy(free_ports())
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", proxy.port)
    broker = LocalBroker(folder, own_process=True, timeout_seconds=120, advertisedPort=proxy.port)
    proxy.target = int(broker.broker.rpartition(":")[2])
    try:
        await asyncio.to_thread(broker.start)
        yield broker, proxy
    finally:
        server.close()
        await asyncio.to_thread(broker.kill)


async def test_a_message_whose_answer_was_lost_is_sent_again_under_its_own_id(tmp_path: Path) -> None:
    async with behind_a_proxy(tmp_path / "store") as (broker, proxy):
        async with Producer("P", broker.namesrv) as producer:
            await producer.send(Message("T", b"first"))
            answers = [Cut()]

            def lose_one(data: bytes) -> list[bytes]:
                if answers and b"msgId" in data:  # that of a heartbeat may come before
                    raise answers.pop()
                return [data]

            proxy.to_client = lose_one
            result = await producer.send(Message("T", b"twice"), timeout_ms=60_000)
        twice = [record for record in await records(broker.broker) if record.body == b"twice"]
        assert len(twice) == 2, "stored, and stored again"
        ids = {record.property_map()["UNIQ_KEY"] for record in twice}
        assert ids == {result.message_id}, "whoever reads can tell that they are one"


async def test_a_network_that_cuts_and_tears_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    chance = random.Random(1)
    passed = itertools.count(1)

    def torn(data: bytes) -> list[bytes]:
        """Half frames, and one piece of ten is the last one of its connection."""
        if next(passed) % 10 == 0:
            raise Cut
        at = chance.randint(0, len(data))
        return [data[:at], data[at:]]

    taken: set[bytes] = set()
    failed = 0

    async def sender(number: int) -> None:
        nonlocal failed
        for count in range(25):
            body = b"%d-%d-" % (number, count) + b"x" * chance.randint(0, 3000)
            try:
                await producer.send(Message("T", body), timeout_ms=60_000)
                taken.add(body)
            except ClientError:
                failed += 1

    async with behind_a_proxy(tmp_path / "store") as (broker, proxy):
        async with Producer("P", broker.namesrv, delivery_timeout_ms=0) as producer:
            await producer.send(Message("T", b"first"))
            proxy.to_broker = proxy.to_client = torn
            await asyncio.gather(*(sender(number) for number in range(8)))
            proxy.to_broker = proxy.to_client = lambda data: [data]
        assert proxy.cuts >= 3
        assert len(taken) > 50, f"{failed} failed"
        bodies = Counter(record.body for record in await records(broker.broker))
        assert taken <= set(bodies)
        assert max(bodies.values()) <= 3, "one round: a send is tried three times at most"


CONSUMER = """
import asyncio, sys
from orbitmq import FIRST_OFFSET, PushConsumer

async def handle(message):
    print("got", message.body.decode(), flush=True)
    await asyncio.sleep(3600)

async def main():
    async with PushConsumer("G", sys.argv[1], consume_from_where=FIRST_OFFSET) as one:
        one.subscribe("T", "*", handle)
        await asyncio.sleep(3600)

asyncio.run(main())
"""


async def test_what_a_killed_consumer_was_at_is_delivered_again(tmp_path: Path) -> None:
    seen: list[str] = []

    async def handle(message: ReceivedMessage) -> None:
        seen.append(message.body.decode())

    with LocalBroker(tmp_path / "store", own_process=True, timeout_seconds=120) as broker:
        async with Producer("P", broker.namesrv) as producer:
            for number in range(8):
                await producer.send(Message("T", str(number).encode()), sharding_key="one")
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", CONSUMER, broker.namesrv, stdout=subprocess.PIPE
        )
        try:
            assert child.stdout is not None
            assert (await child.stdout.readline()).startswith(b"got")
        finally:
            child.kill()
            await child.wait()
        async with PushConsumer("G", broker.namesrv, consume_from_where=FIRST_OFFSET) as reader:
            reader.subscribe("T", "*", handle)
            await until(lambda: len(set(seen)) == 8, 240)


ORDERED = """
import asyncio, sys
from orbitmq import FIRST_OFFSET, PushConsumer

async def handle(message):
    if message.queue_offset == 3:
        print("in hand", flush=True)
        await asyncio.sleep(3600)

async def main():
    often = {"persist_consumer_offset_interval_ms": 100}
    async with PushConsumer("G", sys.argv[1], consume_from_where=FIRST_OFFSET, ordered=True, **often) as one:
        one.subscribe("T", "*", handle)
        await asyncio.sleep(3600)

asyncio.run(main())
"""


async def test_the_queues_of_a_killed_ordered_consumer_go_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the message it had in hand first, in order, and with nothing of what it was done with."""
    # For how long the lock of a client holds that is gone: half a minute otherwise.
    monkeypatch.setattr("orbitmq.broker.client.locks.TRUSTED_MS", 500)
    seen: dict[int, list[int]] = {queue_id: [] for queue_id in range(QUEUES)}

    async def handle(message: ReceivedMessage) -> None:
        seen[message.queue.queue_id].append(message.queue_offset)

    with LocalBroker(tmp_path / "store", timeout_seconds=120) as broker:
        async with pool_of() as pool:
            for number in range(6 * QUEUES):
                await pool.call(broker.broker, send(str(number), number % QUEUES), 60_000)

            async def committed() -> set[int]:
                asked = (
                    QueryConsumerOffset("G", "T", queue_id, set_zero_if_not_found=True)
                    for queue_id in range(QUEUES)
                )
                return {(await pool.call(broker.broker, one, 60_000)).offset for one in asked}

            child = await asyncio.create_subprocess_exec(
                sys.executable, "-c", ORDERED, broker.namesrv, stdout=subprocess.PIPE
            )
            survivor = PushConsumer(
                "G", broker.namesrv, consume_from_where=FIRST_OFFSET, ordered=True, rebalance_interval_ms=200
            )
            survivor.subscribe("T", "*", handle)
            try:
                assert child.stdout is not None
                for _ in range(QUEUES):
                    assert await child.stdout.readline() == b"in hand\n"
                async with asyncio.timeout(60):
                    while await committed() != {3}:  # noqa: ASYNC110 - told by a process
                        await asyncio.sleep(0.05)
                await survivor.start()
                await asyncio.sleep(1)
                assert not any(seen.values()), "who has a message in hand keeps its queue"
            finally:
                child.kill()
                await child.wait()
            try:
                await until(lambda: all(5 in offsets for offsets in seen.values()))
            finally:
                await survivor.close()
            assert await committed() == {6}
    assert seen == {queue_id: [3, 4, 5] for queue_id in range(QUEUES)}
