"""Queues that the broker assigns, and the modes of groups."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orbitmq.handling.call import Peer, Saved, Signal, Wait
from orbitmq.protocol.bodies.heartbeat import ConsumerData, HeartbeatData, MessageModel
from orbitmq.protocol.bodies.pop import (
    MessageRequestMode,
    QueryAssignmentRequestBody,
    SetMessageRequestModeRequestBody,
)
from orbitmq.protocol.bodies.route import QueueData, TopicRouteData
from orbitmq.protocol.bodies.static_topic import TopicQueueMappingDetail
from orbitmq.protocol.bodies.topic import TopicConfig
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.requests.client import Heartbeat
from orbitmq.protocol.requests.pop import GetAllMessageRequestMode, QueryAssignment, SetMessageRequestMode
from tests.kit.real_broker import NOW, PEER, RealBroker, resumed

Make = Callable[..., RealBroker]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[RealBroker] = []

    def new(**properties: object) -> RealBroker:
        made.append(RealBroker(tmp_path / "store", **properties))
        made[-1].broker.topics.put(TopicConfig("T", 4, 4, 6), NOW)
        return made[-1]

    yield new
    for real in made:
        real.close()


def join(real: RealBroker, *clients: str) -> None:
    for number, client_id in enumerate(clients):
        beat = HeartbeatData(client_id=client_id, consumer_data_set=[ConsumerData(group_name="G")])
        real.handle(Heartbeat(beat), NOW, Peer(number + 10, PEER.host, PEER.address, 493))


def question(
    client_id: str, strategy: str = "AVG", topic: str = "T", broadcast: bool = False
) -> QueryAssignment:
    model = MessageModel.BROADCASTING if broadcast else MessageModel.CLUSTERING
    return QueryAssignment(QueryAssignmentRequestBody(topic, "G", client_id, strategy, model))


def ask(
    real: RealBroker, *args: object, now: int = NOW, **named: object
) -> list[tuple[str, int, str]] | None:
    reply = real.handle(question(*args, **named), now)  # type: ignore[arg-type]
    assignments = reply.body.message_queue_assignments
    if assignments is None:
        return None
    return [(one.message_queue.broker_name, one.message_queue.queue_id, one.mode.name) for one in assignments]


def set_mode(real: RealBroker, mode: MessageRequestMode, share: int = 0, topic: str = "T") -> Wait:
    body = SetMessageRequestModeRequestBody(topic, "G", mode, share)
    result = real.handle(SetMessageRequestMode(body))
    assert isinstance(result, Wait)
    return result


def test_queues_are_shared_among_the_members(make: Make) -> None:
    real = make()
    join(real, "c2", "c1")
    assert ask(real, "c1") == [("broker-a", 0, "PULL"), ("broker-a", 1, "PULL")]
    assert ask(real, "c2", "AVG_BY_CIRCLE") == [("broker-a", 1, "PULL"), ("broker-a", 3, "PULL")]


def test_members_of_a_broadcasting_group_get_all(make: Make) -> None:
    real = make()
    assert len(ask(real, "c1", broadcast=True) or []) == 4


def test_members_that_pull_a_static_topic_share_its_logical_queues(make: Make) -> None:
    real = make()
    real.broker.topics.static.put(TopicQueueMappingDetail("T", total_queues=3, bname="broker-a"), NOW)
    join(real, "c1")
    assert ask(real, "c1") == [("__syslo__global__", number, "PULL") for number in range(3)]
    resumed(set_mode(real, MessageRequestMode.POP))
    assert ask(real, "c1") == [("broker-a", -1, "POP")], "who pops reads what each broker has"


def test_by_an_option_nothing_is_shared(make: Make) -> None:
    real = make(serverLoadBalancerEnable=False)
    join(real, "c1", "c2")
    assert len(ask(real, "c1") or []) == 4


def test_what_cannot_be_told_is_absent(make: Make) -> None:
    real = make()
    assert ask(real, "c1") is None
    join(real, "c1")
    assert ask(real, "c1", "MACHINE_ROOM") is None
    assert ask(real, "c1", topic="Nowhere") is None
    real.broker.topics.put(TopicConfig("T", 4, 4, 2), NOW)
    assert ask(real, "c1") is None


def test_a_group_is_told_to_pop_once_that_is_set_and_saved(make: Make) -> None:
    real = make()
    join(real, "c1", "c2")
    wait = set_mode(real, MessageRequestMode.POP)
    assert wait.on == (Saved("request modes"),) or Saved("request modes") in wait.on
    assert resumed(wait).code == 0
    assert ask(real, "c1") == [("broker-a", -1, "POP")]
    text = real.broker.modes.snapshot()()
    assert json.loads(text) == {
        "messageRequestModeMap": {
            "T": {"G": {"consumerGroup": "G", "mode": "POP", "popShareQueueNum": 0, "topic": "T"}}
        }
    }
    real.broker.modes.load_text(text)
    assert real.handle(GetAllMessageRequestMode()).body.message_request_mode_map["T"]["G"].topic == "T"
    set_mode(real, MessageRequestMode.PULL)
    assert len(ask(real, "c1") or []) == 2


def test_what_no_mode_can_be_set_for(make: Make) -> None:
    real = make(autoCreateSubscriptionGroup=False)

    def refusal(topic: str) -> tuple[int, str | None]:
        with pytest.raises(Refused) as refused:
            set_mode(real, MessageRequestMode.POP, topic=topic)
        return int(refused.value.code), refused.value.remark

    assert refusal("%RETRY%G") == (16, "retry topic is not allowed to set mode")
    assert refusal("Nowhere") == (17, "topic[Nowhere] not exist")
    assert refusal("T") == (26, "subscription group does not exist")


def test_the_default_mode_is_an_option_and_retry_topics_are_pulled(make: Make) -> None:
    real = make(defaultMessageRequestMode="POP", defaultPopShareQueueNum=1)
    join(real, "c1", "c2", "c3", "c4")
    real.broker.topics.put(TopicConfig("%RETRY%G", 1, 1, 6), NOW)
    assert ask(real, "c1") == [("broker-a", 0, "POP"), ("broker-a", 1, "POP")]
    assert ask(real, "c1", topic="%RETRY%G") == [("broker-a", 0, "PULL")]


def test_queues_of_other_brokers_are_looked_up_first(make: Make) -> None:
    real = make(namesrvAddr="127.0.0.1:1")
    join(real, "c1")
    routes = real.broker.routes
    wait = real.handle(question("c1"))
    assert isinstance(wait, Wait)
    assert isinstance(wait.on[0], Signal)
    assert routes.drain_wanted() == {"T"}
    routes.learn(
        "T",
        TopicRouteData(
            queue_datas=[
                QueueData("broker-a", 9, 9, 6),
                QueueData("broker-b", 1, 1, 6),
                QueueData("broker-c", 1, 1, 2),
            ]
        ),
    )
    assert routes.drain_notified() == list(wait.on)
    resumed(wait)
    assert [(name, queue_id) for name, queue_id, _ in ask(real, "c1") or []] == [
        *(("broker-a", queue_id) for queue_id in range(4)),
        ("broker-b", 0),
    ]
    assert routes.to_refresh(NOW + 1000) == {"T"}
    assert routes.to_refresh(NOW + 3_600_000) == set()
    again = real.handle(question("c1"))
    assert isinstance(again, Wait)
    routes.failed("T")
    assert resumed(again).body.message_queue_assignments is None
