"""The brokers of requests that come over one address, and the routes that lead there."""

from __future__ import annotations

import pytest

from orbitmq.client.core.routes import TopicRoute
from orbitmq.protocol.bodies.queue import LockBatchRequestBody, MessageQueue
from orbitmq.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from orbitmq.protocol.errors import Malformed
from orbitmq.protocol.handles.pop import PopHandle
from orbitmq.protocol.remoting.command import Command
from orbitmq.protocol.requests.client import GetConsumerRunningInfo, Heartbeat
from orbitmq.protocol.requests.group import UpdateAndCreateSubscriptiongroup
from orbitmq.protocol.requests.lock import LockBatchMq
from orbitmq.protocol.requests.topic import DeleteTopicInBroker, UpdateAndCreateTopic
from orbitmq.proxy.remoting.targets import (
    ROUTE,
    TO_ALL,
    TO_ANY,
    TO_ONE,
    Target,
    only_broker,
    route_through,
    target_of,
)

HANDLE = PopHandle(7, 1000, 60_000, 3, 0, "broker-b", 2, 7, 4096).to_text()


@pytest.mark.parametrize(
    ("ext", "target"),
    [
        ({"bname": "broker-a", "topic": "T"}, Target("broker-a", "T")),
        ({"n": "broker-a", "b": "T"}, Target("broker-a", "T")),
        ({"topic": "T", "extraInfo": HANDLE}, Target("broker-b", "T")),
        ({"originTopic": "T", "group": "G"}, Target(None, "T")),
        (None, Target(None, None)),
    ],
)
def test_requests_name_their_broker_or_their_topic(ext: dict[str, str] | None, target: Target) -> None:
    assert target_of(Command(11, ext=ext)) == target


def test_locks_name_it_in_their_bodies() -> None:
    body = LockBatchRequestBody("G", "c", mq_set=[MessageQueue("T", "broker-b", 1)])
    assert target_of(LockBatchMq(body).to_command()).broker_name == "broker-b"
    for bad in (b"[]", b"{", b'{"mqSet":1}'):
        with pytest.raises(Malformed):
            target_of(Command(LockBatchMq.CODE, body=bad))
    assert target_of(Command(LockBatchMq.CODE, body=b"{}")) == Target(None, None)
    with pytest.raises(Malformed):
        target_of(Command(200051, ext={"extraInfo": "1 2 3"}))


def test_requests_of_administrators_are_not_passed_on() -> None:
    served = {ROUTE} | TO_ALL | TO_ANY | TO_ONE
    assert Heartbeat.CODE in served
    for kind in (
        UpdateAndCreateTopic,
        DeleteTopicInBroker,
        UpdateAndCreateSubscriptiongroup,
        GetConsumerRunningInfo,
    ):
        assert kind.CODE not in served


def test_routes_lead_through_the_proxy_and_masters_stay_masters() -> None:
    route = TopicRoute(
        "T",
        TopicRouteData(
            queue_datas=[QueueData("a", 2, 2, 6), QueueData("b", 2, 2, 6)],
            broker_datas=[
                BrokerData("c", "a", {0: "10.0.0.1:1", 1: "10.0.0.2:1"}),
                BrokerData("c", "b", {2: "10.0.0.3:1", 3: "10.0.0.4:1"}),
                BrokerData("c", "gone", {}),
            ],
            filter_server_table={"10.0.0.1:1": ["10.0.0.9:1"]},
        ),
    )
    told = route_through(route, "proxy:8080")
    assert [(one.broker_name, one.broker_addrs) for one in told.broker_datas] == [
        ("a", {0: "proxy:8080"}),
        ("b", {2: "proxy:8080"}),
    ]
    assert (told.queue_datas, told.filter_server_table) == (route.data.queue_datas, {})
    assert only_broker(route) is None
    assert only_broker(TopicRoute("T", TopicRouteData(queue_datas=[QueueData("a", 2, 2, 6)]))) == "a"
