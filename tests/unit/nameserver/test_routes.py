"""Brokers come and go, told as stories."""

from __future__ import annotations

import zlib

import pytest

from orbitmq.nameserver.routes import LIVE_MS
from orbitmq.protocol.bodies.static_topic import TopicQueueMappingInfo
from orbitmq.protocol.bodies.topic import TopicConfig
from orbitmq.protocol.bodies.version import DataVersion
from orbitmq.protocol.requests.ha import BrokerHeartbeat
from orbitmq.protocol.requests.route import (
    GetBrokerClusterInfo,
    GetBrokerMemberGroup,
    PutKvConfig,
    QueryDataVersion,
)
from tests.kit.nameserver_story import Broker, Story, addresses, refused, rows
from tests.kit.registration import encode_compressed


def test_a_master_registers_and_has_routes() -> None:
    story = Story()
    reply = Broker(story).register()
    assert (reply.master_addr, reply.ha_server_addr) == (None, None)
    route = story.route("TopicA")
    assert rows(route) == {"broker-a": (4, 4, 6)}
    assert addresses(route) == {"broker-a": {0: "broker-a-0:10911"}}


def test_two_masters_share_a_topic() -> None:
    story = Story()
    Broker(story).register()
    Broker(story, "broker-b").register()
    assert set(rows(story.route("TopicA"))) == {"broker-a", "broker-b"}


def test_a_slave_learns_where_its_master_is() -> None:
    story = Story()
    slave = Broker(story, broker_id=1)
    assert slave.register().master_addr is None
    Broker(story).register()
    reply = slave.register()
    assert reply.master_addr == "broker-a-0:10911"
    assert reply.ha_server_addr == "broker-a-0:10911-ha"


def test_a_slave_brings_no_topics() -> None:
    story = Story()
    Broker(story, broker_id=1).register()
    assert refused(lambda: story.route("TopicA"))[0] == 17
    Broker(story).register()
    assert addresses(story.route("TopicA"))["broker-a"] == {
        0: "broker-a-0:10911",
        1: "broker-a-1:10911",
    }


def test_the_answer_holds_ordered_topics() -> None:
    story = Story()
    broker = Broker(story)
    reply = broker.register()
    assert reply.body is not None
    assert reply.body.table == {}
    story.ask(PutKvConfig("ORDER_TOPIC_CONFIG", "TopicA", "broker-a:4"))
    reply = broker.register()
    assert reply.body is not None
    assert reply.body.table == {"TopicA": "broker-a:4"}
    story.settings.return_order_topic_config_to_broker = False
    assert broker.register().body is None


def test_a_first_registration_with_one_topic_is_refused() -> None:
    story = Story()
    broker = Broker(story)
    broker.topics = {"Only": TopicConfig("Only")}
    assert refused(broker.register) == (1, "register broker failed")
    assert story.server.routes.groups == {}
    assert story.server.routes.clusters == {}


def test_a_known_broker_may_tell_of_one_topic() -> None:
    story = Story()
    broker = Broker(story)
    broker.register()
    broker.topics = {"New": TopicConfig("New", 2, 2)}
    broker.change()
    broker.register()
    assert rows(story.route("New")) == {"broker-a": (2, 2, 6)}
    assert rows(story.route("TopicA")) == {"broker-a": (4, 4, 6)}


def test_rows_change_with_the_version_only() -> None:
    story = Story()
    broker = Broker(story)
    broker.register()
    broker.topics["TopicA"].perm = 4
    broker.topics["TopicC"] = TopicConfig("TopicC")
    broker.register()
    assert rows(story.route("TopicA")) == {"broker-a": (4, 4, 6)}
    assert rows(story.route("TopicC")) == {"broker-a": (16, 16, 6)}, "an unknown topic is taken all the same"
    broker.change()
    broker.register()
    assert rows(story.route("TopicA")) == {"broker-a": (4, 4, 4)}


