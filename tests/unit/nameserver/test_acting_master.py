"""A group whose master is gone, and the slave that stands in for it."""

from __future__ import annotations

from orbitmq.protocol.bodies.topic import TopicConfig
from orbitmq.protocol.requests.ha import NotifyMinBrokerIdChange
from tests.kit.nameserver_story import Broker, Story, addresses, rows


def _group(story: Story, *ids: int) -> list[Broker]:
    members = [Broker(story, broker_id=broker_id, acting=True) for broker_id in ids]
    for member in members:
        member.register()
    return members


def test_without_a_master_nothing_is_written() -> None:
    story = Story()
    master, *_ = _group(story, 0, 1, 2)
    assert rows(story.route("TopicA")) == {"broker-a": (4, 4, 6)}
    master.unregister()
    assert rows(story.route("TopicA")) == {"broker-a": (4, 4, 4)}


def test_the_smallest_slave_brings_topics_to_read() -> None:
    story = Story()
    _, prime = _group(story, 2, 1)
    assert rows(story.route("TopicA")) == {"broker-a": (4, 4, 4)}
    prime.topics["TopicC"] = TopicConfig("TopicC")
    prime.change()
    prime.register()
    assert rows(story.route("TopicC")) == {"broker-a": (16, 16, 4)}


def test_other_slaves_bring_none() -> None:
    story = Story()
    _, _, other = _group(story, 0, 1, 2)
    other.topics["TopicC"] = TopicConfig("TopicC")
    other.change()
    other.register()
    assert "TopicC" not in story.server.routes.topics


def test_a_prime_slave_of_a_group_that_has_a_master_does_not_speak_for_it() -> None:
    story = Story()
    _, slave = _group(story, 0, 1)
    slave.topics["TopicA"].perm = 0
    slave.change()
    slave.register()
    assert rows(story.route("TopicA")) == {"broker-a": (4, 4, 6)}


def test_the_smallest_slave_is_shown_as_master() -> None:
    story = Story(support_acting_master=True)
    master, *_ = _group(story, 0, 1, 2)
    assert addresses(story.route("TopicA"))["broker-a"][0] == "broker-a-0:10911"
    master.unregister()
    assert addresses(story.route("TopicA")) == {"broker-a": {0: "broker-a-1:10911", 2: "broker-a-2:10911"}}


def test_not_unless_the_name_server_supports_it() -> None:
    story = Story()
    master, *_ = _group(story, 0, 1)
    master.unregister()
    assert addresses(story.route("TopicA")) == {"broker-a": {1: "broker-a-1:10911"}}


def test_not_unless_the_group_allows_it() -> None:
    story = Story(support_acting_master=True)
    master, slave = Broker(story), Broker(story, broker_id=1)
    master.register()
    slave.register()
    master.unregister()
    assert addresses(story.route("TopicA")) == {"broker-a": {1: "broker-a-1:10911"}}


def test_not_for_topics_about_one_member() -> None:
    story = Story(support_acting_master=True)
    topic = "rmq_sys_SYNC_BROKER_MEMBER_broker-a"
    (slave,) = _group(story, 1)
    slave.topics[topic] = TopicConfig(topic)
    slave.change()
    slave.register()
    assert addresses(story.route(topic)) == {"broker-a": {1: "broker-a-1:10911"}}
    assert addresses(story.route("TopicA")) == {"broker-a": {0: "broker-a-1:10911"}}


def _notices(story: Story) -> dict[str, NotifyMinBrokerIdChange]:
    return {notice.address: notice.request for notice in story.server.drain_notices()}


def test_members_hear_of_a_new_smallest_id() -> None:
    story = Story(notify_min_broker_id_changed=True)
    _group(story, 2)
    _group(story, 1)
    notices = _notices(story)
    assert set(notices) == {"broker-a-2:10911"}
    assert notices["broker-a-2:10911"] == NotifyMinBrokerIdChange(
        1, "broker-a", "broker-a-1:10911", None, "broker-a-1:10911-ha"
    )


def test_all_members_hear_when_the_smallest_id_is_gone() -> None:
    story = Story(notify_min_broker_id_changed=True)
    master, *_ = _group(story, 0, 1, 2)
    assert _notices(story) == {}
    master.unregister()
    notices = _notices(story)
    assert set(notices) == {"broker-a-1:10911", "broker-a-2:10911"}
    assert notices["broker-a-2:10911"].offline_broker_addr == "broker-a-0:10911"
    assert notices["broker-a-2:10911"].min_broker_id == 1


def test_nobody_hears_when_another_id_is_gone() -> None:
    story = Story(notify_min_broker_id_changed=True)
    *_, slave = _group(story, 0, 1)
    slave.unregister()
    assert _notices(story) == {}


def test_nobody_hears_unless_asked_for() -> None:
    story = Story()
    master, *_ = _group(story, 0, 1)
    master.unregister()
    assert _notices(story) == {}


def test_silence_and_broken_connections_count_as_well() -> None:
    story = Story(notify_min_broker_id_changed=True)
    master, slave = _group(story, 0, 1)
    story.server.connection_closed(master.connection)
    assert set(_notices(story)) == {"broker-a-1:10911"}
    other = Broker(story, broker_id=2, acting=True)
    story.now += 60_000
    other.register()
    story.now += 60_001
    assert story.server.expire(story.now) == [slave.connection]
    assert set(_notices(story)) == {"broker-a-2:10911"}
