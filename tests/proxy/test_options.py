"""Effects of a proxy's options on its ports and its clients. The channels of a process share a connection."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest

from orbitmq import Message, Producer
from orbitmq.net.blocking import BlockingConnection
from orbitmq.protocol.requests.route import GetRouteinfoByTopic
from orbitmq.proxy.server import ProxyServer
from orbitmq.proxy.wire import messaging_pb2 as pb
from orbitmq.server.turn.listener import free_ports
from orbitmq.testing import LocalBroker
from tests.client.naming import until
from tests.proxy.bare_client import BareClient
from tests.proxy.conftest import proxy_before
from tests.proxy.floods import PREFACE, SETTINGS, frame
from tests.proxy.test_service import topic
from tests.unit.server.metrics.test_reports import page

GOAWAY, MAX_CONCURRENT_STREAMS = 7, 3
LIMIT_SECONDS = 120


@asynccontextmanager
async def connected(address: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection that has said that it speaks HTTP/2."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(PREFACE + frame(SETTINGS, 0, 0))
    try:
        async with asyncio.timeout(LIMIT_SECONDS):
            yield reader, writer
    finally:
        writer.transport.abort()


async def read_frame(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """The kind and the payload of the next frame."""
    head = await reader.readexactly(9)
    return head[3], await reader.readexactly(int.from_bytes(head[:3]))


# Ports.


async def test_ports_and_addresses_are_those_of_the_options(
    broker: LocalBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, backlogs = asyncio.get_running_loop(), []
    create = loop.create_server

    async def noted(*arguments: Any, **values: Any) -> Any:
        backlogs.append(values.get("backlog"))
        return await create(*arguments, **values)

    monkeypatch.setattr(loop, "create_server", noted)
    port, remoting, health = (free_ports() for _ in range(3))
    async with proxy_before(
        broker,
        bindAddress="127.0.0.2",
        grpcServerPort=port,
        remotingListenPort=remoting,
        remotingAccessAddr="mq.example:4711",
        healthPort=health,
        healthHost="127.0.0.3",
        serverSocketBacklog=7,
    ) as proxy:
        assert proxy.address == f"127.0.0.2:{port}"
        client = BareClient(proxy.address)
        name = topic(broker, "Elsewhere")
        assert (await client.send(name, b"x")).status.code == pb.OK
        await client.close()
        with BlockingConnection(f"127.0.0.2:{remoting}") as connection:
            route = (await asyncio.to_thread(connection.call, GetRouteinfoByTopic(name, True))).body
        assert [one.broker_addrs for one in route.broker_datas] == [{0: "mq.example:4711"}]
        assert (await page(health, "/health/ready", "127.0.0.3"))[0] == 200
        assert backlogs.count(7) == 2


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"advertisedEndpoints": "a.example:1;b.example:2"}, [("a.example", 1), ("b.example", 2)]),
        ({"useEndpointPortFromRequest": "true"}, [("mq.example", 443)]),
    ],
)
async def test_clients_are_told_the_endpoints_of_the_options(
    broker: LocalBroker, options: dict[str, object], told: list[tuple[str, int]]
) -> None:
    request = pb.QueryRouteRequest(topic=pb.Resource(name=topic(broker, "Told")))
    request.endpoints.addresses.add(host="mq.example", port=443)
    async with proxy_before(broker, **options) as proxy:
        client = BareClient(proxy.address)
        (queue,) = (await client.call("QueryRoute", request)).message_queues
        assert [(one.host, one.port) for one in queue.broker.endpoints.addresses] == told
        await client.close()


async def test_plain_text_is_refused_if_tls_is_enforced(broker: LocalBroker) -> None:
    async with (
        proxy_before(broker, **{"tls.server.mode": "enforcing"}) as proxy,
        connected(proxy.address) as (reader, _),
    ):
        assert await reader.read() == b""


# Connections.


async def test_connections_and_clients_are_so_many(broker: LocalBroker) -> None:
    async with proxy_before(broker, maxConnections=1, maxClients=1) as proxy:
        first, second = BareClient(proxy.address, "first"), BareClient(proxy.address, "second")
        await first.settle_in(first.producing("orders"))
        with pytest.raises(grpc.aio.AioRpcError, match="1 clients are connected to this proxy"):
            await second.settle_in(second.producing("orders"))
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            async with connected(proxy.address) as (reader, _):
                await reader.readexactly(1)
        await first.close()
        await second.close()


async def test_calls_of_a_connection_and_bytes_of_a_request_are_so_many(broker: LocalBroker) -> None:
    name = topic(broker, "Bytes")
    async with proxy_before(
        broker, grpcMaxConcurrentCallsPerConnection=17, grpcMaxInboundMessageSize=2048
    ) as proxy:
        async with connected(proxy.address) as (reader, _):
            kind, payload = await read_frame(reader)
        assert kind == SETTINGS
        assert dict(struct.iter_unpack(">HI", payload))[MAX_CONCURRENT_STREAMS] == 17
        client = BareClient(proxy.address)
        assert (await client.send(name, bytes(1500))).status.code == pb.OK
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await client.send(name, bytes(2048))
        assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        await client.close()


async def test_a_connection_is_ended_in_order_at_its_age(broker: LocalBroker) -> None:
    async with (
        proxy_before(broker, grpcConnectionMaxAgeSeconds=1) as proxy,
        connected(proxy.address) as (reader, _),
    ):
        while (await read_frame(reader))[0] != GOAWAY:
            pass


@pytest.mark.parametrize(
    ("options", "is_closed"),
    [
        ({}, False),
        ({"grpcClientIdleTimeMills": 60_000}, True),
        ({"serverChannelMaxIdleTimeSeconds": 60}, True),
    ],
)
async def test_idle_connections_end_after_the_time_given(
    broker: LocalBroker, options: dict[str, object], is_closed: bool
) -> None:
    async with proxy_before(broker, **options) as proxy, connected(proxy.address) as (reader, _):
        await read_frame(reader)
        (relay,) = proxy.front.relays
        relay.last_active -= 90  # it may be idle for 120 s by default
        proxy.front.close_idle()
        assert relay._transport.is_closing() == is_closed


@pytest.mark.parametrize(("options", "is_gone"), [({}, False), ({"channelExpiredInSeconds": 30}, True)])
async def test_clients_without_a_stream_are_gone_after_the_time_given(
    broker: LocalBroker, options: dict[str, object], is_gone: bool
) -> None:
    async with proxy_before(broker, **options) as proxy:
        client = BareClient(proxy.address)
        await client.settle_in(client.producing("orders"))
        await client.close()
        known = proxy.clients.get("c1")
        assert known is not None
        await until(lambda: not known.streams)
        known.last_heard_ms -= 45_000
        await proxy._look()
        assert (proxy.clients.get("c1") is None) == is_gone


@pytest.mark.parametrize(("seconds", "is_answered"), [(0, False), (LIMIT_SECONDS, True)])
async def test_open_calls_have_their_time_when_the_proxy_stops(
    broker: LocalBroker, seconds: int, is_answered: bool
) -> None:
    name = topic(broker, f"Stopped{seconds}")
    async with proxy_before(broker, grpcShutdownTimeSeconds=seconds) as proxy:
        client = BareClient(proxy.address)
        await client.settle_in(client.consuming(name, name))
        held = asyncio.create_task(client.receive(name, name))
        await until(lambda: proxy.service._open["c1"] == 2)
        stopping = asyncio.create_task(proxy.stop())
        assert (await client.told.get()).HasField("reconnect_endpoints_command")
        if is_answered:
            async with Producer("stopped", broker.namesrv) as producer:
                await producer.send(Message(name, b"late"))
            assert [one.body for one in await held] == [b"late"]
        else:
            with pytest.raises(grpc.aio.AioRpcError):
                await held
        await client.close()
        await stopping


# What a proxy does by itself.


async def test_messages_are_renewed_at_the_interval_of_the_option(broker: LocalBroker) -> None:
    name = topic(broker, "Renewed")
    # Every look renews it, for it would always be visible again within the time.
    options = {"renewSchedulePeriodMillis": 10, "renewAheadTimeMillis": 10**9}
    async with proxy_before(broker, **options) as proxy:
        client = BareClient(proxy.address)
        await client.send(name, b"x")
        settings = client.consuming(name, name)
        settings.client_type = pb.PUSH_CONSUMER
        await client.settle_in(settings)
        request = pb.ReceiveMessageRequest(batch_size=1, auto_renew=True)
        request.group.name = request.message_queue.topic.name = name
        (message,) = [
            one.message for one in await client.answers("ReceiveMessage", request) if one.HasField("message")
        ]
        (one,) = proxy._renewals._by_client["c1"].values()
        await until(lambda: one.renewals >= 30)  # at the interval of 5 s it would take longer than that
        handle = message.system_properties.receipt_handle
        assert (await client.acknowledge(name, name, handle)).status.code == pb.OK
        await client.close()


async def test_producers_are_named_to_brokers_at_the_interval_of_the_option(
    broker: LocalBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    intervals: dict[str, float] = {}
    monkeypatch.setattr(
        ProxyServer, "_every", lambda self, seconds, work, name: intervals.update({name: seconds})
    )
    async with proxy_before(broker, transactionHeartbeatPeriodSecond=3):
        assert intervals["heartbeats of producers"] == 3