def test_topics_that_are_not_named_stay_unless_told_otherwise() -> None:
    story = Story()
    broker = Broker(story)
    broker.register()
    del broker.topics["TopicB"]
    broker.topics["TopicC"] = TopicConfig("TopicC")
    broker.change()
    broker.register()
    assert rows(story.route("TopicB"))
    story.settings.delete_topic_with_broker_registration = True
    broker.register()
    assert refused(lambda: story.route("TopicB"))[0] == 17
    assert rows(story.route("TopicA"))


def test_an_address_has_one_id() -> None:
    """A slave that becomes master is no slave any more."""
    story = Story()
    slave = Broker(story, broker_id=1, address="x:1")
    Broker(story).register()
    slave.register()
    slave.broker_id = 0
    slave.register()
    assert addresses(story.route("TopicA")) == {"broker-a": {0: "x:1"}}


def test_an_id_moves_to_another_address_unless_that_is_outdated() -> None:
    story = Story()
    old = Broker(story, address="old:1")
    old.version = DataVersion(1, 5, story.now)
    old.register()
    outdated = Broker(story, address="new:1")
    outdated.version = DataVersion(9, 4, story.now)
    reply = outdated.register()
    assert reply.code == 0
    assert reply.master_addr is None
    assert addresses(story.route("TopicA")) == {"broker-a": {0: "old:1"}}
    assert outdated.ask_version() == (True, None), "it does not even live"
    newer = Broker(story, address="new:1")
    newer.version = DataVersion(1, 5, story.now)
    newer.register()
    assert addresses(story.route("TopicA")) == {"broker-a": {0: "new:1"}}


def test_a_damaged_body_is_refused() -> None:
    story = Story()
    broker = Broker(story)
    body = broker.body().to_json()
    good = zlib.crc32(body) & 0x7FFFFFFF
    assert refused(lambda: broker.register(body_crc32=good + 1)) == (1, "crc32 not match")
    broker.register(body_crc32=good)
    broker.register(body_crc32=0)


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b'{"topicConfigSerializeWrapper":5}',
        b'{"topicConfigSerializeWrapper":{"topicConfigTable":[]}}',
        b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"a":5,"b":6}}}',
        b'{"topicConfigSerializeWrapper":{"dataVersion":{"counter":"x"}}}',
    ],
)
def test_a_body_that_cannot_be_read_is_refused(body: bytes) -> None:
    story = Story()
    code, remark = refused(lambda: Broker(story).register(body=body))
    assert code == 1
    assert remark.startswith("the registration cannot be read")


@pytest.mark.parametrize("says_so", [True, False])
def test_the_compressed_form(says_so: bool) -> None:
    story = Story()
    broker = Broker(story)
    broker.filters = ["f:1"]
    broker.mappings = {"Static": TopicQueueMappingInfo("Static", bname="broker-a", total_queues=2)}
    request_body = encode_compressed(broker.body())
    broker.register(compressed=says_so, body=request_body)
    assert rows(story.route("TopicA")) == {"broker-a": (4, 4, 6)}
    assert story.route("TopicA").filter_server_table == {"broker-a-0:10911": ["f:1"]}
    assert "Static" in story.server.routes.mappings
    for damaged in (b"", request_body[:-4], b"x" * 40):
        if damaged:
            assert refused(lambda: broker.register(compressed=True, body=damaged))[0] == 1  # noqa: B023


def test_silence_is_the_end() -> None:
    story = Story()
    silent = Broker(story, connection=7)
    silent.register()
    story.now += LIVE_MS
    assert story.server.expire(story.now) == []
    talking = Broker(story, "broker-b", connection=8)
    talking.register()
    story.now += 1
    assert story.server.expire(story.now) == [7]
    assert set(rows(story.route("TopicA"))) == {"broker-b"}
    assert story.server.expire(story.now) == []


def test_a_broker_may_set_its_own_limit() -> None:
    story = Story()
    Broker(story, timeout_ms=10_000).register()
    story.now += 10_001
    assert len(story.server.expire(story.now)) == 1


