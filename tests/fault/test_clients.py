"""Name servers that are gone or know what is no longer so, and consumers that come and go like a storm."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from orbitmq import (
    FIRST_OFFSET,
    Message,
    MessageQueue,
    Producer,
    PushConsumer,
    ReceivedMessage,
    SendFailed,
)
from orbitmq.admin.topics import create_request
from orbitmq.broker.options import BROKER_TABLE
from orbitmq.client.core.errors import ClientError
from orbitmq.nameserver.options import NAMESRV_TABLE
from orbitmq.net.errors import NetError
from orbitmq.net.pool import ConnectionPool
from orbitmq.options import Layer
from orbitmq.protocol.bodies.route import RegisterBrokerBody
from orbitmq.protocol.bodies.topic import TopicConfig, TopicConfigAndMappingSerializeWrapper
from orbitmq.protocol.bodies.version import DataVersion
from orbitmq.protocol.errors import BrokerRefused
from orbitmq.protocol.requests.route import GetRouteinfoByTopic, RegisterBroker
from orbitmq.server.lifecycle.broker_server import BrokerServer
from orbitmq.server.lifecycle.namesrv import NamesrvServer
from orbitmq.server.turn.listener import free_ports
from orbitmq.testing import LocalBroker
from orbitmq.testing.local_broker import SMALL_SEGMENTS
from tests.client.naming import until


@asynccontextmanager
async def name_server(folder: Path, port: int) -> AsyncIterator[NamesrvServer]:
    """One that begins without knowing anybody."""
    settings = NAMESRV_TABLE.load([Layer("the test", {"listenPort": port})])
    server = NamesrvServer(settings, data_dir=folder)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@asynccontextmanager
async def broker_of(folder: Path, port: int, namesrv: str) -> AsyncIterator[BrokerServer]:
    """A broker that registers with one name server, as often as it may."""
    values: dict[str, Any] = {
        **SMALL_SEGMENTS,
        "storePathRootDir": str(folder),
        "listenPort": port,
        "namesrvAddr": namesrv,
        "registerNameServerPeriod": 10_000,
    }
    server = BrokerServer(BROKER_TABLE.load([Layer("the test", values)]))
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


async def known_brokers(namesrv: str, topic: str) -> set[str | None]:
    """Those that the name server says have the topic."""
    pool = ConnectionPool()
    try:
        route = (await pool.call(namesrv, GetRouteinfoByTopic(topic))).body
    except (BrokerRefused, NetError):
        return set()
    finally:
        await pool.close()
    return {broker.broker_name for broker in route.broker_datas}


async def until_known(namesrv: str, topic: str, brokers: set[str]) -> None:
    """Brokers come and go at a name server by themselves."""
    async with asyncio.timeout(60):
        while await known_brokers(namesrv, topic) != brokers:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


def registration(name: str, address: str) -> RegisterBroker:
    """A registration that has a name server believe for ten minutes that a broker is there."""
    known = {topic: TopicConfig(topic, 4, 4) for topic in ("T", "Other")}
    topics = TopicConfigAndMappingSerializeWrapper(known, DataVersion(1, 0, 1))
    return RegisterBroker(
        name, address, "DefaultCluster", "127.0.0.1:1", 0, heartbeat_timeout_millis=600_000,
        body=RegisterBrokerBody(topics),
    )  # fmt: skip


@pytest.mark.timeout(600)
async def test_without_any_name_server_clients_go_on_with_what_they_know(tmp_path: Path) -> None:
    port = free_ports(-2, 1, 2)
    seen: list[bytes] = []

    async def handle(message: ReceivedMessage) -> None:
        seen.append(message.body)

    async with name_server(tmp_path / "first", port + 2) as first:
        broker = broker_of(tmp_path / "store", port, first.address)
        await broker.__aenter__()
        producer = Producer("P", first.address, poll_name_server_interval_ms=50)
        reader = PushConsumer(
            "G", first.address, consume_from_where=FIRST_OFFSET, poll_name_server_interval_ms=50
        )
        await producer.start()
        await producer.send(Message("T", b"0"))
        reader.subscribe("T", "*", handle)
        await reader.start()
        await until(lambda: seen == [b"0"])
    try:
        for number in range(1, 20):
            await producer.send(Message("T", str(number).encode()))
            await asyncio.sleep(0.02)  # routes are asked for in vain meanwhile
        await until(lambda: len(seen) >= 20)
        assert sorted(seen, key=int) == [str(number).encode() for number in range(20)]
        async with name_server(tmp_path / "second", port + 2) as second:
            await until_known(second.address, "T", {"broker-a"})
            async with Producer("Q", second.address) as late:
                await late.send(Message("T", b"20"))
            await until(lambda: len(seen) >= 21)
    finally:
        await producer.close()
        await reader.close()
        await broker.__aexit__(None, None, None)


@pytest.mark.timeout(600)
async def test_a_name_server_that_knows_a_broker_where_it_is_not_any_more(tmp_path: Path) -> None:
    dead, port = free_ports(), free_ports(-2, 1, 2)
    past = ConnectionPool()
    async with name_server(tmp_path / "namesrv", port + 2) as names:
        await past.call(names.address, registration("broker-a", f"127.0.0.1:{dead}"))
        async with Producer(
            "P", names.address, poll_name_server_interval_ms=50, delivery_timeout_ms=500
        ) as producer:
            with pytest.raises(ClientError):  # and not for ever
                await producer.send(Message("T", b"early"))
            async with broker_of(tmp_path / "store", port, names.address):
                async with asyncio.timeout(300):
                    while True:
                        try:
                            await producer.send(Message("T", b"sent"))
                            break
                        except ClientError:
                            await asyncio.sleep(0.1)
                seen: list[bytes] = []

                async def handle(message: ReceivedMessage) -> None:
                    seen.append(message.body)

                async with PushConsumer("G", names.address, consume_from_where=FIRST_OFFSET) as reader:
                    reader.subscribe("T", "*", handle)
                    await until(lambda: seen)
                assert set(seen) == {b"sent"}
        await past.close()


@pytest.mark.timeout(600)
async def test_beside_a_broker_that_was_killed_the_live_one_takes_what_is_sent(tmp_path: Path) -> None:
    """And a name server that still names the dead one costs one try, not the message."""
    seen: set[bytes] = set()
    sent: set[bytes] = set()

    async def handle(message: ReceivedMessage) -> None:
        seen.add(message.body)

    async def send() -> str:
        """Gives the name of the broker that took it."""
        body = b"%d" % len(sent)
        sent.add(body)
        return (await producer.send(Message("T", body))).queue.broker_name

    past = ConnectionPool()
    with (
        LocalBroker(tmp_path / "a", timeout_seconds=120) as live,
        LocalBroker(
            tmp_path / "b", own_process=True, timeout_seconds=120,
            brokerName="broker-b", namesrvAddr=live.namesrv,
        ) as other,
    ):  # fmt: skip
        reader = PushConsumer(
            "G",
            live.namesrv,
            consume_from_where=FIRST_OFFSET,
            rebalance_interval_ms=500,
            poll_name_server_interval_ms=50,
        )
        reader.subscribe("T", "*", handle)
        async with (
            # Two tries for each message: the one at the broker that is dead, and one at the other.
            Producer(
                "P",
                live.namesrv,
                send_msg_timeout_ms=60_000,
                retry_times_when_send_failed=1,
                delivery_timeout_ms=0,
                poll_name_server_interval_ms=50,
            ) as producer,
            reader,
        ):
            for address in (live.broker, other.broker):
                await past.call(address, create_request(TopicConfig("T", 4, 4)))
            await until_known(live.namesrv, "T", {"broker-a", "broker-b"})
            assert {await send() for _ in range(16)} == {"broker-a", "broker-b"}
            under_way = [asyncio.ensure_future(send()) for _ in range(200)]
            await under_way[0]
            other.kill()
            assert "broker-a" in await asyncio.gather(*under_way)

            await until_known(live.namesrv, "T", {"broker-a"})
            await past.call(live.namesrv, registration("broker-b", other.broker))
            dead = MessageQueue(topic="T", broker_name="broker-b", queue_id=0)
            async with asyncio.timeout(60):
                while dead not in await producer.queues("T"):  # noqa: ASYNC110 - it asks by itself
                    await asyncio.sleep(0.05)
            assert {await send() for _ in range(32)} == {"broker-a"}
            with pytest.raises(SendFailed) as failed:
                await producer.send(Message("T", b"to that queue and no other"), queue=dead)
            assert [name for name, _ in failed.value.failures] == ["broker-b"]
            await past.close()

            await asyncio.to_thread(other.start)
            await until(lambda: sent <= seen)


STORM_SECONDS = 6.0
MEMBERS = 20
LONGEST_ALONE_SECONDS = 20.0
"""No queue with messages is without somebody at it for longer."""


@pytest.mark.timeout(600)
async def test_a_storm_of_members_never_has_two_of_them_at_a_queue(tmp_path: Path) -> None:
    chance = random.Random(1)
    running: Counter[int] = Counter()
    handled: list[tuple[int, int]] = []
    overlaps: list[int] = []
    last_handled: dict[int, float] = {}
    alone = slowest_send = 0.0

    async def handle(message: ReceivedMessage) -> None:
        nonlocal alone
        queue = message.queue.queue_id
        now = time.monotonic()
        alone = max(alone, now - last_handled.get(queue, now))
        last_handled[queue] = now
        if running[queue]:
            overlaps.append(queue)
        running[queue] += 1
        try:
            await asyncio.sleep(0.002)
        finally:
            running[queue] -= 1
        handled.append((queue, message.queue_offset))

    def member(number: int) -> PushConsumer:
        made = PushConsumer(
            "G", broker.namesrv, consume_from_where=FIRST_OFFSET, ordered=True, instance_name=f"m{number}"
        )
        made.subscribe("T", "*", handle)
        return made

    async def passing(number: int) -> None:
        """One that comes and goes."""
        await asyncio.sleep(chance.uniform(0, STORM_SECONDS / 2))
        async with member(number):
            await asyncio.sleep(chance.uniform(0.1, STORM_SECONDS / 2))

    with LocalBroker(tmp_path / "store", own_process=True, timeout_seconds=120) as broker:
        async with Producer("P", broker.namesrv) as producer:
            sent = [await producer.send(Message("T", b"0"))]
            async with member(0):
                storm = [asyncio.ensure_future(passing(number)) for number in range(1, MEMBERS + 1)]
                while not all(one.done() for one in storm):
                    began = time.monotonic()
                    sent.append(await producer.send(Message("T", str(len(sent)).encode())))
                    slowest_send = max(slowest_send, time.monotonic() - began)
                    await asyncio.sleep(0.01)
                await asyncio.gather(*storm)
                await until(lambda: len(set(handled)) == len(sent), 300)
    assert overlaps == []
    # On a machine that stands still nobody is served.
    assert alone < LONGEST_ALONE_SECONDS + 2 * slowest_send, f"a queue had nobody for {alone:.1f} s"
    for queue in range(4):
        firsts = list(dict.fromkeys(offset for one, offset in handled if one == queue))
        assert firsts == sorted(firsts), "the messages of a queue were handled in their order"
