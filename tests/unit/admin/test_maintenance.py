"""A broker leaves the routes of producers at every name server, and each name server says what it knows."""

from __future__ import annotations

import pytest

from orbitmq.admin import Admin
from orbitmq.admin.admin import NoBroker
from orbitmq.admin.maintenance import drain, name_servers, undrain
from orbitmq.protocol.bodies.route import BrokerData, ClusterInfo, QueueData, TopicRouteData
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.requests.route import (
    AddedReply,
    AddWritePermOfBroker,
    GetBrokerClusterInfo,
    GetRouteinfoByTopic,
    WipedReply,
    WipeWritePermOfBroker,
)
from orbitmq.protocol.schema.declare import JsonReply
from tests.kit.scripted_admin import Scripted


def name_server(perms: dict[str, int | None], topics: int = 3) -> Scripted:
    """Knows these brokers, with the permission of the topic that is named as each."""

    def route(request: GetRouteinfoByTopic) -> JsonReply[TopicRouteData] | Refused:
        perm = perms[request.topic]
        if perm is None:
            return Refused(17, "No topic route info")
        return JsonReply[TopicRouteData](
            body=TopicRouteData(queue_datas=[QueueData(request.topic, 1, 1, perm)])
        )

    info = ClusterInfo({one: BrokerData("C", one, {0: "127.0.0.1:1"}) for one in perms}, {"C": [*perms]})
    return Scripted(
        {
            GetBrokerClusterInfo: JsonReply[ClusterInfo](body=info),
            GetRouteinfoByTopic: route,
            WipeWritePermOfBroker: WipedReply(wipe_topic_count=topics),
            AddWritePermOfBroker: AddedReply(add_topic_count=topics),
        }
    )


def of(peer: Scripted, kind: type) -> list[str]:
    """The brokers that a name server was asked about."""
    return [one.broker_name for one in peer.asked if type(one) is kind]  # type: ignore[attr-defined]


async def test_every_name_server_drains_a_broker_and_takes_it_back() -> None:
    async with (
        name_server({"a": 6}) as first,
        name_server({"a": 6}) as second,
        Admin(f"{first.address};{second.address}") as admin,
    ):
        assert await drain(admin, "a") == 3
        assert (of(first, WipeWritePermOfBroker), of(second, WipeWritePermOfBroker)) == (["a"], ["a"])
        assert await undrain(admin, "a") == 3
        assert (of(first, AddWritePermOfBroker), of(second, AddWritePermOfBroker)) == (["a"], ["a"])


async def test_a_broker_that_nobody_knows_is_an_error_and_changes_nothing() -> None:
    async with name_server({"a": 6}) as peer, Admin(peer.address) as admin:
        for act in (drain, undrain):
            with pytest.raises(NoBroker):
                await act(admin, "b")
        assert of(peer, WipeWritePermOfBroker) == of(peer, AddWritePermOfBroker) == []


async def test_a_name_server_says_which_of_its_brokers_are_drained() -> None:
    async with name_server({"a": 6, "drained": 4, "unknown": None}) as peer, Admin(peer.address) as admin:
        [found] = await name_servers(admin)
    assert (found.error, found.brokers) == (None, 3)
    assert found.writable == {"a": True, "drained": False}


async def test_a_name_server_that_is_down_is_told_beside_the_others() -> None:
    async with name_server({"a": 6}) as peer, Admin(f"127.0.0.1:1;{peer.address}") as admin:
        down, up = await name_servers(admin)
    assert down.brokers is None
    assert "127.0.0.1:1" in (down.error or "")
    assert up.writable == {"a": True}
