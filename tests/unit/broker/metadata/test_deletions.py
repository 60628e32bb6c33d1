"""A topic that is deleted and made again under its name: nothing of the old one acts on the new one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from orbitmq.broker.metadata.deletions import Deletions
from orbitmq.handling.dirty_tables import DirtyTables
from orbitmq.protocol.bodies.heartbeat import ConsumerData, SubscriptionData
from orbitmq.protocol.bodies.topic import TopicConfig
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.requests.pull import SUBSCRIPTION_IN_REQUEST, PullMessage
from orbitmq.protocol.requests.topic import DeleteTopicInBroker
from orbitmq.store.recovery.deleted_topics import LogEnd
from tests.kit.pop import GROUP, NOW, TOPIC, PopWorld, bodies
from tests.kit.real_broker import PEER
from tests.kit.store import read_queue


@pytest.fixture
def world(tmp_path: Path) -> Iterator[PopWorld]:
    world = PopWorld(tmp_path, {"popFromRetryProbability": 0})
    yield world
    world.close()


def make_anew(world: PopWorld, queues: int = 4) -> None:
    world.wait(100)
    world.real.handle(DeleteTopicInBroker(TOPIC), world.now)
    world.wait(100)
    world.broker.topics.put(TopicConfig(TOPIC, queues, queues, 6), world.now)
    world.broker.topics.note_saved()


@pytest.mark.parametrize("restarts", [False, True])
def test_check_points_of_pops_of_a_deleted_topic_have_nothing_come_again(
    world: PopWorld, restarts: bool
) -> None:
    world.send(5)
    assert len(world.pop(invisible_time=10_000)) == 5
    make_anew(world)
    if restarts:
        world.restart()
    new = world.send(5)
    got = world.pop(invisible_time=60_000)
    assert bodies(got) == new
    for one in got:
        world.ack(one)
    world.wait(30_000)
    assert world.pop() == []
    assert world.broker.topics.get(f"%RETRY%{GROUP}_{TOPIC}") is None


def test_pops_of_the_new_topic_count_though_the_clock_was_set_back_since_the_deletion(
    world: PopWorld,
) -> None:
    world.wait(60_000)
    make_anew(world)
    world.now -= 30_000
    new = world.send(5)
    assert bodies(world.pop(invisible_time=10_000)) == new
    world.wait(60_000)
    assert bodies(world.pop()) == new


def test_the_handle_of_a_pop_of_a_deleted_topic_hides_nothing_of_the_new_one(world: PopWorld) -> None:
    world.send()
    (old,) = world.pop(invisible_time=20_000)
    make_anew(world)
    world.send()
    with pytest.raises(Refused) as refused:
        world.hide(old, 5_000)
    assert refused.value.code == ResponseCode.NO_MESSAGE


@pytest.mark.parametrize("restarts", [False, True])
def test_delayed_messages_and_timers_of_a_deleted_topic_do_not_come(world: PopWorld, restarts: bool) -> None:
    def send_delayed(name: str) -> None:
        for number, wish in enumerate(("DELAY\x011\x02", f"TIMER_DELIVER_MS\x01{world.now + 4_000}\x02")):
            text = f"UNIQ_KEY\x01{name}{number}\x02{wish}"
            assert not isinstance(world.real.send(world.now, properties=text, queue_id=0), Exception)

    send_delayed("OLD")
    make_anew(world)
    if restarts:
        world.restart()
    send_delayed("NEW")
    world.wait(6_000)
    while world.broker.delay.deliver_due(world.now):
        pass
    assert sorted(one.unique_id or "" for one in read_queue(world.store, TOPIC)) == ["NEW0", "NEW1"]
    assert world.broker.timer.metrics.pending_by_topic[TOPIC] == 0


def test_what_waits_for_a_queue_that_is_gone_comes_to_another_one(world: PopWorld) -> None:
    for number, wish in enumerate(("DELAY\x011\x02", f"TIMER_DELIVER_MS\x01{world.now + 2_000}\x02")):
        world.real.send(world.now, properties=f"UNIQ_KEY\x01ID{number}\x02{wish}", queue_id=3)
    world.send(queue_id=3)  # the queue is there
    world.broker.topics.put(TopicConfig(TOPIC, 2, 2, 6), world.now)
    world.wait(4_000)
    while world.broker.delay.deliver_due(world.now):
        pass
    assert {one.unique_id for one in read_queue(world.store, TOPIC, 1)} == {"ID0", "ID1"}


def pull(world: PopWorld, offset: int) -> tuple[int, int]:
    request = PullMessage(
        consumer_group=GROUP,
        topic=TOPIC,
        queue_id=0,
        queue_offset=offset,
        max_msg_nums=32,
        sys_flag=SUBSCRIPTION_IN_REQUEST,
        commit_offset=0,
        suspend_timeout_millis=0,
        subscription="*",
        sub_version=0,
    )
    reply = world.real.handle(request, world.now)
    return reply.code, reply.next_begin_offset


@pytest.mark.parametrize("read", [3, 10])
def test_a_running_group_gets_all_of_a_topic_that_is_made_anew(world: PopWorld, read: int) -> None:
    data = ConsumerData(GROUP, subscription_data_set=[SubscriptionData(TOPIC, "*")])
    world.broker.clients.register_consumer(
        data, "client", PEER, world.now, notifies=False, with_subscriptions=True
    )
    world.send(read)
    assert pull(world, 0) == (0, read)
    world.broker.offsets.commit(GROUP, TOPIC, 0, read, world.now)
    make_anew(world)
    world.send(6)
    # It has not heard of it yet: neither where it stands nor what it commits counts.
    world.broker.offsets.commit(GROUP, TOPIC, 0, read, world.now)
    assert world.broker.offsets.get(GROUP, TOPIC, 0) == 0
    assert pull(world, read) == (ResponseCode.PULL_OFFSET_MOVED, 0)
    assert pull(world, 0) == (0, 6)
    assert pull(world, 6)[0] == ResponseCode.PULL_NOT_FOUND


def test_an_offset_beyond_the_end_of_a_topic_that_was_made_anew_begins_at_its_start(world: PopWorld) -> None:
    """The group is not known to run: a restart has come between, or it sends no heartbeats."""
    world.send(10)
    make_anew(world)
    world.restart()
    world.send(6)
    assert pull(world, 10) == (ResponseCode.PULL_OFFSET_MOVED, 0)
    assert pull(world, 6)[0] == ResponseCode.PULL_NOT_FOUND


def test_locks_of_a_deleted_topic_go(world: PopWorld) -> None:
    queues = [(TOPIC, "broker-a", 0), ("Other", "broker-a", 0)]
    world.broker.locks.lock(GROUP, "ann", queues, world.now)
    make_anew(world)
    assert world.broker.locks.lock(GROUP, "bob", queues, world.now) == queues[:1]


def test_deletions_are_forgotten_with_the_log_and_follow_one_that_was_cut() -> None:
    deletions = Deletions(DirtyTables())
    deletions.note("T", LogEnd(500, 400, 7), NOW)
    deletions.note("U", LogEnd(900, 800, 8), NOW)
    assert deletions.is_of_deleted("U", 899)
    assert not deletions.is_of_deleted("U", 900)
    deletions.cut_to(LogEnd(800, 700, 9))
    assert deletions.is_of_deleted("T", 499)
    assert not deletions.is_of_deleted("U", 800), "it was stored behind the new end"
    read = Deletions(DirtyTables())
    read.load_text(deletions.snapshot()())
    assert read.by_topic == deletions.by_topic
    read.keep(lambda by_topic: {topic: one for topic, one in by_topic.items() if topic == "U"})
    assert set(read.by_topic) == {"U"}
