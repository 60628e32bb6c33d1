"""Readers that are too far behind, and offsets that nobody needs any more."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orbitmq.broker.offset.upkeep import PAIRS_AT_ONCE
from orbitmq.broker.pull import pulls_cy
from orbitmq.handling.call import HandledFrames
from orbitmq.protocol.bodies.heartbeat import ConsumerData, ConsumeType, MessageModel, SubscriptionData
from orbitmq.protocol.bodies.topic import TopicConfig
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.remoting.frame import encode_command
from orbitmq.protocol.requests.pop import PopMessage
from orbitmq.protocol.requests.pull import PullMessage
from tests.kit.real_broker import NOW, PEER, RealBroker

IS_COMPILED = not pulls_cy.__file__.endswith(".py")

Make = Callable[..., RealBroker]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[RealBroker] = []

    def new(**properties: object) -> RealBroker:
        broker = RealBroker(tmp_path, **properties)
        made.append(broker)
        broker.broker.topics.put(TopicConfig(topic_name="TopicTest"), NOW)
        return broker

    yield new
    for broker in made:
        broker.close()


def pull(queue_offset: int) -> PullMessage:
    return PullMessage(
        consumer_group="CG",
        topic="TopicTest",
        queue_id=1,
        queue_offset=queue_offset,
        max_msg_nums=1,
        sys_flag=4,
        commit_offset=0,
        suspend_timeout_millis=15_000,
        sub_version=0,
        subscription="*",
        expression_type="TAG",
    )


def taken(broker: RealBroker, queue_offset: int) -> HandledFrames | None:
    """Answers of the fast path."""
    return broker.handle_pulls(encode_command(pull(queue_offset).to_command(opaque=1)), PEER, NOW)


def subscribe(broker: RealBroker, topic: str) -> None:
    broker.broker.clients.register_consumer(
        ConsumerData(
            "CG",
            ConsumeType.CONSUME_PASSIVELY,
            MessageModel.CLUSTERING,
            subscription_data_set=[SubscriptionData(topic, "*")],
        ),
        "c1",
        PEER,
        NOW,
        notifies=False,
        with_subscriptions=True,
    )


def test_a_group_that_reads_too_far_behind_may_consume_no_more(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    broker = make(disableConsumeIfConsumerReadSlowly="true", consumerFallbehindThreshold=3000)
    rules = broker.broker
    for _ in range(10):
        broker.send(body=b"x" * 1000)
    broker.handle(pull(0))
    assert not rules.slow_readers.tick(NOW)
    if IS_COMPILED:
        assert taken(broker, 1) is not None
    else:
        broker.handle(pull(1))
    version = rules.groups.version.counter
    with caplog.at_level(logging.WARNING):
        assert not rules.slow_readers.tick(NOW)
    assert "the consumer[CG] consume slowly" in caplog.text
    group = rules.groups.get("CG")
    assert group is not None
    assert not group.consume_enable
    assert rules.groups.version.counter == version + 1
    assert rules.groups.NAME in rules.dirty_tables.drain_all()
    assert taken(broker, 2) is None, "the fast path leaves it to the rules, which refuse"
    pop = PopMessage(
        consumer_group="CG",
        topic="TopicTest",
        queue_id=1,
        max_msg_nums=1,
        invisible_time=60_000,
        poll_time=0,
        born_time=NOW,
        init_mode=0,
    )
    for request in (pull(2), pop):
        with pytest.raises(Refused) as refused:
            broker.handle(request)
        assert refused.value.code == ResponseCode.NO_PERMISSION
        assert refused.value.remark == "subscription group no permission, CG"


@pytest.mark.parametrize("on", ["true", "false"])
def test_who_reads_near_the_end_or_stands_still_or_is_let_be_may_go_on(make: Make, on: str) -> None:
    broker = make(disableConsumeIfConsumerReadSlowly=on, consumerFallbehindThreshold=3000)
    rules = broker.broker
    for _ in range(10):
        broker.send(body=b"x" * 1000)
    for queue_offset in (0, 8, 9) if on == "true" else (0, 1, 2):
        broker.handle(pull(queue_offset))
        rules.slow_readers.tick(NOW)
    for _ in range(5):  # falls behind, but reads nothing
        broker.send(body=b"x" * 1000)
        rules.slow_readers.tick(NOW)
    group = rules.groups.get("CG")
    assert group is not None
    assert group.consume_enable


def left(broker: RealBroker) -> bool:
    return not broker.broker.offsets.queues("CG", "TopicTest")


def test_offsets_of_a_topic_that_a_group_has_left_go_when_its_messages_have(make: Make) -> None:
    broker = make(enableCleanExpiredOffset="true")
    rules = broker.broker
    rules.offsets.commit("CG", "TopicTest", 1, 0, NOW)
    rules.offsets.commit("CID_RMQ_SYS_X", "TopicTest", 1, 0, NOW)
    rules.offsets.commit("CG@broadcast", "TopicTest", 1, 0, NOW)
    subscribe(broker, "TopicTest")
    for _ in range(2):
        rules.expired_offsets.tick(NOW)
    assert not left(broker), "a member subscribes to it"
    subscribe(broker, "Other")
    rules.expired_offsets.tick(NOW)
    rules.offsets.remember_pull("CG", "TopicTest", 1, 1)
    rules.expired_offsets.tick(NOW)
    assert not left(broker), "it has got on since"
    rules.expired_offsets.tick(NOW)
    assert left(broker)
    assert rules.offsets.get("CID_RMQ_SYS_X", "TopicTest", 1) == 0
    assert rules.offsets.get("CG@broadcast", "TopicTest", 1) == 0
    assert rules.offsets.NAME in rules.dirty_tables.drain_all()


def test_offsets_stay_whose_messages_are_there_and_where_nobody_asked_for_it(make: Make) -> None:
    broker = make(enableCleanExpiredOffset="true")
    rules = broker.broker
    broker.send()
    rules.offsets.commit("CG", "TopicTest", 0, 0, NOW)
    rules.offsets.commit("CG", "TopicTest", 1, 1, NOW)
    for _ in range(3):
        rules.expired_offsets.tick(NOW)
    assert not left(broker)
    rules.offsets.commit("CG", "TopicTest", 1, 0, NOW)
    rules.offsets.reset("CG", "TopicTest", 0, 0, NOW)
    for _ in range(3):
        rules.expired_offsets.tick(NOW)
    assert not left(broker), "a reset waits for its pull"
    rules.offsets.pop_reset("CG", "TopicTest", 0)
    rules.settings.enable_clean_expired_offset = False
    for _ in range(3):
        rules.expired_offsets.tick(NOW)
    assert not left(broker)


def test_others_have_turns_between_slices(make: Make) -> None:
    broker = make(enableCleanExpiredOffset="true", disableConsumeIfConsumerReadSlowly="true")
    rules = broker.broker
    for number in range(PAIRS_AT_ONCE + 1):
        rules.offsets.commit(f"G{number}", "TopicTest", 0, 0, NOW)
    for rounds in (rules.slow_readers, rules.expired_offsets):
        assert [rounds.tick(NOW) for _ in range(2)] == [True, False]
    assert [rules.expired_offsets.tick(NOW) for _ in range(2)] == [True, False]
    assert [group for group, _ in rules.offsets.pairs() if group.startswith("G")] == []
