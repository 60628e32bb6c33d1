from orbitmq.broker.metadata import registration
from orbitmq.protocol.bodies.route import RegisterBrokerBody
from tests.kit.world import NOW, World


def world() -> World:
    world = World()
    for topic in ("A", "B", "C"):
        world.topics.ensure(topic, 2, NOW)
    return world


def topics_in(request: registration.RegisterBroker) -> dict[str, int]:
    assert request.body is not None
    body = RegisterBrokerBody.from_json(request.body)
    return {name: row.perm for name, row in body.topic_config_serialize_wrapper.topic_config_table.items()}


def test_the_whole_table_in_one_request_or_in_several() -> None:
    broker = world()
    (request,) = registration.register_all(broker.identity, broker.topics, 6)
    assert topics_in(request) == {"A": 6, "B": 6, "C": 6}
    assert (request.broker_name, request.ha_server_addr) == ("broker-a", "127.0.0.1:10912")
    split = registration.register_all(broker.identity, broker.topics, 6, split_size=2)
    assert [len(topics_in(one)) for one in split] == [2, 1]


def test_a_broker_without_topics_registers_too() -> None:
    broker = World()
    (request,) = registration.register_all(broker.identity, broker.topics, 6)
    assert topics_in(request) == {}


def test_what_the_broker_may_not_do_its_topics_may_not_either() -> None:
    broker = world()
    (request,) = registration.register_all(broker.identity, broker.topics, 4)
    assert topics_in(request) == {"A": 4, "B": 4, "C": 4}
    assert broker.topics.require("A").perm == 6


def test_changed_topics_alone_with_the_version_of_the_whole() -> None:
    broker = world()
    broker.topics.delete("B", NOW)
    request = registration.register_changed(broker.identity, broker.topics, {"A", "B"}, 6)
    assert topics_in(request) == {"A": 6}
    assert request.body is not None
    wrapper = RegisterBrokerBody.from_json(request.body).topic_config_serialize_wrapper
    assert wrapper.data_version == broker.topics.version


def test_the_question_and_the_farewell() -> None:
    broker = world()
    asked = registration.ask_data_version(broker.identity, broker.topics)
    assert asked.body == broker.topics.version
    assert registration.unregister(broker.identity).broker_addr == "127.0.0.1:10911"


def test_topics_that_a_name_server_calls_ordered() -> None:
    conf = {"A": "broker-a:4;broker-b:4", "B": "broker-b:4"}
    assert registration.ordered_topics(conf, "broker-a") == {"A"}


def test_the_period_has_bounds() -> None:
    assert [registration.period_ms(ms) for ms in (1, 30_000, 10**9)] == [10_000, 30_000, 60_000]
