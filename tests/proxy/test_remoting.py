"""The remoting port of a proxy: clients that reach the proxy alone work as if brokers were near."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from orbitmq import (
    FIRST_OFFSET,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
    SendResult,
    TransactionProducer,
    TransactionState,
)
from orbitmq.net.blocking import BlockingConnection
from orbitmq.net.pool import ConnectionPool
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import BrokerRefused
from orbitmq.protocol.remoting.command import Command
from orbitmq.protocol.requests.admin import GetBrokerRuntimeInfo
from orbitmq.protocol.requests.client import GetConsumerConnectionList
from orbitmq.protocol.requests.pull import MAY_BE_HELD, SUBSCRIPTION_IN_REQUEST, PullMessage
from orbitmq.protocol.requests.route import GetRouteinfoByTopic
from orbitmq.proxy.remoting.port import MOST_OPEN
from orbitmq.server.turn.listener import free_ports
from orbitmq.testing import LocalBroker
from tests.proxy.conftest import proxy_before


@pytest.fixture
async def address(broker: LocalBroker) -> AsyncIterator[str]:
    """Where the clients of a proxy connect to."""
    port = free_ports()
    async with proxy_before(broker, remotingListenPort=port):
        yield f"127.0.0.1:{port}"


async def test_messages_go_both_ways_in_order_and_brokers_know_the_member_itself(
    broker: LocalBroker, address: str
) -> None:
    broker.create_topic("Behind", 2)
    got: asyncio.Queue[bytes] = asyncio.Queue()

    async def handle(message: ReceivedMessage) -> None:
        await got.put(message.body)

    async with (
        Producer("behind", address) as producer,
        PushConsumer("BehindGroup", address, consume_from_where=FIRST_OFFSET, ordered=True) as consumer,
    ):
        consumer.subscribe("Behind", handler=handle)
        for number in range(50):
            await producer.send(Message("Behind", b"%d" % number), sharding_key="one")
        async with asyncio.timeout(60):
            assert [await got.get() for _ in range(50)] == [b"%d" % number for number in range(50)]
        with BlockingConnection(broker.broker) as connection:
            found = connection.call(GetConsumerConnectionList("BehindGroup")).body
        assert [one.client_id for one in found.connection_set] == [consumer.client_id]


async def test_a_broker_asks_a_producer_through_the_proxy(broker: LocalBroker, address: str) -> None:
    broker.create_topic("Asked", 1)
    asked = asyncio.Event()

    async def unknown(sent: SendResult) -> TransactionState:
        return TransactionState.UNKNOWN

    async def what_became_of(message: ReceivedMessage) -> TransactionState:
        asked.set()
        return TransactionState.COMMIT

    got = asyncio.Event()

    async def handle(message: ReceivedMessage) -> None:
        got.set()

    async with (
        TransactionProducer("asked", address, check=what_became_of) as producer,
        PushConsumer("AskedGroup", address, consume_from_where=FIRST_OFFSET) as consumer,
    ):
        consumer.subscribe("Asked", handler=handle)
        await producer.send_in_transaction(Message("Asked", b"half"), unknown)
        async with asyncio.timeout(60):
            await asked.wait()
            await got.wait()


async def test_routes_name_the_proxy_and_what_is_for_administrators_is_refused(
    broker: LocalBroker, address: str
) -> None:
    broker.create_topic("Routed", 1)
    pool = ConnectionPool()
    route = (await pool.call(address, GetRouteinfoByTopic("Routed", True))).body
    assert [one.broker_addrs for one in route.broker_datas] == [{0: address}]
    with pytest.raises(BrokerRefused) as refused:
        await pool.call(address, GetRouteinfoByTopic("NobodyHasIt", True))
    assert refused.value.code == ResponseCode.TOPIC_NOT_EXIST
    with pytest.raises(BrokerRefused) as refused:
        await pool.call(address, GetBrokerRuntimeInfo())
    assert refused.value.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    connection = await pool.connection(address)
    for ext, code, remark in (
        ({"bname": "nobody"}, ResponseCode.SYSTEM_ERROR, "no broker 'nobody' is there now"),
        ({"extraInfo": "x"}, ResponseCode.SYSTEM_ERROR, "handle"),
    ):
        answer = await connection.submit_command(Command(30, ext=ext), "offset", 5000)
        assert (answer.code, remark in (answer.remark or "")) == (code, True), answer.remark
    await pool.close()


async def test_a_client_has_so_many_requests_open_and_is_told_so(address: str, broker: LocalBroker) -> None:
    broker.create_topic("Open", 1)
    pool = ConnectionPool()
    connection = await pool.connection(address)
    flags = SUBSCRIPTION_IN_REQUEST | MAY_BE_HELD
    pull = PullMessage(
        "OpenGroup", "Open", 0, 0, 32, flags, 0, 15_000, 0, subscription="*", broker_name="broker-a"
    )
    held = [connection.submit(pull, 30_000) for _ in range(MOST_OPEN)]
    assert (await connection.submit(pull, 30_000)).code == ResponseCode.SYSTEM_BUSY
    assert not any(one.done() for one in held)
    await pool.close()
