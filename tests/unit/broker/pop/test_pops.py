"""Popping, acknowledging and revival, on a real store and a clock that the test moves."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from orbitmq.protocol.bodies.topic import TopicConfig
from orbitmq.protocol.handles.pop import pop_retry_topic
from orbitmq.protocol.requests.group import DeleteSubscriptiongroup
from orbitmq.protocol.requests.topic import DeleteTopicInBroker
from tests.kit.pop import GROUP, NOW, TOPIC, PopWorld, bodies
from tests.kit.store import full_disk

Make = Callable[..., PopWorld]
RETRY = pop_retry_topic(TOPIC, GROUP)
REVIVE = "rmq_sys_REVIVE_LOG_DefaultCluster"


def test_a_pop_takes_from_all_queues_and_nobody_else_gets_the_same(make: Make) -> None:
    world = make()
    sent = [body for queue_id in range(4) for body in world.send(3, queue_id)]
    first, second = world.pop(max_msg_nums=5), world.pop()
    assert sorted(bodies(first + second)) == sorted(sent)
    assert len(first) == 5
    assert world.pop() == []


def test_what_is_acknowledged_never_comes_again(make: Make) -> None:
    world = make()
    world.send(4)
    for got in world.pop(invisible_time=5000):
        world.ack(got)
    world.wait(60_000)
    assert world.pop() == []
    assert world.broker.reviver.figures.copies == 0
    assert world.broker.in_flight.by_group == {}


def test_an_acknowledgement_that_still_waits_is_not_overtaken_by_a_late_one(make: Make) -> None:
    world = make(1, reviveQueueNum=1, enablePopBufferMerge=False)
    settings = world.broker.settings
    world.send(2)
    (kept,) = world.pop(max_msg_nums=1, invisible_time=2_000)
    (late,) = world.pop(max_msg_nums=1, invisible_time=4_000)
    world.wait(1_500)
    settings.timer_stop_enqueue = settings.timer_stop_dequeue = True
    world.ack(kept)
    world.wait(4_000)
    world.ack(late)
    world.wait(1_000)
    settings.timer_stop_enqueue = settings.timer_stop_dequeue = False
    world.wait(10_000)
    assert world.pop() == []


def test_a_message_hidden_for_longer_comes_when_the_new_time_is_over(make: Make) -> None:
    world = make()
    world.send(2)
    first, second = world.pop(invisible_time=5_000)
    world.wait(2_000)
    hidden = world.hide(first, 30_000)
    world.ack(second)
    assert hidden.handle.pop_time == world.now
    world.wait(29_000)
    assert world.pop() == []
    world.wait(5_000)
    assert bodies(world.pop()) == [first.body]


def test_two_changes_within_a_millisecond_do_not_acknowledge_each_other(make: Make) -> None:
    world = make(1)
    world.send(1)
    (got,) = world.pop(invisible_time=5_000)
    hidden = world.hide(world.hide(got, 6_000), 7_000)
    assert hidden.handle.pop_time == world.now + 2
    world.wait(12_000)
    assert bodies(world.pop()) == [b"m0"]


def test_the_new_handle_acknowledges_and_the_old_one_does_not(make: Make) -> None:
    world = make()
    world.send(2)
    first, second = world.pop(invisible_time=5_000)
    new_first, _ = world.hide(first, 20_000), world.hide(second, 20_000)
    world.ack(new_first)
    world.ack(second)
    world.wait(40_000)
    assert bodies(world.pop()) == [second.body]


def test_new_groups_begin_as_they_ask(make: Make) -> None:
    world = make(1)
    world.send(3)
    assert len(world.pop(consumer_group="oldest", init_mode=0)) == 3
    assert len(world.pop(consumer_group="newest", init_mode=1)) == 3


def test_a_group_that_asks_for_the_newest_gets_the_last_where_memory_does_not_count(make: Make) -> None:
    world = make(1, initPopOffsetByCheckMsgInMem=False)
    world.send(3)
    assert bodies(world.pop(init_mode=1)) == [b"m2"]
    assert world.pop(consumer_group="other", init_mode=1, queue_id=0) != []


def test_tags_that_are_not_wanted_are_passed_for_good(make: Make) -> None:
    world = make(1)
    world.send(3, tag="TagB")
    world.send(1, tag="TagA")
    world.send(2, tag="TagB")
    assert bodies(world.pop(exp="TagA", exp_type="TAG")) == [b"m3"]
    assert world.pop(exp="TagA", exp_type="TAG") == []
    assert world.broker.offsets.get(GROUP, TOPIC, 0) == 6


def test_a_pop_of_one_queue_takes_of_that_queue(make: Make) -> None:
    world = make()
    world.send(1, 0)
    world.send(1, 3)
    assert bodies(world.pop(queue_id=3)) == [b"m1"]


def test_a_reset_sends_the_next_pop_elsewhere(make: Make) -> None:
    world = make(1)
    world.send(4)
    world.pop()
    world.broker.offsets.reset(GROUP, TOPIC, 0, 2, world.now)
    assert bodies(world.pop()) == [b"m2", b"m3"]
    world.pop()
    assert world.broker.offsets.get(GROUP, TOPIC, 0) == 4


def test_about_a_share_of_the_pops_reads_the_retry_topic_first(make: Make) -> None:
    world = make(1, popFromRetryProbability=20)
    world.broker.topics.ensure(RETRY, 1, NOW)
    world.broker.topics.note_saved()
    first = 0
    for _ in range(200):
        world.send(1)
        world.send(1, topic=RETRY)
        (got,) = world.pop(max_msg_nums=1)
        first += got.topic == RETRY
        world.pop()
    assert 20 <= first <= 60


def test_the_other_form_of_retry_topics(make: Make) -> None:
    world = make(1, enableRetryTopicV2=True)
    world.send(1)
    world.pop(invisible_time=1000)
    world.wait(5_000)
    name = pop_retry_topic(TOPIC, GROUP, v2=True)
    assert world.store.max_offset(name, 0) == 1
    got = [got for _ in range(20) for got in world.pop()]
    assert [(one.topic, one.handle.topic_type) for one in got] == [(name, 2)]


@pytest.mark.parametrize("reads", [True, False])
def test_retry_topics_of_the_first_form_are_read_beside_the_second(make: Make, reads: bool) -> None:
    world = make(1)
    world.send(1)
    world.pop(invisible_time=1000)
    world.wait(5_000)
    world.broker.settings.enable_retry_topic_v2 = True
    world.broker.settings.retrieve_message_from_pop_retry_topic_v1 = reads
    assert bool([got for _ in range(50) for got in world.pop()]) is reads


def test_retry_topics_with_as_many_queues_as_their_topic(make: Make) -> None:
    world = make(useSeparateRetryQueue=True)
    world.send(1, 3)
    world.pop(invisible_time=1000)
    world.wait(5_000)
    assert world.broker.topics.require(RETRY).read_queue_nums == 4
    assert world.store.max_offset(RETRY, 3) == 1


def test_retried_messages_under_the_name_of_their_retry_topic(make: Make) -> None:
    world = make(popResponseReturnActualRetryTopic=True)
    world.send(1)
    world.pop(invisible_time=1000)
    world.wait(5_000)
    (got,) = world.pop()
    assert got.record.topic == RETRY
    world.ack(got)
    world.wait(60_000)
    assert world.pop() == []


def test_a_queue_of_which_too_much_is_in_flight_gives_nothing_more(make: Make) -> None:
    world = make(1, enablePopMessageThreshold=True, popInflightMessageThreshold=3)
    world.send(8)
    popped = world.pop(max_msg_nums=4)
    assert world.pop() == []
    assert world.broker.in_flight.of(TOPIC, GROUP) == 4
    for got in popped:
        world.ack(got)
    assert len(world.pop()) == 4


@pytest.mark.parametrize(("ascending", "order"), [(True, [2, 1, 0]), (False, [0, 1, 2])])
def test_topics_with_priorities_give_the_highest_first(make: Make, ascending: bool, order: list[int]) -> None:
    world = make(3, priorityOrderAsc=ascending)
    config = TopicConfig(TOPIC, 3, 3, 6, attributes={"message.type": "PRIORITY"})
    world.broker.topics.put(config, NOW)
    for queue_id in (1, 0, 2):
        world.send(2, queue_id)
    popped = [got.record.queue_id for _ in range(6) for got in world.pop(max_msg_nums=1)]
    assert popped == [queue_id for queue_id in order for _ in range(2)]


def test_a_message_goes_to_the_queue_of_its_priority(make: Make) -> None:
    world = make(3)

    def sent_to(**properties: str) -> int:
        text = "".join(f"{name}\x01{value}\x02" for name, value in {"UNIQ_KEY": "AB", **properties}.items())
        return int(world.real.send(topic=TOPIC, queue_id=1, properties=text).queue_id)

    queues = [sent_to(_SYS_MSG_PRIORITY_=priority) for priority in ("0", "2", "9", "-1", "high", "9" * 30)]
    assert queues == [0, 2, 2, 1, 1, 1]
    assert sent_to(_SYS_MSG_PRIORITY_="2", __SHARDINGKEY="k") == 1
    assert "_SYS_MSG_PRIORITY_" not in world.real.stored(TOPIC, 1, 3).property_map()


def test_retries_of_topics_with_priorities_come_first_as_often_as_is_said(make: Make) -> None:
    world = make(1, popFromRetryProbability=0, popFromRetryProbabilityForPriority=100)
    config = TopicConfig(TOPIC, 1, 1, 6, attributes={"message.type": "PRIORITY"})
    world.broker.topics.put(config, NOW)
    world.send(2)
    world.pop(max_msg_nums=1, invisible_time=1000)
    world.wait(5_000)
    assert bodies(world.pop()) == [b"m0", b"m1"]


def test_under_sync_flush_a_pop_waits_for_its_check_point_and_an_ack_for_its_record(make: Make) -> None:
    world = make(flushDiskType="SYNC_FLUSH")
    world.send(2)
    (first, _) = world.pop()
    assert world.store.durable_offset == world.store.max_physical
    world.ack(first)
    assert world.store.durable_offset == world.store.max_physical


def test_under_sync_flush_acknowledgements_count_that_are_not_on_the_disk_again(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a start, a slow disk keeps what the timers have just delivered from being seen."""
    world = make(flushDiskType="SYNC_FLUSH")
    world.send(2)
    for got in world.pop(invisible_time=2000):
        world.ack(got)
    world.wait(1_500)  # the check point has come, the acknowledgements have not
    world.now += 10_000
    world.restart()
    monkeypatch.setattr(world.store.flushing, "flush_now", lambda: None)
    for _ in range(10):
        world.now += 100
        world.step()
    assert world.store.durable_offset < world.store.max_physical
    monkeypatch.undo()
    world.wait(5_000)
    assert world.pop() == []


