from __future__ import annotations

import pytest

from orbitmq.client.core.routes import TopicRoute, address_to_read
from orbitmq.protocol.bodies.queue import MessageQueue
from orbitmq.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from orbitmq.protocol.bodies.static_topic import TopicQueueMappingInfo
from orbitmq.protocol.errors import MalformedReply


def route(**changes: object) -> TopicRoute:
    data = TopicRouteData(
        queue_datas=[
            QueueData("b", 2, 1, 6),
            QueueData("a", 1, 2, 6),
            QueueData("read-only", 1, 1, 4),
            QueueData("no-master", 1, 1, 6),
        ],
        broker_datas=[
            BrokerData("C", "a", {0: "1.1.1.1:1"}),
            BrokerData("C", "b", {0: "1.1.1.2:1", 1: "1.1.1.3:1"}),
            BrokerData("C", "read-only", {0: "1.1.1.4:1"}),
            BrokerData("C", "no-master", {1: "1.1.1.5:1"}),
        ],
    )
    for name, value in changes.items():
        setattr(data, name, value)
    return TopicRoute("T", data)


def test_publish_queues_are_writable_and_have_a_master_sorted_by_broker() -> None:
    assert route().publish_queues == [
        MessageQueue("T", "a", 0),
        MessageQueue("T", "a", 1),
        MessageQueue("T", "b", 0),
    ]


def test_an_order_topic_has_the_queues_its_configuration_says() -> None:
    assert route(order_topic_conf="b:1;a:2").publish_queues == [
        MessageQueue("T", "b", 0),
        MessageQueue("T", "a", 0),
        MessageQueue("T", "a", 1),
    ]


@pytest.mark.parametrize(
    "sizes",
    [
        {"queue_datas": [QueueData("a", 2**31 - 1, 1, 6)]},
        {"order_topic_conf": f"a:{2**31 - 1}"},
        {"topic_queue_mapping_by_broker": {"a": TopicQueueMappingInfo("T", total_queues=2**31 - 1)}},
    ],
)
def test_a_route_with_more_queues_than_any_cluster_has_is_refused_before_they_are_made(
    sizes: dict[str, object],
) -> None:
    with pytest.raises(MalformedReply, match="1,000,000"):
        route(**sizes)


def test_a_logical_queue_counts_once_however_many_brokers_have_a_mapping_of_it() -> None:
    mappings = {
        name: TopicQueueMappingInfo("T", total_queues=100_000, bname=name, curr_id_map={})
        for name in map(str, range(11))
    }
    assert len(route(topic_queue_mapping_by_broker=mappings).subscribe_queues) == 100_000


def test_subscribe_queues_are_all_that_can_be_read() -> None:
    assert sorted(route().subscribe_queues) == sorted(
        [
            MessageQueue("T", "a", 0),
            MessageQueue("T", "b", 0),
            MessageQueue("T", "b", 1),
            MessageQueue("T", "read-only", 0),
            MessageQueue("T", "no-master", 0),
        ]
    )


def test_a_static_topic_has_logical_queues_and_each_is_led_by_one_broker() -> None:
    mappings = {
        "a": TopicQueueMappingInfo("T", total_queues=4, bname="a", epoch=2, curr_id_map={0: 0, 2: 1}),
        "b": TopicQueueMappingInfo("T", total_queues=4, bname="b", epoch=1, curr_id_map={0: 0, 1: 1}),
    }
    found = route(topic_queue_mapping_by_broker=mappings, order_topic_conf=None)
    queues = [MessageQueue("T", "__syslo__global__", number) for number in range(4)]
    assert found.subscribe_queues == queues, "members of a group share them all, led or not"
    assert list(found.leaders.values()) == ["a", "b", "a", "__syslo__none__"]
    assert found.publish_queues == queues[:3]


def test_a_template_has_no_more_queues_than_asked_for() -> None:
    queues = route().template_for("NEW", 1).publish_queues
    assert queues == [MessageQueue("NEW", "a", 0), MessageQueue("NEW", "b", 0)]


def test_reading_falls_back_to_whoever_is_there() -> None:
    members = {0: "master", 2: "second"}
    assert address_to_read(members) == "master"
    assert address_to_read(members, 1) == "second"
    assert address_to_read(members, 5) == "master"
    assert address_to_read(members, 5, only_wanted=True) is None
    assert address_to_read({3: "slave"}) == "slave"
    assert address_to_read({}) is None


def test_routes_are_equal_when_they_say_the_same() -> None:
    assert route() == route()
    assert route() != route(order_topic_conf="a:1")
