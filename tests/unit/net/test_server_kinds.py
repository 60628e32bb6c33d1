"""Addresses of another kind of server than the one that is meant, as real servers answer."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from orbitmq import Message, Producer
from orbitmq.admin.admin import Admin
from orbitmq.net.errors import NoNameServer
from orbitmq.net.pool import ConnectionPool
from orbitmq.net.server_kinds import BROKER, CONTROLLER, NAME_SERVER, WrongServer, kind_of_server
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.requests.admin import GetBrokerRuntimeInfo
from orbitmq.protocol.requests.controller import ControllerGetMetadataInfo
from orbitmq.protocol.requests.route import GetBrokerClusterInfo
from orbitmq.testing import LocalBroker
from tests.kit.scripted_admin import Scripted

CHECKED = {
    "authenticationEnabled": "true",
    "initAuthenticationUser": '{"username":"root","password":"root-secret"}',
}


@pytest.fixture(scope="module", params=[{}, CHECKED], ids=["open", "checked"])
def broker(request: pytest.FixtureRequest) -> Iterator[LocalBroker]:
    with LocalBroker(**request.param) as running:
        yield running


async def test_servers_are_told_apart_with_and_without_access_control(
    broker: LocalBroker, pool: ConnectionPool
) -> None:
    assert await kind_of_server(pool, broker.namesrv, 60_000) == NAME_SERVER
    assert await kind_of_server(pool, broker.broker, 60_000) == BROKER
    answers = {ControllerGetMetadataInfo: Refused(2007, "no leader")}
    async with Scripted(answers) as controller, Scripted({}) as other:
        assert await kind_of_server(pool, controller.address, 60_000) == CONTROLLER
        assert await kind_of_server(pool, other.address, 60_000) is None


async def test_a_producer_with_a_brokers_address_is_told_which_port_that_is(broker: LocalBroker) -> None:
    says = re.escape(f"{broker.broker} is the port of a broker, and a name server is meant")
    with pytest.raises(NoNameServer, match=says):
        async with Producer("strayed", broker.broker) as producer:
            await producer.send(Message("strayed", b"x"))


async def test_a_command_for_a_broker_at_a_name_server_is_told_so(broker: LocalBroker) -> None:
    async with Admin(broker.broker) as admin:
        with pytest.raises(WrongServer, match="is the port of a name server, and a broker is meant"):
            await admin.call(broker.namesrv, GetBrokerRuntimeInfo())
        with pytest.raises(NoNameServer, match="is the port of a broker"):
            await admin.ask(GetBrokerClusterInfo())
