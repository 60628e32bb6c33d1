"""Routes of topics, and lists of topics."""

from __future__ import annotations

import json

import pytest

from orbitmq.protocol.bodies.route import QueueData, TopicRouteData
from orbitmq.protocol.bodies.static_topic import TopicQueueMappingInfo
from orbitmq.protocol.bodies.topic import TopicConfig
from orbitmq.protocol.requests.route import (
    AddWritePermOfBroker,
    DeleteTopicInNamesrv,
    GetAllTopicListFromNameserver,
    GetHasUnitSubTopicList,
    GetHasUnitSubUnunitTopicList,
    GetRouteinfoByTopic,
    GetSystemTopicListFromNs,
    GetTopicsByCluster,
    GetUnitTopicList,
    PutKvConfig,
    RegisterTopicInNamesrv,
    WipeWritePermOfBroker,
)
from tests.kit.nameserver_story import Broker, Story, refused, rows


def _topics(story: Story, request) -> list[str]:
    return story.ask(request).body.topic_list


def test_an_unknown_topic() -> None:
    code, remark = refused(lambda: Story().route("Nowhere"))
    assert code == 17
    assert remark.splitlines()[0] == "No topic route info in name server for the topic: Nowhere"
    assert remark.splitlines()[1].startswith("See https://")


def test_old_clients_get_fastjson_and_new_ones_json() -> None:
    story = Story()
    Broker(story, "bröker").register()

    def text(**how) -> str:
        accept = how.pop("accept", None)
        body = story.ask(GetRouteinfoByTopic("TopicA", accept), **how).to_command().body
        assert body is not None
        return bytes(body).decode()

    assert '"brokerAddrs":{0:"bröker-0:10911"}' in text(version=400)
    standard = text(version=401)
    assert '"brokerAddrs":{"0":"br\\u00f6ker-0:10911"}' in standard
    assert json.loads(standard)["queueDatas"][0]["readQueueNums"] == 4
    assert text(version=200, accept=True) == standard
    assert list(json.loads(standard)) == sorted(json.loads(standard))


def test_ordered_topics_where_enabled() -> None:
    story = Story()
    Broker(story).register()
    story.ask(PutKvConfig("ORDER_TOPIC_CONFIG", "TopicA", "broker-a:4"))
    assert story.route("TopicA").order_topic_conf is None
    story.settings.order_message_enable = True
    assert story.route("TopicA").order_topic_conf == "broker-a:4"
    assert story.route("TopicB").order_topic_conf is None


def test_no_routes_while_brokers_come() -> None:
    story = Story(need_wait_for_service=True)
    Broker(story).register()
    assert refused(lambda: story.route("TopicA")) == (1, "name server not ready")
    story.now += 45_000
    assert rows(story.route("TopicA"))


def test_filter_servers_and_static_mappings() -> None:
    story = Story()
    broker = Broker(story)
    broker.filters = ["f:1", "f:2"]
    broker.mappings = {
        "TopicA": TopicQueueMappingInfo("TopicA", bname="broker-a", total_queues=2, curr_id_map={0: 0, 1: 1})
    }
    broker.register()
    route = story.route("TopicA")
    assert route.filter_server_table == {"broker-a-0:10911": ["f:1", "f:2"]}
    assert route.topic_queue_mapping_by_broker is not None
    assert route.topic_queue_mapping_by_broker["broker-a"].curr_id_map == {0: 0, 1: 1}
    broker.filters = []
    broker.register()
    assert story.route("TopicA").filter_server_table == {}


def test_zones() -> None:
    story = Story()
    Broker(story, "near", zone="z1").register()
    Broker(story, "far", zone="z2").register()
    Broker(story, "headless", zone="z2").register()
    Broker(story, "headless", 1, zone="z2").register()
    story.server.routes.unregister("C", "headless", "headless-0:10911")
    everything = {"near", "far", "headless"}
    assert set(rows(story.route("TopicA", __ZONE_NAME="z1"))) == everything
    assert set(rows(story.route("TopicA", __ZONE_MODE="true"))) == everything
    kept = story.route("TopicA", __ZONE_NAME="Z1", __ZONE_MODE="true")
    assert set(rows(kept)) == {"near", "headless"}, "without a master there is only reading, from anywhere"
    assert {broker.broker_name for broker in kept.broker_datas} == {"near", "headless"}


def test_lists() -> None:
    story = Story()
    assert _topics(story, GetAllTopicListFromNameserver()) == []
    assert story.ask(GetSystemTopicListFromNs()).body.broker_addr is None
    Broker(story).register()
    other = Broker(story, "broker-b", cluster="D")
    other.topics["OnlyD"] = TopicConfig("OnlyD")
    other.register()
    assert _topics(story, GetAllTopicListFromNameserver()) == ["TopicA", "TopicB", "OnlyD"]
    assert _topics(story, GetTopicsByCluster("C")) == ["TopicA", "TopicB"]
    assert _topics(story, GetTopicsByCluster("D")) == ["TopicA", "TopicB", "OnlyD"]
    assert _topics(story, GetTopicsByCluster("nowhere")) == []
    system = story.ask(GetSystemTopicListFromNs()).body
    assert system.topic_list == ["C", "broker-a", "D", "broker-b"]
    assert system.broker_addr == "broker-a-0:10911"


