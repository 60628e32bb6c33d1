"""The service of operators: clients of both protocols are seen, and asked, alike."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest

from orbitmq import FIRST_OFFSET, PushConsumer, ReceivedMessage
from orbitmq.options import Layer, OptionError
from orbitmq.proxy.operating.service import SERVICE
from orbitmq.proxy.options import PROXY_TABLE
from orbitmq.proxy.wire import admin_pb2 as operator
from orbitmq.proxy.wire import messaging_pb2 as pb
from orbitmq.server.turn.listener import free_ports
from orbitmq.testing import LocalBroker
from tests.proxy.bare_client import BareClient
from tests.proxy.conftest import proxy_before
from tests.proxy.test_service import topic


class Operator:
    """Calls of the service."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._channel = channel

    async def call(self, name: str, kind: str = "", **fields: Any) -> Any:
        request = getattr(operator, f"{kind or name}Request")(
            **{
                key: pb.Resource(name=value) if key in ("topic", "group") else value
                for key, value in fields.items()
            }
        )
        made = self._channel.unary_unary(
            f"/{SERVICE}/{name}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=getattr(operator, f"{kind or name}Response").FromString,
        )
        return await made(request, timeout=60)


@asynccontextmanager
async def operated(broker: LocalBroker, **options: object) -> AsyncIterator[tuple[Operator, BareClient]]:
    """A proxy's operator, and a client of the same proxy."""
    port = free_ports()
    async with (
        proxy_before(broker, adminListenPort=port, **options) as proxy,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        client = BareClient(proxy.address)
        yield Operator(channel), client
        await client.close()


async def test_members_of_both_protocols_are_seen_and_asked(broker: LocalBroker) -> None:
    name = topic(broker, "Seen")

    async def handle(message: ReceivedMessage) -> None: ...

    async with (
        operated(broker) as (admin, client),
        PushConsumer(name, broker.namesrv, consume_from_where=FIRST_OFFSET) as older,
    ):
        older.subscribe(name, "x || y", handler=handle)
        settings = client.consuming(name, name)
        settings.user_agent.hostname = "here"
        await client.settle_in(settings)
        async with asyncio.timeout(120):
            while True:  # brokers do not say when they know a member
                found = (await admin.call("ListConsumerConnection", group=name)).client_info
                if len(found) == 2:
                    break
                await asyncio.sleep(0.05)
        assert [one.client_id for one in found] == ["c1", older.client_id]
        assert (found[0].hostname, found[0].language) == ("here", "PYTHON")
        assert found[1].egress_ip.startswith("127.0.0.1:")
        (row,) = (await admin.call("ListSubscription", topic=name)).subscription_info
        assert (row.group.name, row.online, row.subscription_consistency) == (name, True, False)
        rows = (await admin.call("DescribeSubscription", group=name)).client_subscription_info
        assert [one.subscription_info.expression.expression for one in rows] == ["*", "x || y"]
        assert (await admin.call("ListSubscription")).status.code == pb.BAD_REQUEST
        for client_id, known in (("c1", "clientType"), (older.client_id, "PROP_CLIENT_VERSION")):
            running = await admin.call("GetConsumerRunningInfo", group=name, client_id=client_id)
            assert known in running.consumer_running_info.properties, running
            assert name in running.consumer_running_info.subscriptions
        running = await admin.call("GetConsumerRunningInfo", group=name, client_id="nobody")
        assert running.status.code == pb.NOT_FOUND
        stats = await admin.call("GetProxyRuntimeStats")
        assert (stats.connections, stats.consumers, stats.producers) == (1, 1, 0)


async def test_a_client_tells_its_stacks_and_tries_a_message(broker: LocalBroker) -> None:
    name = topic(broker, "Tried")
    async with operated(broker, grpcProxyRelayRequestTimeoutInSeconds=60) as (admin, client):
        sent = await client.send(name, b"try me")
        await client.settle_in(client.consuming(name, name))
        asked = asyncio.create_task(admin.call("PrintThreadStackTrace", group=name, client_id="c1"))
        command = await client.told.get()
        told = pb.ThreadStackTrace(
            nonce=command.print_thread_stack_trace_command.nonce, thread_stack_trace="main: waits"
        )
        await client.tell(pb.TelemetryCommand(thread_stack_trace=told))
        assert (await asked).thread_stack_trace == "main: waits"
        what = {"group": name, "topic": name, "client_id": "c1", "message_id": sent.entries[0].message_id}
        asked = asyncio.create_task(admin.call("VerifyMessage", **what))
        wanted = (await client.told.get()).verify_message_command
        assert wanted.message.body == b"try me"
        failed = pb.Status(code=pb.FAILED_TO_CONSUME_MESSAGE, message="no")
        result = pb.VerifyMessageResult(nonce=wanted.nonce)
        await client.tell(pb.TelemetryCommand(status=failed, verify_message_result=result))
        assert (await asked).status == failed
        for change, code in (
            ({"client_id": "c2"}, pb.NOT_FOUND),
            ({"message_id": "x"}, pb.MESSAGE_NOT_FOUND),
        ):
            assert (await admin.call("VerifyMessage", **{**what, **change})).status.code == code
    async with operated(broker, grpcProxyRelayRequestTimeoutInSeconds=1) as (admin, client):
        await client.settle_in(client.consuming(name, name))  # it answers nothing
        status = (await admin.call("VerifyMessage", **what)).status
        assert (status.code, status.message.endswith("within 1 s")) == (pb.REQUEST_TIMEOUT, True), status


async def test_messages_are_sent_found_and_counted_and_offsets_are_set(broker: LocalBroker) -> None:
    name = topic(broker, "Counted")
    async with operated(broker) as (admin, client):
        sent = await admin.call("AdminSendMessage", topic=name, body=b"a", tag="t", key="k")
        assert sent.status.code == pb.OK
        await client.send(name, b"b")
        for by in ({"message_id": sent.message_id}, {"message_key": "k"}):
            (found,) = (await admin.call("QueryMessage", "ListMessage", topic=name, **by)).messages
            assert (found.body, found.system_properties.tag) == (b"a", "t")
        listed = await admin.call("QueryMessage", "ListMessage", topic=name)
        assert [one.body for one in listed.messages] == [b"a", b"b"]
        lite = await admin.call("QueryMessage", "ListMessage", topic=name, lite_topic="l")
        assert lite.status.code == pb.NOT_IMPLEMENTED
        await client.settle_in(client.consuming(name, name))
        handles = [one.system_properties.receipt_handle for one in await client.receive(name, name)]
        await client.acknowledge(name, name, *handles)
        await client.send(name, b"c")
        status = await admin.call("DescribeGroupAccumulation", group=name)
        assert status.topic_accumulation[name].accumulation == status.accumulation.accumulation == 1
        assert (await admin.call("ResetGroupOffset", group=name, topic=name)).status.code == pb.OK
        again = await client.receive(name, name)
        assert [one.body for one in again] == [b"a", b"b", b"c"]
        (span,) = (
            await admin.call("QueryTimeSpan", group=name, topics=[pb.Resource(name=name)])
        ).queue_time_span_list
        assert span.max_timestamp >= span.min_timestamp > 0
        assert (await admin.call("DescribeTopicStatus", topic=name)).topic_message_type == pb.NORMAL
        assert '"brokerDatas"' in (await admin.call("GetTopicRoute", topic=name)).topic_route_data
        assert (await admin.call("GetTopicRoute", topic="NobodyHasIt")).status.code == pb.TOPIC_NOT_FOUND
        assert (await admin.call("DeleteSubscription", topic=name)).status.code == pb.NOT_IMPLEMENTED


async def test_operators_have_a_port_and_rights_of_their_own(broker: LocalBroker) -> None:
    async with operated(broker) as (admin, client):
        (refused,) = [await Operator(client.channel).call("GetProxyRuntimeStats")]
        assert refused.status.code == pb.UNAUTHORIZED
    keys = '{"accessKey":"root","secretKey":"secret-root"}'
    async with operated(broker, authenticationEnabled=True, innerClientAuthenticationCredentials=keys) as (
        admin,
        _,
    ):
        assert (await admin.call("GetProxyRuntimeStats")).status.code == pb.UNAUTHORIZED
    with pytest.raises(OptionError, match="authenticationEnabled"):
        PROXY_TABLE.load([Layer("the test", {"adminListenPort": "8083", "bindAddress": "0.0.0.0"})])