def test_a_queue_on_the_disk_is_read_though_others_always_have_something_in_memory(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make(2)
    (old,) = world.send(queue_id=1)
    on_disk = {world.store.max_physical}
    world.send(100, queue_id=0)
    world.restart()  # what was stored since the start counts as in memory
    resident_to, read_cold = world.store.structures.reader.resident_to, world.store.reader.read_cold
    monkeypatch.setattr(
        world.store.structures.reader,
        "resident_to",
        lambda offset, size: offset if offset < max(on_disk, default=0) else resident_to(offset, size),
    )

    def read(offset: int, size: int, queue: object | None = None) -> None:
        read_cold(offset, size, queue)
        on_disk.clear()

    monkeypatch.setattr(world.store.reader, "read_cold", read)
    popped = [body for _ in range(50) for body in bodies(world.pop(max_msg_nums=1))]
    assert len(popped) == 50
    assert old in popped


def test_a_store_that_takes_nothing_gives_nothing(make: Make) -> None:
    world = make()
    world.send(2)
    with full_disk(world.store, world.now):
        assert world.pop() == []
    assert len(world.pop()) == 2


@pytest.mark.parametrize("what", ["topic", "group"])
def test_with_a_topic_or_group_goes_what_is_known_of_its_pops(make: Make, what: str) -> None:
    world = make(1, enablePopBufferMerge=True)
    world.send(4)
    world.pop(order=True, max_msg_nums=1)
    world.broker.order.clear((TOPIC, GROUP, 0))
    world.pop(max_msg_nums=1, invisible_time=60_000)
    world.pop(order=True, max_msg_nums=1)
    if what == "topic":
        world.real.handle(DeleteTopicInBroker(TOPIC), world.now)
    else:
        world.real.handle(DeleteSubscriptiongroup(GROUP, True), world.now)
    assert json.loads(world.broker.order.snapshot()())["table"] == {}
    assert world.broker.in_flight.by_group == {}
    assert (world.broker.points.kept, world.broker.points.steps) == (0, 0)


def test_a_peek_hides_nothing(make: Make) -> None:
    world = make()
    world.send(3)
    for _ in range(2):
        popped = world.broker.pops.peek(GROUP, TOPIC, -1, 2, 0)
        assert (popped.count, popped.rest) == (2, 1)
    assert len(world.pop()) == 3
