"""Members of broadcasting groups: where they are, where they go on another way, when they are forgotten."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from orbitmq.handling.call import Wait
from orbitmq.protocol.bodies.heartbeat import (
    ConsumerData,
    ConsumeType,
    HeartbeatData,
    MessageModel,
    SubscriptionData,
)
from orbitmq.protocol.bodies.topic import TopicConfig
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.requests.client import Heartbeat
from orbitmq.protocol.requests.offset import QueryConsumerOffset
from orbitmq.protocol.requests.pull import PullMessage
from tests.kit.real_broker import NOW, PEER, RealBroker, resumed

TOPIC, GROUP = "TopicTest", "CG"
BY_PROXY: dict[str, Any] = {"request_source": 1, "proxy_froward_client_id": "c@1"}


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., RealBroker]]:
    made: list[RealBroker] = []

    def make(**options: Any) -> RealBroker:
        broker = RealBroker(tmp_path / str(len(made)), **options)
        broker.broker.topics.put(TopicConfig(topic_name=TOPIC, read_queue_nums=4, write_queue_nums=4), NOW)
        for _ in range(5):
            broker.send(topic=TOPIC, queue_id=0)
        made.append(broker)
        return broker

    yield make
    for broker in made:
        broker.close()


Make = Callable[..., RealBroker]


def beat(broker: RealBroker, model: MessageModel = MessageModel.BROADCASTING) -> None:
    data = ConsumerData(GROUP, ConsumeType.CONSUME_PASSIVELY, model, None, [SubscriptionData(TOPIC, "*")])
    broker.handle(Heartbeat(HeartbeatData(client_id="c@1", consumer_data_set=[data])))


def pull(broker: RealBroker, offset: int, now: int = NOW, **fields: Any) -> Any:
    values: dict[str, Any] = {
        "consumer_group": GROUP,
        "topic": TOPIC,
        "queue_id": 0,
        "queue_offset": offset,
        "max_msg_nums": 1,
        "sys_flag": 4,
        "commit_offset": 0,
        "suspend_timeout_millis": 15_000,
        "sub_version": 0,
        "subscription": "*",
    }
    return broker.handle(PullMessage(**{**values, **fields}), now)


def stored(broker: RealBroker) -> dict[int, int]:
    return broker.broker.offsets.queues(f"{GROUP}@broadcast", TOPIC)


def test_the_smallest_offset_of_the_members_is_stored_for_the_group(make: Make) -> None:
    broker = make()
    beat(broker)
    pull(broker, 3)
    pull(broker, 1, request_source=1, proxy_froward_client_id="c@2")
    broker.broker.broadcasts.scan(NOW)
    assert stored(broker) == {0: 1}
    assert "TopicTest@CG@broadcast" in broker.broker.offsets.snapshot()()
    answer = broker.handle(QueryConsumerOffset(f"{GROUP}@broadcast", TOPIC, 0))
    assert answer.offset == 1


def test_offsets_go_forward_only_and_to_where_a_pull_was_sent(make: Make) -> None:
    broker = make()
    beat(broker)
    pull(broker, 3)
    pull(broker, 2)
    broker.broker.broadcasts.scan(NOW)
    assert stored(broker) == {0: 3}
    pull(broker, 99)
    broker.broker.broadcasts.scan(NOW)
    assert stored(broker) == {0: 5}


def test_a_held_pull_counts_when_it_is_answered(make: Make) -> None:
    broker = make()
    beat(broker)
    held = pull(broker, 5, sys_flag=6)
    assert isinstance(held, Wait)
    assert len(broker.broker.broadcasts) == 0
    broker.send(topic=TOPIC, queue_id=0)
    assert resumed(held).code == ResponseCode.SUCCESS
    broker.broker.broadcasts.scan(NOW)
    assert stored(broker) == {0: 5}


def test_members_of_clusters_are_not_remembered(make: Make) -> None:
    broker = make()
    beat(broker, MessageModel.CLUSTERING)
    pull(broker, 3)
    assert len(broker.broker.broadcasts) == 0


def test_a_member_that_comes_through_a_proxy_goes_on_where_it_was(make: Make) -> None:
    broker = make()
    beat(broker)
    pull(broker, 3)
    reply = pull(broker, 0, **BY_PROXY)
    assert (reply.code, reply.remark, reply.next_begin_offset) == (
        ResponseCode.PULL_OFFSET_MOVED,
        "OFFSET_RESET",
        3,
    )
    assert (reply.min_offset, reply.max_offset) == (0, 5)
    assert pull(broker, 3, **BY_PROXY).code == ResponseCode.SUCCESS
    pull(broker, 4, **BY_PROXY)
    assert pull(broker, 3).next_begin_offset == 4  # and back
    assert pull(broker, 4).code == ResponseCode.SUCCESS


def test_a_proxy_may_ask_where_a_member_begins(make: Make) -> None:
    broker = make()
    assert pull(broker, -1, **BY_PROXY).next_begin_offset == 0  # its first message is still in memory
    broker.broker.offsets.store(f"{GROUP}@broadcast", TOPIC, 0, 4, NOW)
    reply = pull(broker, -1, request_source=1, proxy_froward_client_id="c@9")
    assert reply.next_begin_offset == 4
    assert pull(broker, -1, **BY_PROXY).next_begin_offset == 0  # of its own


def test_who_is_gone_is_forgotten_and_who_does_not_pull_later(make: Make) -> None:
    broker = make(broadcastOffsetExpireSecond=10, broadcastOffsetExpireMaxSecond=20)
    beat(broker)
    pull(broker, 3)
    pull(broker, 1, request_source=1, proxy_froward_client_id="gone")
    broker.broker.broadcasts.scan(NOW + 9_999)
    assert len(broker.broker.broadcasts) == 2
    broker.broker.broadcasts.scan(NOW + 10_000)
    assert len(broker.broker.broadcasts) == 1
    assert stored(broker) == {0: 3}
    broker.broker.broadcasts.scan(NOW + 20_000)
    assert len(broker.broker.broadcasts) == 0
    assert stored(broker) == {0: 3}


def test_there_is_an_end_to_the_members_that_are_remembered(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orbitmq.broker.pull.broadcasts.MAX_MEMBERS", 2)
    broker = make()
    for number in range(4):
        pull(broker, 1, request_source=1, proxy_froward_client_id=f"c@{number}")
    assert len(broker.broker.broadcasts) == 2


def test_nothing_is_remembered_without_the_option(make: Make) -> None:
    broker = make(enableBroadcastOffsetStore=False)
    beat(broker)
    pull(broker, 3)
    assert pull(broker, 1, **BY_PROXY).code == ResponseCode.SUCCESS
    assert len(broker.broker.broadcasts) == 0
    assert PEER.connection_id in broker.broker.clients.consumers[GROUP].members
