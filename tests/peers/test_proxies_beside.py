"""A proxy of ours beside Apache's 5.4.0 before one cluster: the members of a group hear of each other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path

import pytest

from orbitmq import FIRST_OFFSET, Message, Producer, PushConsumer, ReceivedMessage
from orbitmq.net.pool import ConnectionPool
from orbitmq.options import Layer
from orbitmq.protocol.errors import BrokerRefused
from orbitmq.protocol.requests.client import GetConsumerListByGroup
from orbitmq.proxy.options import PROXY_TABLE
from orbitmq.proxy.server import ProxyServer
from orbitmq.server.turn.listener import free_ports
from orbitmq.sync import Admin
from tests.peers.orbitmq_process import OrbitMQ
from tests.peers.proxy_process import BehindApacheProxy

pytestmark = [pytest.mark.needs("java"), pytest.mark.timeout(600)]


@pytest.fixture
def beside(tmp_path: Path) -> Iterator[BehindApacheProxy]:
    started = BehindApacheProxy.start(OrbitMQ.start(tmp_path / "store"))
    try:
        yield started
    finally:
        started.stop()


async def listed(pool: ConnectionPool, address: str, group: str) -> set[str]:
    try:
        found = (await pool.call(address, GetConsumerListByGroup(group), 10_000)).body
    except BrokerRefused:
        return set()
    return set(found.consumer_id_list or ())


async def test_members_behind_both_share_the_queues_and_one_that_leaves_is_gone_at_once(
    beside: BehindApacheProxy,
) -> None:
    with Admin(beside.namesrv) as admin:
        await asyncio.to_thread(admin.create_topic, "Beside", queues=4)
    remoting = free_ports()
    options = {
        "namesrvAddr": beside.namesrv,
        "remotingListenPort": remoting,
        "heartbeatSyncerTopicClusterName": "DefaultCluster",
    }
    ours = ProxyServer(PROXY_TABLE.load([Layer("the test", {k: str(v) for k, v in options.items()})]), port=0)
    await ours.start()
    addresses = (beside.remoting, f"127.0.0.1:{remoting}")
    pool = ConnectionPool()

    got: set[bytes] = set()

    async def handle(message: ReceivedMessage) -> None:
        got.add(message.body)

    def member(address: str) -> PushConsumer:
        consumer = PushConsumer("BesideGroup", address, consume_from_where=FIRST_OFFSET)
        consumer.subscribe("Beside", handler=handle)
        return consumer

    async def until(holds: Callable[[], Awaitable[bool]]) -> None:
        # Proxies do not say when they have heard of a member.
        while not await holds():  # noqa: ASYNC110
            await asyncio.sleep(0.2)

    async def are(members: Sequence[PushConsumer]) -> bool:
        ids = {one.client_id for one in members}
        known = [await listed(pool, one, "BesideGroup") for one in addresses]
        shares = [len(one.queues) for one in members]
        return known == [ids, ids] and shares == [4 // len(members)] * len(members)

    try:
        async with asyncio.timeout(300), member(addresses[0]) as first:
            async with member(addresses[1]) as second, Producer("beside", addresses[0]) as producer:
                await until(lambda: are([first, second]))
                assert not set(first.queues) & set(second.queues)
                sent = {b"%d" % number for number in range(40)}
                await asyncio.gather(*(producer.send(Message("Beside", body)) for body in sent))

                async def all_came() -> bool:
                    return got == sent

                await until(all_came)
            await until(lambda: are([first]))
    finally:
        await pool.close()
        await ours.stop()