def test_lists_of_units() -> None:
    story = Story()
    broker = Broker(story)
    broker.topics = {
        name: TopicConfig(name, topic_sys_flag=flag)
        for name, flag in (("plain", 0), ("unit", 1), ("sub", 2), ("both", 3))
    }
    broker.register()
    assert _topics(story, GetUnitTopicList()) == ["unit", "both"]
    assert _topics(story, GetHasUnitSubTopicList()) == ["sub", "both"]
    assert _topics(story, GetHasUnitSubUnunitTopicList()) == ["sub"]


@pytest.mark.parametrize(
    ("setting", "request_"),
    [
        ("enable_all_topic_list", GetAllTopicListFromNameserver()),
        ("enable_topic_list", GetTopicsByCluster("C")),
        ("enable_topic_list", GetUnitTopicList()),
        ("enable_topic_list", GetHasUnitSubTopicList()),
        ("enable_topic_list", GetHasUnitSubUnunitTopicList()),
    ],
)
def test_lists_can_be_switched_off(setting: str, request_) -> None:
    assert refused(lambda: Story(**{setting: False}).ask(request_)) == (1, "disable")


def test_write_permission_taken_and_given() -> None:
    story = Story()
    broker = Broker(story)
    broker.topics["TopicB"].perm = 7
    broker.register()
    assert story.ask(WipeWritePermOfBroker("broker-a")).wipe_topic_count == 2
    assert rows(story.route("TopicA")) == {"broker-a": (4, 4, 4)}
    assert rows(story.route("TopicB")) == {"broker-a": (4, 4, 5)}
    assert story.ask(AddWritePermOfBroker("broker-a")).add_topic_count == 2
    assert rows(story.route("TopicB")) == {"broker-a": (4, 4, 6)}
    assert story.ask(WipeWritePermOfBroker("nobody")).wipe_topic_count == 0


def test_a_deleted_topic_is_back_with_the_next_registration() -> None:
    story = Story()
    broker = Broker(story)
    broker.mappings = {"TopicA": TopicQueueMappingInfo("TopicA", bname="broker-a")}
    broker.register()
    story.ask(DeleteTopicInNamesrv("TopicA"))
    assert refused(lambda: story.route("TopicA"))[0] == 17
    broker.register()
    assert rows(story.route("TopicA"))
    assert story.route("TopicA").topic_queue_mapping_by_broker is not None
    story.ask(DeleteTopicInNamesrv("never there"))


def test_a_topic_deleted_in_one_cluster() -> None:
    story = Story()
    Broker(story).register()
    Broker(story, "broker-b", cluster="D").register()
    story.ask(DeleteTopicInNamesrv("TopicA", "D"))
    assert set(rows(story.route("TopicA"))) == {"broker-a"}
    story.ask(DeleteTopicInNamesrv("TopicA", "nowhere"))
    story.ask(DeleteTopicInNamesrv("TopicA", "C"))
    assert "TopicA" not in story.server.routes.topics


def test_a_topic_that_is_made_again_in_a_cluster_is_not_static_any_more() -> None:
    story = Story()
    broker = Broker(story)
    broker.mappings = {"TopicA": TopicQueueMappingInfo("TopicA", bname="broker-a")}
    broker.register()
    story.ask(DeleteTopicInNamesrv("TopicA", "C"))
    broker.mappings = {}
    broker.change()
    broker.register()
    assert story.route("TopicA").topic_queue_mapping_by_broker is None


def test_a_topic_registered_alone() -> None:
    story = Story()
    Broker(story).register()
    told = TopicRouteData(queue_datas=[QueueData("broker-a", 3, 2, 6), QueueData("nobody", 1, 1, 6)])
    story.ask(RegisterTopicInNamesrv("Extra", told))
    assert rows(story.route("Extra")) == {"broker-a": (3, 2, 6)}
    story.ask(RegisterTopicInNamesrv("Other", TopicRouteData(queue_datas=[QueueData("nobody", 1, 1, 6)])))
    story.ask(RegisterTopicInNamesrv("Empty"))
    assert {"Other", "Empty"}.isdisjoint(story.server.routes.topics)


def test_a_route_is_a_copy() -> None:
    story = Story()
    Broker(story).register()
    route = story.server.routes.route("TopicA")
    assert route is not None
    route.queue_datas[0].perm = 0
    assert route.broker_datas[0].broker_addrs is not None
    route.broker_datas[0].broker_addrs.clear()
    assert rows(story.route("TopicA")) == {"broker-a": (4, 4, 6)}
