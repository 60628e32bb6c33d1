"""Whatever pulls a read brings, damaged ones too: answered as frames they come to the same as one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.handling.call import Outcome, Peer, Wait
from orbitmq.protocol.bodies.group import SubscriptionGroupConfig
from orbitmq.protocol.bodies.heartbeat import (
    ConsumeFromWhere,
    ConsumerData,
    ConsumeType,
    MessageModel,
    SubscriptionData,
)
from orbitmq.protocol.bodies.topic import TopicConfig
from orbitmq.protocol.errors import MalformedFrame
from orbitmq.protocol.remoting.command import Command
from orbitmq.protocol.remoting.frame import MAX_FRAME_BYTES, encode_command
from orbitmq.protocol.remoting.header_cy import decode_frames
from orbitmq.protocol.requests.pull import PullMessage
from orbitmq.protocol.requests.topic import DeleteTopicInBroker
from tests.kit.real_broker import NOW, PEER, RealBroker, as_sent, two_brokers
from tests.property.reads import damaged, damages, on_lasting_brokers

QUEUES = range(3)
MESSAGES = 41
"""In each queue, with the one that it begins with."""
PULLS = st.fixed_dictionaries(
    {
        "queue_id": st.sampled_from([0, 0, 1, 2, 3, -1]),
        "queue_offset": st.sampled_from([0, 3, MESSAGES - 1, MESSAGES, MESSAGES, MESSAGES + 5, -1]),
        "sys_flag": st.integers(0, 7),
    },
    optional={
        "consumer_group": st.sampled_from(["CG", "Here", "Here", "All", "Closed", "Gone", "no/name"]),
        "topic": st.sampled_from(["TopicTest", "TopicTest", "Closed", "Missing", "%RETRY%Here"]),
        "max_msg_nums": st.sampled_from([1, 7, 32, 1000, 0, -1, 1 << 40]),
        "max_msg_bytes": st.sampled_from([None, 1, 900, 1 << 30, -5]),
        "commit_offset": st.integers(-1, 50),
        "suspend_timeout_millis": st.sampled_from([0, 1000, 15_000, 1 << 62, 1 << 70, -1]),
        "sub_version": st.integers(0, 2),
        "subscription": st.sampled_from([None, "*", "TagA", "TagA || TagB", "Nobody", "||", 'a"b', "\u00fc"]),
        "expression_type": st.sampled_from([None, "TAG", "SQL92", "other"]),
        "request_source": st.sampled_from([None, 1]),
        "proxy_froward_client_id": st.sampled_from([None, "somebody"]),
        "broker_name": st.sampled_from([None, "broker-a"]),
        "bulk": st.sampled_from([None, None, True, False]),
    },
)


def pull(**fields: Any) -> PullMessage:
    values = {
        "consumer_group": "CG",
        "topic": "TopicTest",
        "max_msg_nums": 32,
        "commit_offset": 0,
        "suspend_timeout_millis": 15_000,
        "sub_version": 1,
    }
    return PullMessage(**{**values, **fields})


def prepare(broker: RealBroker) -> None:
    """Messages with and without tags, and groups that differ."""
    rules = broker.broker
    for number in range(1, MESSAGES):
        for queue_id in QUEUES:
            tag = ("TagA", "TagB", "")[number % 3]
            body = bytes(number * 17 % 600) if queue_id else bytes(3000)
            properties = f"UNIQ_KEY\x017F000001ABCD\x02TAGS\x01{tag}\x02"
            broker.send(queue_id=queue_id, body=body, properties=properties)
    rules.topics.put(TopicConfig(topic_name="Closed", perm=2), NOW)
    rules.topics.put(TopicConfig(topic_name="%RETRY%Here", read_queue_nums=1), NOW)
    rules.topics.note_saved()
    rules.groups.put(SubscriptionGroupConfig(group_name="Closed", consume_enable=False), NOW)
    wanted = [
        SubscriptionData(topic="TopicTest", sub_string="TagA", sub_version=1, expression_type="TAG"),
        SubscriptionData(topic="Missing", sub_string="*", sub_version=1),
    ]
    for group, model in (("Here", MessageModel.CLUSTERING), ("All", MessageModel.BROADCASTING)):
        data = ConsumerData(
            group, ConsumeType.CONSUME_PASSIVELY, model, ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET, wanted
        )
        rules.clients.register_consumer(data, "one", PEER, NOW, notifies=False, with_subscriptions=True)


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RealBroker, RealBroker]]:
    with two_brokers(tmp_path_factory.mktemp("brokers")) as pair:
        for broker in pair:
            prepare(broker)
        yield pair


def _subscribe(rules: Any, model: MessageModel, text: str, version: int) -> None:
    data = ConsumerData(
        "Here",
        ConsumeType.CONSUME_PASSIVELY,
        model,
        ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
        [SubscriptionData(topic="TopicTest", sub_string=text, sub_version=version, expression_type="TAG")],
    )
    rules.clients.register_consumer(data, "one", PEER, NOW, notifies=False, with_subscriptions=True)


def _stray(rules: Any) -> None:
    """Another member with another filter, which is newer."""
    wanted = [SubscriptionData(topic="TopicTest", sub_string="TagB", sub_version=9)]
    data = ConsumerData("Here", subscription_data_set=wanted)
    rules.clients.register_consumer(
        data, "stray", Peer(2, PEER.host, PEER.address), NOW, notifies=False, with_subscriptions=True
    )


def _topic(rules: Any, **fields: int) -> None:
    rules.topics.put(TopicConfig(topic_name="TopicTest", **fields), NOW)


def _group(rules: Any, **fields: Any) -> None:
    rules.groups.put(SubscriptionGroupConfig(group_name="Here", **fields), NOW)


def _option(rules: Any, name: str, value: object) -> None:
    rules.config.update({name: str(value)}, "", NOW)


CHANGES: dict[str, Callable[[Any], object]] = {
    "nothing": lambda rules: None,
    "the topic is closed": lambda rules: _topic(rules, perm=2),
    "the topic has a flag": lambda rules: _topic(rules, read_queue_nums=4, topic_sys_flag=2),
    "the topic has fewer queues": lambda rules: _topic(rules, read_queue_nums=1),
    "the group may not consume": lambda rules: _group(rules, consume_enable=False),
    "the group has a flag": lambda rules: _group(rules, group_sys_flag=1),
    "the group is gone": lambda rules: rules.groups.delete("Here", NOW),
    "not this topic": lambda rules: rules.groups.set_readable("Here", "TopicTest", False, NOW),
    "other tags": lambda rules: _subscribe(rules, MessageModel.CLUSTERING, "TagB", 2),
    "a member with other tags": _stray,
    "to every member": lambda rules: _subscribe(rules, MessageModel.BROADCASTING, "*", 3),
    "nobody is here": lambda rules: rules.clients.connection_closed(PEER.connection_id),
    "three at a time": lambda rules: _option(rules, "maxTransferCountOnMessageInMemory", 3),
    "retries are filtered": lambda rules: _option(rules, "filterSupportRetry", True),
    "nobody may read": lambda rules: _option(rules, "brokerPermission", 2),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("sys_flag", [6, 2], ids=["tags of the pull", "tags of the group"])
def test_what_is_allowed_may_change_between_two_pulls(
    tmp_path: Path, change: Callable[[Any], object], sys_flag: int
) -> None:
    pulls = [
        pull(
            consumer_group="Here",
            queue_id=queue_id,
            queue_offset=queue_offset,
            sys_flag=sys_flag,
            subscription="TagA",
            expression_type="TAG",
        )
        for queue_id in QUEUES
        for queue_offset in (3, MESSAGES)
    ]
    with two_brokers(tmp_path) as pair:
        for broker in pair:
            prepare(broker)
        for step in (CHANGES["nothing"], change):
            for broker in pair:
                step(broker.broker)
            for data in (encode_command(request.to_command(opaque=1)) for request in pulls):
                (ours, our_held), (theirs, their_held) = (
                    broker.read_pulls(data, NOW + 1, at_once=at_once)
                    for broker, at_once in zip(pair, (True, False), strict=True)
                )
                assert ours == theirs
                assert our_held.keys() == their_held.keys()
        assert known(pair[0]) == known(pair[1])


def test_a_topic_that_is_made_anew_has_nothing_of_the_old_one(
    brokers: tuple[RealBroker, RealBroker],
) -> None:
    request = pull(topic="Again", queue_id=0, queue_offset=0, sys_flag=6)
    data = encode_command(request.to_command(opaque=1))
    found = []
    for body in (b"old", b"new"):
        for broker in brokers:
            broker.send(topic="Again", queue_id=0, body=body)
            broker.broker.topics.note_saved()
        found.append([broker.read_pulls(data, NOW + 1)[0][1] for broker in brokers])
        for broker in brokers:
            broker.handle(DeleteTopicInBroker("Again"))
    for body, (ours, theirs) in zip((b"old", b"new"), found, strict=True):
        assert ours == theirs
        assert body in bytes(ours.body or b"")


def known(broker: RealBroker) -> list[object]:
    """State that pulls leave behind."""
    rules = broker.broker
    totals = rules.stats.totals
    names = ("GROUP_GET_NUMS", "GROUP_GET_SIZE", "QUEUE_GET_NUMS")
    found = [
        rules.stats.find(name, key)
        for name in names
        for key in ("TopicTest@CG", "TopicTest@Here", "TopicTest@0@CG", "TopicTest@1@Here")
    ]
    return [
        list(rules.offsets),
        [rules.offsets.pulled(group, "TopicTest", queue) for group in ("CG", "Here") for queue in QUEUES],
        (totals.get_found_times, totals.get_miss_times, totals.get_messages),
        [None if one is None else (one[0].messages, one[0].size_bytes, one[0].calls) for one in found],
        sorted(rules.groups.by_name),
        rules.dirty_tables.drain_all(),
    ]


def endings(held: dict[int, Wait], timed_out: bool) -> dict[int, Command]:
    """Answers to held calls when they are woken."""
    return {opaque: as_sent(wait.then(Outcome(timed_out), NOW + 7), opaque) for opaque, wait in held.items()}


@on_lasting_brokers
@given(
    st.lists(PULLS, min_size=1, max_size=4),
    damages(500),
    st.booleans(),
    st.booleans(),
)
def test_frames_come_to_the_same_as_requests(  # type: ignore[no-untyped-def]
    brokers, pulls, damage, resets, timed_out
) -> None:
    commands = [pull(**fields).to_command(opaque=number) for number, fields in enumerate(pulls)]
    data = damaged(b"".join(map(encode_command, commands)), damage)
    try:
        found, _ = decode_frames(data, MAX_FRAME_BYTES)
    except MalformedFrame:
        return
    if any(command.code != PullMessage.CODE for command in found):
        return
    for broker in brokers:
        if resets:
            broker.broker.offsets.reset("CG", "TopicTest", 0, 2, NOW)
    (ours, our_held), (theirs, their_held) = (
        broker.read_pulls(data, NOW + 1, at_once=at_once)
        for broker, at_once in zip(brokers, (True, False), strict=True)
    )
    assert ours == theirs
    assert {opaque: (wait.on, wait.deadline) for opaque, wait in our_held.items()} == {
        opaque: (wait.on, wait.deadline) for opaque, wait in their_held.items()
    }
    assert endings(our_held, timed_out) == endings(their_held, timed_out)
    assert known(brokers[0]) == known(brokers[1])


def test_what_is_held_is_answered_with_what_came(brokers: tuple[RealBroker, RealBroker]) -> None:
    data = b"".join(
        encode_command(
            pull(consumer_group="Other", queue_id=queue, queue_offset=end, sys_flag=6).to_command(
                opaque=queue
            )
        )
        for queue, end in ((queue, brokers[0].store.max_offset("TopicTest", queue)) for queue in QUEUES)
    )
    waiting = [
        broker.read_pulls(data, NOW + 1, at_once=at_once)[1]
        for broker, at_once in zip(brokers, (True, False), strict=True)
    ]
    for broker in brokers:
        for queue_id in QUEUES:
            broker.send(queue_id=queue_id, body=b"new")
    ours, theirs = (endings(held, False) for held in waiting)
    assert ours == theirs
    assert [answer.code for answer in ours.values()] == [0, 0, 0]
    assert known(brokers[0]) == known(brokers[1])
