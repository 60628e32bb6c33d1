"""Several proxies before one cluster: each knows the consumers of all."""

from __future__ import annotations

import asyncio
import itertools

from orbitmq import FIRST_OFFSET, PushConsumer, ReceivedMessage
from orbitmq.net.blocking import BlockingConnection
from orbitmq.protocol.requests.client import GetConsumerConnectionList
from orbitmq.server.turn.listener import free_ports
from orbitmq.testing import LocalBroker
from tests.proxy.bare_client import BareClient
from tests.proxy.conftest import proxy_before
from tests.proxy.test_operating import Operator, operated
from tests.proxy.test_service import topic

SYNCED = {"heartbeatSyncerTopicClusterName": "DefaultCluster"}


async def seen(admin: Operator, group: str, expected: set[str], client: BareClient | None = None) -> None:
    """Waits until an operator sees these members, of which `client` is one.

    Others forget whom they do not hear of in 120 s.
    """
    async with asyncio.timeout(60):
        for number in itertools.count():  # proxies do not say when they have heard of a member
            found = (await admin.call("ListConsumerConnection", group=group)).client_info
            if {one.client_id for one in found} == expected:
                return
            if client is not None:
                settings = client.consuming(group, group)
                settings.user_agent.hostname = f"host-{number}"  # what changes is told at once
                await client.settle_in(settings)
            await asyncio.sleep(0.1)


async def test_an_operator_of_one_proxy_sees_the_members_of_all_until_they_leave(broker: LocalBroker) -> None:
    name = topic(broker, "Synced")
    remoting = free_ports()

    async def handle(message: ReceivedMessage) -> None: ...

    async with (
        operated(broker, **SYNCED) as (admin, _),
        proxy_before(broker, remotingListenPort=remoting, **SYNCED),
        operated(broker, **SYNCED) as (_, client),
        PushConsumer(name, f"127.0.0.1:{remoting}", consume_from_where=FIRST_OFFSET) as older,
    ):
        older.subscribe(name, "x", handler=handle)

        await seen(admin, name, {"c1", older.client_id}, client)
        with BlockingConnection(f"127.0.0.1:{remoting}") as connection:
            listed = (await asyncio.to_thread(connection.call, GetConsumerConnectionList(name))).body
        assert {one.client_id for one in listed.connection_set} == {"c1", older.client_id}
        assert set(listed.subscription_table) >= {name}


async def test_the_members_of_a_proxy_that_stops_are_gone_for_others_at_once(broker: LocalBroker) -> None:
    name = topic(broker, "SyncedStop")

    async with operated(broker, **SYNCED) as (admin, _):
        async with proxy_before(broker, **SYNCED) as stopping:
            client = BareClient(stopping.address)
            await seen(admin, name, {"c1"}, client)
        await seen(admin, name, set())
        await client.close()
