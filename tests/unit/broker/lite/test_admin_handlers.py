"""Answers to operators about lite topics."""

from __future__ import annotations

from pathlib import Path

from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.requests.lite import (
    GetBrokerLiteInfo,
    GetLiteClientInfo,
    GetLiteGroupInfo,
    GetLiteTopicInfo,
    GetParentTopicInfo,
    TriggerLiteDispatch,
)
from tests.kit.lite import GROUP, PARENT, LiteWorld


def test_operators_see_lite_topics_clients_and_lags(tmp_path: Path) -> None:
    world = LiteWorld(tmp_path)
    world.add("c1", "a", "b")
    world.put("a", 5)
    world.put("b")
    world.settle(*world.take("c1", max_msg_num=2))
    ask = world.real.handle
    broker = ask(GetBrokerLiteInfo()).body
    assert (broker.current_lmq_num, broker.lite_subscription_count, broker.offset_table_size) == (2, 2, 1)
    assert (broker.topic_meta, broker.group_meta) == ({PARENT: -1}, {PARENT: [GROUP]})
    parent = ask(GetParentTopicInfo(PARENT)).body
    assert (parent.groups, parent.lite_topic_count, parent.ttl) == ([GROUP], 2, -1)
    topic = ask(GetLiteTopicInfo(PARENT, "a")).body
    assert [(one.client_id, one.group) for one in topic.subscriber] == [("c1", GROUP)]
    assert (topic.topic_offset.min_offset, topic.topic_offset.max_offset) == (0, 5)
    assert topic.topic_offset.last_update_timestamp == world.now
    client = ask(GetLiteClientInfo(PARENT, GROUP, "c1")).body
    assert (client.lite_topic_count, client.lite_topic_set) == (
        2,
        [f"%LMQ%${PARENT}${name}" for name in "ab"],
    )
    assert ask(GetLiteClientInfo(PARENT, GROUP, "nobody")).body.lite_topic_count == -1
    group = ask(GetLiteGroupInfo(GROUP)).body
    assert group.total_lag_count == 3
    assert [(one.lite_topic, one.lag_count) for one in group.lag_count_top_k] == [("a", 3)]
    oldest = [(one.lite_topic, one.earliest_unconsumed_timestamp) for one in group.lag_timestamp_top_k]
    assert oldest == [("a", group.earliest_unconsumed_timestamp)]
    one = ask(GetLiteGroupInfo(GROUP, "a")).body
    offsets = one.lite_topic_offset_wrapper
    assert (one.total_lag_count, offsets.broker_offset, offsets.consumer_offset) == (3, 5, 2)
    assert ask(GetLiteGroupInfo(GROUP, "nothing")).body.total_lag_count == -1
    ask(TriggerLiteDispatch(GROUP))
    assert world.broker.lite_events.has_some("c1")
    world.close()


def test_the_oldest_messages_are_listed_beside_the_longest_backlogs(tmp_path: Path) -> None:
    world = LiteWorld(tmp_path)
    world.group("All", wildcard="true")
    world.tell("COMPLETE_ADD", "c1", group="All")
    times = {}
    for name, count in (("early", 1), ("long", 9), ("late", 2)):
        times[name] = world.now
        world.put(name, count)
        world.wait(1000)
    world.take("c1", group="All")
    ask = world.real.handle
    group = ask(GetLiteGroupInfo("All", top_k=2)).body
    assert [one.lite_topic for one in group.lag_count_top_k] == ["long", "late"]
    oldest = [(one.lite_topic, one.earliest_unconsumed_timestamp) for one in group.lag_timestamp_top_k]
    assert oldest == [(name, times[name]) for name in ("early", "long")]
    assert group.earliest_unconsumed_timestamp == times["early"]
    assert ask(GetLiteGroupInfo("All", "early")).body.lite_topic_offset_wrapper.last_timestamp == 0
    client = ask(GetLiteClientInfo(PARENT, "All", "c1")).body
    assert (client.lite_topic_count, client.lite_topic_set) == (1, [f"{PARENT}@All"])
    world.close()


def test_wrong_names_are_refused_with_apaches_codes(tmp_path: Path) -> None:
    world = LiteWorld(tmp_path)
    refusal = world.real.refusal
    assert refusal(GetParentTopicInfo("nothing")).code == ResponseCode.TOPIC_NOT_EXIST
    assert refusal(GetParentTopicInfo("TopicTest")).remark == "Topic [TopicTest] type not match."
    assert refusal(GetLiteGroupInfo("nobody")).code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert refusal(GetLiteGroupInfo("TOOLS_CONSUMER")).code == ResponseCode.INVALID_PARAMETER
    assert refusal(GetLiteGroupInfo(GROUP, top_k=0)).code == ResponseCode.SYSTEM_ERROR
    assert refusal(GetLiteClientInfo(PARENT, "TOOLS_CONSUMER", "c")).code == ResponseCode.INVALID_PARAMETER
    world.close()
