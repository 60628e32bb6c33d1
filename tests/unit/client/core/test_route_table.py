"""A client's knowledge of topics, and its sources."""

from __future__ import annotations

import asyncio

import pytest

from orbitmq.client.core.errors import TopicNotFound
from orbitmq.client.core.route_table import RouteTable
from orbitmq.net.errors import Closed
from orbitmq.net.name_servers import NameServers
from orbitmq.net.pool import ConnectionPool
from orbitmq.protocol.bodies.topic import TopicList
from orbitmq.protocol.errors import BrokerRefused, Refused
from orbitmq.protocol.requests.route import GetAllTopicListFromNameserver, GetRouteinfoByTopic
from orbitmq.protocol.schema.declare import JsonReply
from tests.kit.fake_broker import FakeBroker


@pytest.fixture
def changes() -> list[str]:
    return []


@pytest.fixture
def table(broker: FakeBroker, pool: ConnectionPool, changes: list[str]) -> RouteTable:
    return RouteTable(NameServers([broker.address], pool, 60_000), changes.append)


async def test_a_route_is_looked_up_once_however_many_ask(broker: FakeBroker, table: RouteTable) -> None:
    broker.topic("T")
    routes = await asyncio.gather(*(table.route("T") for _ in range(5)))
    assert all(route is routes[0] for route in routes)
    assert await table.route("T") is routes[0]
    assert len(broker.of(GetRouteinfoByTopic)) == 1


async def test_changes_are_told_and_only_changes(
    broker: FakeBroker, table: RouteTable, changes: list[str]
) -> None:
    broker.topic("T", 2)
    await table.refresh("T")
    await table.refresh_all()
    assert changes == ["T"]
    broker.topic("T", 4)
    await table.refresh_all()
    assert changes == ["T", "T"]
    known = table.known("T")
    assert known is not None
    assert len(known.publish_queues) == 4


async def test_a_topic_that_is_refused_does_not_keep_others_from_being_looked_up(
    broker: FakeBroker, table: RouteTable
) -> None:
    for topic in ("A", "B"):
        broker.topic(topic, 2)
        await table.refresh(topic)
    broker.topic("B", 4)
    served = broker.route
    broker.on(
        GetRouteinfoByTopic,
        lambda request: Refused(16, "not yours") if request.topic == "A" else served(request),
    )
    with pytest.raises(BrokerRefused, match="not yours"):
        await table.refresh_all()
    known = table.known("B")
    assert known is not None
    assert len(known.publish_queues) == 4


async def test_who_waits_for_a_route_when_the_client_is_closed_is_told_so(
    broker: FakeBroker, table: RouteTable
) -> None:
    broker.on(GetRouteinfoByTopic, lambda _: None)
    asking = asyncio.create_task(table.route("T"))
    await broker.until(lambda: broker.of(GetRouteinfoByTopic))
    await table.close()
    with pytest.raises(Closed):
        await asking


async def test_topics_that_do_not_exist_are_not_looked_up_for_ever(
    broker: FakeBroker, table: RouteTable
) -> None:
    broker.topic("T")
    await table.route("T")
    for number in range(5):
        assert await table.route(f"mistaken{number}") is None
    asked = len(broker.of(GetRouteinfoByTopic))
    await table.refresh_all()
    assert [request.topic for request in broker.of(GetRouteinfoByTopic)[asked:]] == ["T"]


async def test_what_is_known_outlives_a_forgetful_name_server(broker: FakeBroker, table: RouteTable) -> None:
    broker.topic("T")
    route = await table.route("T")
    broker.topics.clear()
    assert await table.refresh("T") is route


async def test_a_model_stands_in_until_the_topic_is_there(broker: FakeBroker, table: RouteTable) -> None:
    broker.topic("TBW102", 8)
    assert len((await table.route_to_publish("NEW", "TBW102", 4)).publish_queues) == 4
    assert table.is_template("NEW")
    assert table.known("NEW") is None
    broker.topic("NEW", 2)
    await table.refresh("NEW")
    assert not table.is_template("NEW")
    assert len((await table.route_to_publish("NEW", "TBW102", 4)).publish_queues) == 2


async def test_without_a_model_there_is_no_route(table: RouteTable) -> None:
    with pytest.raises(TopicNotFound):
        await table.route_to_publish("NEW", "TBW102", 4)


async def test_addresses(broker: FakeBroker, table: RouteTable) -> None:
    broker.topic("T")
    broker.topics["T"].broker_datas[0].broker_addrs = {0: "m:1", 1: "s:2"}
    await table.route("T")
    assert table.master("broker-a") == "m:1"
    assert table.master("unknown") is None
    assert table.addresses(slaves=False) == ["m:1"]
    assert table.addresses(slaves=True) == ["m:1", "s:2"]


async def test_an_unknown_topic_names_those_that_are_like_it_and_asks_once(
    broker: FakeBroker, table: RouteTable
) -> None:
    broker.on(
        GetAllTopicListFromNameserver, lambda _: JsonReply[TopicList](TopicList(["orders", "payments"]))
    )
    for _ in range(3):
        with pytest.raises(TopicNotFound, match=r"Is it orders\? \(see https://orbitmq") as error:
            await table.route_to_publish("ordesr", "TBW102", 4)
        assert error.value.near == ("orders",)
    assert len(broker.of(GetAllTopicListFromNameserver)) == 1
