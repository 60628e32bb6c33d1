"""Bounds of the tables: the one that is one too many is refused, and nothing of it is kept."""

from __future__ import annotations

import pytest

from orbitmq.nameserver import kv, limits, routes
from orbitmq.protocol.bodies.route import QueueData, TopicRouteData
from orbitmq.protocol.bodies.static_topic import TopicQueueMappingInfo
from orbitmq.protocol.bodies.topic import TopicConfig
from orbitmq.protocol.requests.route import DeleteKvConfig, PutKvConfig, RegisterTopicInNamesrv
from tests.kit.nameserver_story import Broker, Story, refused

SYSTEM_ERROR = 1


def topics(*names: str) -> dict[str, TopicConfig]:
    return {name: TopicConfig(name) for name in names}


@pytest.mark.parametrize(
    ("limit", "says"), [("MOST_BROKERS", "2 brokers at most"), ("MOST_BROKERS_OF_PEER", "2 brokers are")]
)
def test_brokers_are_bounded_and_those_that_are_known_register_on(
    monkeypatch: pytest.MonkeyPatch, limit: str, says: str
) -> None:
    monkeypatch.setattr(routes, limit, 2)
    story = Story()
    first = Broker(story)
    first.register()
    Broker(story, "broker-b").register()
    code, remark = refused(Broker(story, "broker-c").register)
    assert code == SYSTEM_ERROR
    assert says in remark
    assert set(story.server.routes.groups) == {"broker-a", "broker-b"}
    first.register()
    first.unregister()
    Broker(story, "broker-c").register()


def test_an_address_that_changes_its_name_leaves_no_group_behind() -> None:
    story = Story()
    for number in range(50):
        Broker(story, f"broker-{number}").register(broker_addr="h:1", cluster_name=f"c{number}")
    table = story.server.routes
    assert len(table.groups) == len(table.clusters) == 50, "50 addresses by clusters"
    for number in range(50):
        Broker(story, f"other-{number}").register(broker_addr="h:1", cluster_name="c0")
    assert "other-49" in table.groups
    assert not any(f"other-{number}" in table.groups for number in range(49))


def test_topics_of_a_broker_are_bounded_over_its_registrations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "MOST_TOPICS_OF_BROKER", 4)
    story = Story()
    broker = Broker(story)
    broker.topics = topics("a", "b", "c")
    broker.register()
    broker.topics = topics("d", "e")
    broker.change()
    assert "4 topics at most" in refused(broker.register)[1]
    route = TopicRouteData(queue_datas=[QueueData("broker-a", 1, 1, 6)])
    story.ask(RegisterTopicInNamesrv("f", body=route))
    assert "4 topics at most" in refused(lambda: story.ask(RegisterTopicInNamesrv("g", body=route)))[1]
    story.server.routes.delete_topic("a")
    story.ask(RegisterTopicInNamesrv("g", body=route))
    assert set(story.server.routes.topics) == {"b", "c", "f", "g"}


def test_rows_and_mappings_are_bounded_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "MOST_ROWS", 3)
    story = Story()
    for name in ("broker-a", "broker-b"):
        broker = Broker(story, name)
        broker.topics = topics("a", "b")
        if name == "broker-a":
            broker.register()
        else:
            assert "3 rows at most" in refused(broker.register)[1]
    assert set(story.server.routes.groups) == {"broker-a"}
    broker = Broker(story)
    broker.topics = topics("a", "b")
    broker.mappings = {f"static-{number}": TopicQueueMappingInfo(bname="broker-a") for number in range(4)}
    broker.change()
    assert "3 mappings" in refused(broker.register)[1]


@pytest.mark.parametrize("field", ["cluster_name", "broker_name", "broker_addr", "ha_server_addr"])
def test_names_of_brokers_are_bounded(field: str) -> None:
    remark = refused(lambda: Broker(Story()).register(**{field: "x" * 256}))[1]
    assert "256 characters" in remark


def test_keys_and_values_are_bounded_by_peer_and_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kv, "MOST_KEYS_OF_PEER", 2)
    monkeypatch.setattr(kv, "MOST_KV_CHARACTERS", 400)
    story = Story()
    for key in ("a", "b"):
        story.ask(PutKvConfig("n", key, "x"))
    story.ask(PutKvConfig("n", "a", "y"))
    assert "2 keys were set from" in refused(lambda: story.ask(PutKvConfig("n", "c", "x")))[1]
    story.ask(DeleteKvConfig("n", "a"))
    story.ask(PutKvConfig("n", "c", "x"))
    assert "400 characters" in refused(lambda: story.ask(PutKvConfig("n", "c", "x" * 400)))[1]
    assert story.server.kv.get("n", "c") == "x"
    too_long = "x" * (limits.MOST_VALUE_CHARACTERS + 1)
    for request in (
        PutKvConfig("n" * 256, "k", "v"),
        PutKvConfig("n", "k" * 256, "v"),
        PutKvConfig("n", "b", too_long),
    ):
        assert "characters" in refused(lambda request=request: story.ask(request))[1]


def test_keys_of_the_file_count_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story()
    story.ask(PutKvConfig("n", "a", "x"))
    text = story.server.kv.to_text()
    monkeypatch.setattr(kv, "MOST_KEYS", 1)
    again = Story()
    again.server.kv.load_text(text)
    assert "1 keys at most" in refused(lambda: again.ask(PutKvConfig("n", "b", "x")))[1]
    again.ask(DeleteKvConfig("n", "a"))
    again.ask(PutKvConfig("n", "b", "x"))


def test_a_namespace_goes_with_its_last_key() -> None:
    story = Story()
    for number in range(3):
        story.ask(PutKvConfig(f"n{number}", "k", "v"))
        story.ask(DeleteKvConfig(f"n{number}", "k"))
    assert story.server.kv.to_text() == '{"configTable":{}}'
