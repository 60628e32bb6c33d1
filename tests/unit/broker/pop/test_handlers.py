"""Refusals of pops and of questions about them, and the form of replies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orbitmq.handling.call import Wait
from orbitmq.protocol.bodies.group import SubscriptionGroupConfig
from orbitmq.protocol.bodies.topic import TopicConfig
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.requests.pop import Notification, PeekMessage, PollingInfo, PopReply
from tests.kit.pop import GROUP, NOW, TOPIC, PopWorld


@pytest.fixture
def world(tmp_path: Path) -> Iterator[PopWorld]:
    world = PopWorld(tmp_path / "store")
    yield world
    world.close()


@pytest.mark.parametrize(
    ("fields", "code", "remark"),
    [
        ({"topic": "Nowhere"}, 17, "topic[Nowhere] not exist, apply first please!"),
        (
            {"queue_id": 4},
            29,
            "queueId[4] is illegal, topic:[TopicTest] topicConfig.readQueueNums:[4]",
        ),
        ({"max_msg_nums": 33}, 29, "the broker[127.0.0.1:10911] pop message's num is greater than 32"),
        ({"max_msg_nums": 0}, 29, "maxMsgNums[0] is less than 1"),
        ({"invisible_time": 0}, 29, "invisibleTime[0] is not within 1 ms and 259200000 ms"),
        ({"invisible_time": 1 << 40}, 29, f"invisibleTime[{1 << 40}] is not within 1 ms and 259200000 ms"),
        ({"consumer_group": "no/group"}, 26, "subscription group [no/group] does not exist"),
        ({"exp": "||", "exp_type": "TAG"}, 23, "parse the consumer's subscription failed"),
    ],
)
def test_what_a_pop_is_refused_for(world: PopWorld, fields: dict[str, Any], code: int, remark: str) -> None:
    with pytest.raises(Refused) as refused:
        world.ask_pop(**fields)
    assert (refused.value.code, refused.value.remark) == (code, remark)


def test_a_pop_that_comes_too_late_is_answered_with_a_header_that_can_be_read(world: PopWorld) -> None:
    reply = world.ask_pop(born_time=NOW - 20_000, poll_time=15_000).reply
    assert reply.remark == "the broker[127.0.0.1:10911] pop message is timeout too much"
    again = PopReply.from_command(reply.to_command(7))
    assert (again.code, again.pop_time, again.rest_num, again.body) == (210, 0, 0, None)


def test_who_may_not_read(world: PopWorld) -> None:
    def refusals() -> list[tuple[int, str]]:
        found = []
        requests = (
            Notification(GROUP, TOPIC, -1, 0, NOW),
            PeekMessage(TOPIC, -1, 1, GROUP),
            PollingInfo(GROUP, TOPIC, -1),
        )
        for ask in (world.ask_pop, *(lambda r=request: world.real.handle(r) for request in requests)):
            with pytest.raises(Refused) as refused:
                ask()
            found.append((int(refused.value.code), str(refused.value.remark)))
        return found

    world.broker.groups.put(SubscriptionGroupConfig(GROUP, consume_enable=False), NOW)
    assert set(refusals()) == {(16, "subscription group no permission, G")}
    world.broker.topics.put(TopicConfig(TOPIC, 4, 4, 2), NOW)
    assert set(refusals()) == {(16, "the topic[TopicTest] peeking message is forbidden")}
    world.broker.settings.broker_permission = 2
    assert refusals() == [
        (16, "the broker[127.0.0.1:10911] pop message is forbidden"),
        *[(16, "the broker[127.0.0.1:10911] peeking message is forbidden")] * 3,
    ]


def test_without_timers_there_are_no_pops(tmp_path: Path) -> None:
    world = PopWorld(tmp_path / "other", {"timerWheelEnable": False})
    with pytest.raises(Refused, match="timerWheelEnable is false"):
        world.ask_pop()
    world.close()


def test_a_reply_says_where_its_messages_come_from(world: PopWorld) -> None:
    world.send(2, 1)
    world.send(1, 3)
    reply = world.ask_pop(max_msg_nums=3, invisible_time=7_000).reply
    assert (reply.code, reply.remark, reply.rest_num) == (0, "FOUND", 0)
    assert (reply.pop_time, reply.invisible_time) == (NOW, 7_000)
    assert sorted(reply.start_offset_info.split(";")) == ["0 1 0", "0 3 0"]
    assert sorted(reply.msg_offset_info.split(";")) == ["0 1 0,1", "0 3 0"]
    assert reply.order_count_info is None


def test_a_reply_says_how_much_is_left(world: PopWorld) -> None:
    for queue_id in range(4):
        world.send(5, queue_id)
    assert world.ask_pop(max_msg_nums=8).reply.rest_num == 12


def test_a_peek_says_what_a_pop_would_find(world: PopWorld) -> None:
    assert world.real.handle(PeekMessage(TOPIC, -1, 4, GROUP)).code == 19
    world.send(6)
    reply = world.real.handle(PeekMessage(TOPIC, 0, 4, GROUP))
    assert (reply.code, reply.remark, reply.rest_num) == (0, "FOUND", 2)
    assert len(world.pop()) == 6


def test_pops_count_in_the_statistics(world: PopWorld) -> None:
    world.send(3)
    world.pop()
    assert world.broker.stats.find("GROUP_GET_NUMS", f"{TOPIC}@{GROUP}") is not None


def test_the_filter_of_a_pop_is_its_own(world: PopWorld) -> None:
    a, b = (world.ask_pop(exp=tag, exp_type="TAG", poll_time=5000) for tag in ("TagA", "TagB"))
    [body] = world.send(tag="TagA")
    assert [one.body for one in world.got(a)] == [body]
    assert isinstance(b.result, Wait)
    [body] = world.send(tag="TagB")
    assert [one.body for one in world.got(b)] == [body]