@pytest.mark.parametrize("sign", ["register", "version", "heartbeat"])
def test_signs_of_life(sign: str) -> None:
    story = Story()
    broker = Broker(story)
    broker.register()
    story.now += LIVE_MS
    if sign == "register":
        broker.register()
    elif sign == "version":
        assert broker.ask_version() == (False, broker.version)
    else:
        story.ask(BrokerHeartbeat("C", broker.address, "broker-a"))
    story.now += LIVE_MS
    assert story.server.expire(story.now) == []


def test_a_heartbeat_of_somebody_unknown_makes_nobody_known() -> None:
    story = Story()
    story.ask(BrokerHeartbeat("C", "x:1", "broker-a"))
    assert story.server.routes.live == {}


def test_the_end_of_a_connection_is_the_end_of_its_brokers() -> None:
    story = Story()
    Broker(story, connection=5).register()
    Broker(story, "broker-b", connection=5).register()
    Broker(story, "broker-c", connection=6).register()
    story.server.connection_closed(5)
    assert set(rows(story.route("TopicA"))) == {"broker-c"}
    story.server.connection_closed(99)


def test_a_broker_that_reconnected_outlives_its_old_connection() -> None:
    story = Story()
    broker = Broker(story, connection=5)
    broker.register()
    broker.connection = 6
    broker.register()
    story.server.connection_closed(5)
    assert rows(story.route("TopicA"))


def test_farewell() -> None:
    story = Story()
    master, slave = Broker(story), Broker(story, broker_id=1)
    master.register()
    slave.register()
    master.unregister()
    assert addresses(story.route("TopicA")) == {"broker-a": {1: "broker-a-1:10911"}}
    assert rows(story.route("TopicA")) == {"broker-a": (4, 4, 6)}
    slave.unregister()
    assert refused(lambda: story.route("TopicA"))[0] == 17
    assert story.server.routes.clusters == {}
    slave.unregister()


def test_asking_for_the_version() -> None:
    story = Story()
    broker = Broker(story)
    assert broker.ask_version() == (True, None)
    broker.register()
    registered = broker.version
    assert broker.ask_version() == (False, registered)
    broker.change()
    assert broker.ask_version() == (True, registered)
    reply = story.ask(QueryDataVersion("broker-a", broker.address, "C", 0))
    assert reply.changed, "no version is another version"


def test_members_of_a_group() -> None:
    story = Story()
    Broker(story).register()
    Broker(story, broker_id=2).register()
    body = story.ask(GetBrokerMemberGroup("C", "broker-a")).body
    assert body.broker_member_group.broker_addrs == {0: "broker-a-0:10911", 2: "broker-a-2:10911"}
    unknown = story.ask(GetBrokerMemberGroup("C", "nobody")).body
    assert unknown.to_json_text() == (
        '{"brokerMemberGroup":{"brokerAddrs":{},"brokerName":"nobody","cluster":"C"}}'
    )


def test_the_list_of_brokers_and_clusters() -> None:
    story = Story()
    assert story.ask(GetBrokerClusterInfo()).body.to_json_text() == (
        '{"brokerAddrTable":{},"clusterAddrTable":{}}'
    )
    Broker(story).register()
    Broker(story, "broker-b", cluster="D").register()
    info = story.ask(GetBrokerClusterInfo()).body
    assert info.cluster_addr_table == {"C": ["broker-a"], "D": ["broker-b"]}
    assert info.broker_addr_table["broker-b"].broker_addrs == {0: "broker-b-0:10911"}
    assert '{0:"broker-a-0:10911"}' in info.to_json_text()


def test_a_second_broker_under_a_living_ones_id_counts_and_is_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    story = Story()
    Broker(story).register()
    Broker(story).register()
    assert caplog.text == ""
    Broker(story, address="other:1").register()
    assert addresses(story.route("TopicA"))["broker-a"] == {0: "other:1"}
    assert "other:1 registers as id 0 of broker group broker-a, as broker-a-0:10911 did" in caplog.text
    assert "give one another brokerName" in caplog.text


def test_a_broker_that_moves_behind_its_end_is_not_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    story = Story()
    Broker(story).register()
    story.now += LIVE_MS + 1
    story.server.expire(story.now)
    Broker(story, address="other:1").register()
    assert caplog.text == ""
