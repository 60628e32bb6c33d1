"""Queues to which a redrive sends: in turn, or by sharding key; masters that take messages only."""

from __future__ import annotations

from typing import cast

import pytest

from orbitmq.admin.admin import Admin, NoBroker
from orbitmq.admin.dead_letters.targets import Targets
from orbitmq.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import TopicNotExist


class Routes:
    """The route of every topic, and how often it was asked for."""

    def __init__(self, route: TopicRouteData) -> None:
        self.given = route
        self.asked = 0

    async def route(self, topic: str) -> TopicRouteData:
        self.asked += 1
        return self.given


def broker(name: str, broker_id: int = 0) -> BrokerData:
    return BrokerData("c", name, {broker_id: f"{name}:1"})


def queues(name: str, count: int, perm: int = 6) -> QueueData:
    return QueueData(name, count, count, perm)


def targets_of(*, brokers: list[BrokerData], topic: list[QueueData]) -> tuple[Targets, Routes]:
    routes = Routes(TopicRouteData(broker_datas=brokers, queue_datas=topic))
    return Targets(cast("Admin", routes)), routes


async def test_messages_go_to_all_queues_in_turn_and_those_of_a_key_to_one() -> None:
    targets, _ = targets_of(brokers=[broker("a"), broker("b")], topic=[queues("b", 1), queues("a", 2)])
    first = [await targets.queue("T", None) for _ in range(3)]
    assert {(address, queue.broker_name, queue.queue_id) for address, queue in first} == {
        ("a:1", "a", 0), ("a:1", "a", 1), ("b:1", "b", 0),
    }  # fmt: skip
    assert [await targets.queue("T", None) for _ in range(3)] == first
    assert len({await targets.queue("T", "key") for _ in range(3)}) == 1


async def test_a_route_is_asked_for_again_once_it_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orbitmq.admin.dead_letters.targets.ROUTE_SECONDS", 3_600)
    targets, routes = targets_of(brokers=[broker("a")], topic=[queues("a", 1)])
    await targets.queue("T", None)
    await targets.queue("T", None)
    assert routes.asked == 1
    targets.forget()
    await targets.queue("T", None)
    assert routes.asked == 2


@pytest.mark.parametrize(
    ("brokers", "topic"), [([broker("a", 1)], [queues("a", 1)]), ([broker("a")], [queues("a", 1, perm=4)])]
)
async def test_slaves_and_queues_that_only_are_read_take_nothing(
    brokers: list[BrokerData], topic: list[QueueData]
) -> None:
    targets, _ = targets_of(brokers=brokers, topic=topic)
    with pytest.raises(NoBroker, match="T"):
        await targets.queue("T", None)


async def test_a_topic_that_name_servers_do_not_know_may_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    targets, routes = targets_of(brokers=[broker("a")], topic=[queues("a", 1)])

    async def unknown(topic: str) -> TopicRouteData:
        raise TopicNotExist(ResponseCode.TOPIC_NOT_EXIST, "no route")

    with monkeypatch.context() as patch:
        patch.setattr(routes, "route", unknown)
        with pytest.raises(NoBroker, match="topic T"):
            await targets.queue("T", None)
    await targets.queue("T", None)
