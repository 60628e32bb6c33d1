"""Acknowledgements and changes of the invisible time, as requests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orbitmq.broker.ack.handlers import ACKS_PER_TURN
from orbitmq.protocol.bodies.pop import BatchAck, BatchAckMessageRequestBody
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.requests.pop import AckMessage, BatchAckMessage, ChangeMessageInvisibletime
from orbitmq.protocol.requests.send import ConsumerSendMsgBack
from tests.kit.pop import GROUP, NOW, TOPIC, Got, PopWorld, bodies
from tests.kit.real_broker import resumed
from tests.kit.store import full_disk
from tests.kit.waiting import turns_of


@pytest.fixture
def world(tmp_path: Path) -> Iterator[PopWorld]:
    world = PopWorld(tmp_path / "store", queues=1)
    yield world
    world.close()


def batch(*got: Got) -> BatchAck:
    handle = got[0].handle
    bits = 0
    for one in got:
        bits |= 1 << one.record.queue_offset - handle.start_offset
    return BatchAck(
        GROUP, TOPIC, str(handle.topic_type), handle.start_offset, handle.queue_id, handle.revive_queue_id,
        handle.pop_time, handle.invisible_ms, bits.to_bytes(bits.bit_length() // 8 + 1, "little"),
    )  # fmt: skip


@pytest.mark.parametrize("order", [False, True])
def test_several_messages_are_acknowledged_at_once(world: PopWorld, order: bool) -> None:
    world.send(20)
    popped = world.pop(order=order, invisible_time=5_000)
    acked = popped[:3] if order else [popped[0], popped[9], popped[19]]
    body = BatchAckMessageRequestBody("broker-a", [batch(*acked)])
    world.real.handle(BatchAckMessage(body), world.now)
    world.wait(10_000)
    again = [got for _ in range(2) for got in world.pop(order=order)]
    assert sorted(bodies(again)) == sorted(set(bodies(popped)) - set(bodies(acked)))


def test_very_many_pops_are_acknowledged_over_several_turns(world: PopWorld) -> None:
    world.send(2)
    first, last = world.pop(invisible_time=5_000)
    acks = [batch(first)] * (2 * ACKS_PER_TURN) + [batch(last)]
    result = world.real.handle(BatchAckMessage(BatchAckMessageRequestBody("broker-a", acks)), world.now)
    turns, _ = turns_of(result, world.now)
    assert turns == 2
    world.wait(10_000)
    assert world.pop() == []


def test_messages_of_retry_topics_are_acknowledged_at_once_by_the_name_of_their_topic(
    world: PopWorld,
) -> None:
    world.send(2)
    world.pop(invisible_time=1_000)
    world.wait(5_000)
    again = world.pop(invisible_time=1_000)
    assert [got.handle.topic_type for got in again] == [1, 1]
    world.real.handle(BatchAckMessage(BatchAckMessageRequestBody("broker-a", [batch(*again)])), world.now)
    world.wait(10_000)
    assert world.pop() == []


def test_what_several_acknowledgements_are_refused_for(world: PopWorld) -> None:
    world.send(1)
    (got,) = world.pop()

    def refusal(*acks: BatchAck) -> int:
        with pytest.raises(Refused) as refused:
            world.real.handle(BatchAckMessage(BatchAckMessageRequestBody("broker-a", list(acks))))
        return int(refused.value.code)

    assert refusal() == 208
    wrong = batch(got)
    wrong.retry = "7"
    assert refusal(wrong) == 1
    wrong = batch(got)
    wrong.bit_set = bytes(9_000)
    assert refusal(wrong) == 1
    wrong = batch(got)
    wrong.revive_queue_id = 77
    assert refusal(wrong) == 13


def test_offsets_that_the_queue_does_not_have_are_passed_over(world: PopWorld) -> None:
    world.send(1)
    (got,) = world.pop(invisible_time=1_000)
    ack = batch(got)
    ack.bit_set = b"\xff"
    world.real.handle(BatchAckMessage(BatchAckMessageRequestBody("broker-a", [ack])), world.now)
    ack.topic = "Nowhere"
    world.real.handle(BatchAckMessage(BatchAckMessageRequestBody("broker-a", [ack])), world.now)
    world.wait(5_000)
    assert world.pop() == []


@pytest.mark.parametrize(
    ("fields", "code", "remark"),
    [
        ({"topic": "Nowhere"}, 17, "topic[Nowhere] not exist, apply first please!"),
        (
            {"queue_id": 5},
            13,
            "queueId[5] is illegal, topic:[TopicTest] topicConfig.readQueueNums:[1]",
        ),
        ({"queue_id": -1}, 13, "queueId[-1] is illegal, topic:[TopicTest] topicConfig.readQueueNums:[1]"),
        ({"offset": 9}, 208, None),
        ({"extra_info": "0 1 2"}, 1, "extraInfo[0 1 2] is illegal: a handle has 7 to 10 fields, not 3"),
        (
            {"extra_info": "0 x 1000 0 0 broker-a 0"},
            1,
            "extraInfo[0 x 1000 0 0 broker-a 0] is illegal: a number of the handle is none",
        ),
        (
            {"extra_info": "0 -1 1000 0 0 broker-a 0"},
            1,
            "extraInfo[0 -1 1000 0 0 broker-a 0] is illegal: a number of the handle is out of range",
        ),
        (
            {"extra_info": f"0 {NOW} 1000 8 0 broker-a 0"},
            13,
            "reviveQid[8] is illegal, the revive topic has 8 queues",
        ),
        (
            {"extra_info": f"0 {NOW} 1000 0 0 broker-a 3"},
            13,
            "queueId[0] is illegal, the message was popped from queue 3",
        ),
    ],
)
def test_what_acknowledgements_and_changes_are_refused_for(
    world: PopWorld, fields: dict[str, Any], code: int, remark: str | None
) -> None:
    world.send(2)
    values: dict[str, Any] = {
        "consumer_group": GROUP,
        "topic": TOPIC,
        "queue_id": 0,
        "extra_info": f"0 {NOW} 1000 0 0 broker-a 0",
        "offset": 0,
        **fields,
    }
    for request in (AckMessage(**values), ChangeMessageInvisibletime(**values, invisible_time=1000)):
        with pytest.raises(Refused) as refused:
            world.real.handle(request)
        assert refused.value.code == code
        assert remark is None or refused.value.remark == remark


def test_times_that_are_too_long_are_refused(world: PopWorld) -> None:
    world.send(1)
    (got,) = world.pop()
    with pytest.raises(Refused, match="invisibleTime"):
        world.hide(got, 1 << 40)


def test_a_change_below_what_an_ordered_group_has_committed_says_nothing(world: PopWorld) -> None:
    world.send(1)
    (got,) = world.pop(order=True)
    world.ack(got)
    request = ChangeMessageInvisibletime(GROUP, TOPIC, 0, got.handle.to_text(), 0, 1000)
    reply = world.real.handle(request)
    assert (reply.code, reply.to_command().ext or {}) == (0, {})


def test_a_message_given_up_becomes_a_dead_letter_and_does_not_come_again(world: PopWorld) -> None:
    world.send(1)
    world.pop(invisible_time=1_000)
    world.wait(5_000)
    (got,) = world.pop(invisible_time=1_000)
    back = ConsumerSendMsgBack(got.record.physical_offset, GROUP, -1, max_reconsume_times=0)
    resumed(world.real.handle(back, world.now), now=world.now)
    world.ack(got)
    world.wait(10_000)
    assert world.pop() == []
    dead = world.real.stored(f"%DLQ%{GROUP}", 0)
    assert (dead.body, dead.reconsume_times) == (got.body, 2)


def test_a_store_that_takes_nothing_refuses_acknowledgements(world: PopWorld) -> None:
    world.send(1)
    (got,) = world.pop()
    with full_disk(world.store, world.now):
        with pytest.raises(Refused, match="SERVICE_NOT_AVAILABLE"):
            world.ack(got)
        with pytest.raises(Refused, match="SERVICE_NOT_AVAILABLE"):
            world.hide(got, 1000)
