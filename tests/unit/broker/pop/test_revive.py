"""Popped messages that nobody acknowledged come again: when, how often, and over restarts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from orbitmq.protocol.handles.pop import REVIVE_GROUP, pop_retry_topic
from orbitmq.protocol.records.properties import encode_properties
from orbitmq.store import PendingMessage
from tests.kit.pop import GROUP, TOPIC, PopWorld, bodies

Make = Callable[..., PopWorld]

RETRY = pop_retry_topic(TOPIC, GROUP)

REVIVE = "rmq_sys_REVIVE_LOG_DefaultCluster"


def test_what_is_not_acknowledged_comes_again_from_the_retry_topic_and_not_before_its_time(
    make: Make,
) -> None:
    world = make(popFromRetryProbability=0)
    world.send(3)
    kept, *_, lost = world.pop(invisible_time=10_000)
    world.ack(kept)
    world.wait(9_900)
    assert world.pop() == []
    world.wait(5_000)
    again = world.pop()
    assert sorted(bodies(again)) == [b"m1", b"m2"]
    for got in again:
        assert got.record.topic == TOPIC
        assert got.topic == RETRY
        assert got.record.reconsume_times == 1
        assert got.record.property_map()["1ST_POP_TIME"] == str(lost.handle.pop_time)
        assert got.record.property_map()["ORIGIN_GROUP"] == GROUP
        world.ack(got)
    world.wait(60_000)
    assert world.pop() == []


def test_every_revival_counts_one_more_delivery(make: Make) -> None:
    world = make(popFromRetryProbability=0)
    world.send()
    times = []
    for _ in range(4):
        (got,) = world.pop(invisible_time=3000)
        times.append(got.record.reconsume_times)
        world.wait(8_000)
    assert times == [0, 1, 2, 3]
    (config,) = [world.broker.topics.require(RETRY)]
    assert (config.read_queue_nums, config.perm) == (1, 6)
    assert world.broker.topics.get(pop_retry_topic(RETRY, GROUP)) is None


def test_an_acknowledgement_after_the_time_is_over_counts_until_the_message_is_given_again(
    make: Make,
) -> None:
    world = make()
    world.send()
    (got,) = world.pop(invisible_time=3000)
    world.wait(3_500)
    world.ack(got)
    world.wait(30_000)
    assert world.pop() == []


@pytest.mark.parametrize("kill", [False, True])
def test_acknowledged_stays_acknowledged_and_open_stays_open_over_a_restart(make: Make, kill: bool) -> None:
    world = make()
    world.send(6)
    popped = world.pop(invisible_time=10_000)
    for got in popped[:3]:
        world.ack(got)
    world.save()
    world.restart(kill=kill)
    assert world.pop() == []
    world.wait(15_000)
    assert sorted(bodies(world.pop())) == sorted(bodies(popped[3:]))


def test_revival_goes_on_where_it_was(make: Make) -> None:
    world = make(reviveQueueNum=1)
    world.send()
    world.pop(invisible_time=3_000)
    world.wait(10_000)
    assert world.broker.offsets.get(REVIVE_GROUP, REVIVE, 0) == 0
    world.restart()
    world.wait(10_000)
    assert world.store.max_offset(RETRY, 0) == 1


def test_a_kill_before_the_offsets_were_saved_repeats_and_loses_nothing(make: Make) -> None:
    world = make()
    world.save()
    world.send(2)
    world.pop(invisible_time=5_000)
    world.wait(8_000)
    world.restart(kill=True)
    world.wait(20_000)
    assert {body for _ in range(4) for body in bodies(world.pop())} == {b"m0", b"m1"}


def test_check_points_of_a_topic_or_group_that_is_gone_are_passed(make: Make) -> None:
    world = make()
    world.send()
    world.pop(invisible_time=3_000)
    world.pop(invisible_time=3_000, consumer_group="H")
    world.broker.groups.delete(GROUP, world.now)
    world.wait(10_000)
    assert world.store.max_offset(RETRY, 0) == 0
    assert world.store.max_offset(pop_retry_topic(TOPIC, "H"), 0) == 1
    assert not any(world.broker.reviver.behind_ms(queue_id, world.now) for queue_id in range(8))


def test_revive_queues_are_used_in_turn(make: Make) -> None:
    world = make(reviveQueueNum=3)
    assert world.broker.topics.require(REVIVE).read_queue_nums == 3
    world.send(6)
    assert {got.handle.revive_queue_id for _ in range(6) for got in world.pop(max_msg_nums=1)} == {0, 1, 2}


@pytest.mark.parametrize(
    "properties",
    [
        {"TAGS": "ck", "TIMER_ENQUEUE_MS": "1", "TIMER_DELIVER_MS": "9" * 5000},
        {"TAGS": "ack", "TIMER_ENQUEUE_MS": "1", "TIMER_DELIVER_MS": "9" * 5000},
    ],
)
def test_records_of_strangers_in_the_revive_topic_stop_no_revival(
    make: Make, properties: dict[str, str]
) -> None:
    world = make(reviveQueueNum=1)
    world.send()
    world.pop(invisible_time=5_000)
    host = bytes(8)
    forged = PendingMessage(
        REVIVE, 0, 0, 0, world.now, host, host, 0, 0, b"{}", encode_properties(properties)
    )
    world.store.append(forged, world.now)
    world.wait(20_000)
    assert bodies(world.pop()) == [b"m0"]
