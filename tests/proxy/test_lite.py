"""Lite topics through the proxy, before a broker that has them."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator

import pytest

from orbitmq import sync
from orbitmq.net.blocking import BlockingConnection
from orbitmq.protocol.bodies.group import SubscriptionGroupConfig
from orbitmq.protocol.requests.group import UpdateAndCreateSubscriptiongroup
from orbitmq.proxy.server import ProxyServer
from orbitmq.proxy.wire import messaging_pb2 as pb
from orbitmq.testing import LocalBroker
from tests.proxy.bare_client import BareClient
from tests.proxy.conftest import proxy_before

PARENT = "Sessions"


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker(enableLmq="true", enableMultiDispatch="true") as started:
        with sync.Admin(started.namesrv) as admin:
            admin.create_topic(PARENT, queues=4, attributes={"message.type": "LITE"})
        started.create_topic(PARENT, 4)
        yield started


@pytest.fixture
async def proxy(broker: LocalBroker) -> AsyncIterator[ProxyServer]:
    async with proxy_before(broker) as started:
        yield started


class LiteClient(BareClient):
    """A push consumer of lite topics."""

    async def join(self, group: str) -> None:
        settings = self.consuming(group, PARENT)
        settings.client_type = pb.LITE_PUSH_CONSUMER
        await self.settle_in(settings)

    async def subscribe(self, group: str, action: int, *names: str) -> pb.Status:
        request = pb.SyncLiteSubscriptionRequest(action=action, lite_topic_set=names)  # type: ignore[arg-type]
        request.group.name, request.topic.name = group, PARENT
        status: pb.Status = (await self.call("SyncLiteSubscription", request)).status
        return status

    async def receive_lite(self, group: str) -> list[tuple[str, bytes]]:
        """Lite topics and bodies of what there is; all of it is acknowledged."""
        found = await self.receive(PARENT, group, wait_ms=5000)
        if found:
            handles = [one.system_properties.receipt_handle for one in found]
            assert (await self.acknowledge(PARENT, group, *handles)).status.code == pb.OK
        return [(one.system_properties.lite_topic, one.body) for one in found]


def lite_group(broker: LocalBroker, name: str, **attributes: str) -> str:
    config = SubscriptionGroupConfig(
        name,
        attributes={
            "+lite.bind.topic": PARENT,
            **{f"+lite.sub.{key}": value for key, value in attributes.items()},
        },
    )
    with BlockingConnection(broker.broker) as connection:
        connection.call(UpdateAndCreateSubscriptiongroup(config))
    return name


async def test_members_of_a_wildcard_group_share_all_lite_topics_of_the_parent(
    broker: LocalBroker, proxy: ProxyServer
) -> None:
    group = lite_group(broker, "Wild", wildcard="true")
    first, second = (LiteClient(proxy.address, name) for name in ("w1", "w2"))
    for client in (first, second):
        await client.join(group)
        # The empty set is how a member of such a group joins.
        assert (await client.subscribe(group, pb.COMPLETE_ADD)).code == pb.OK
    refused = await first.subscribe(group, pb.PARTIAL_ADD, "one")
    assert "not supported for this group" in refused.message

    async def send(round_: int) -> dict[tuple[str, bytes], None]:
        sent = [(f"l{number}", b"%d" % round_) for number in range(4)]
        for name, body in sent:
            assert (await first.send(PARENT, body, lite_topic=name)).status.code == pb.OK
        return dict.fromkeys(sent)

    wanted = await send(1)
    for client in itertools.cycle((first, second)):
        for one in await client.receive_lite(group):
            del wanted[one]
        if not wanted:
            break
    await first.call("NotifyClientTermination", _farewell(group))
    wanted = await send(2)
    while wanted:
        for one in await second.receive_lite(group):
            del wanted[one]
    for client in (first, second):
        await client.close()


def _farewell(group: str) -> pb.NotifyClientTerminationRequest:
    request = pb.NotifyClientTerminationRequest()
    request.group.name = group
    return request
