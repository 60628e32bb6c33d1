"""Ordered pops: one batch of a queue at a time, and nothing overtakes."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from orbitmq.broker.pop.order import NotInWork, OrderTable
from orbitmq.handling.dirty_tables import DirtyTables
from orbitmq.protocol.errors import Refused
from orbitmq.protocol.requests.pop import Notification
from tests.kit.pop import GROUP, NOW, TOPIC, PopWorld, bodies

Make = Callable[..., PopWorld]
KEY = (TOPIC, GROUP, 0)


@pytest.fixture
def make(make: Make) -> Make:
    """Brokers with one queue unless a test asks for another number."""
    return lambda queues=1, **properties: make(queues, **properties)


def test_a_queue_is_blocked_until_its_batch_is_acknowledged(make: Make) -> None:
    world = make()
    world.send(5)
    batch = world.pop(order=True, max_msg_nums=3)
    assert bodies(batch) == [b"m0", b"m1", b"m2"]
    assert {got.handle.revive_queue_id for got in batch} == {999}
    for got in batch:
        assert world.pop(order=True) == []
        world.ack(got)
    assert world.broker.offsets.get(GROUP, TOPIC, 0) == 3
    assert bodies(world.pop(order=True)) == [b"m3", b"m4"]


def test_what_was_not_acknowledged_comes_first_when_the_time_is_over(make: Make) -> None:
    world = make()
    world.send(4)
    first, *_ = world.pop(order=True, max_msg_nums=2, invisible_time=5_000)
    world.ack(first)
    world.wait(4_900)
    assert world.pop(order=True) == []
    world.wait(200)
    call = world.ask_pop(order=True)
    assert bodies(world.got(call)) == [b"m1", b"m2", b"m3"]
    assert call.reply.order_count_info == "0 qo0%1 1;0 0 0"


def test_the_count_of_a_queue_is_that_of_its_least_consumed_message(make: Make) -> None:
    world = make()
    world.send(2)
    infos = []
    for _ in range(3):
        infos.append(world.ask_pop(order=True, invisible_time=1000).reply.order_count_info)
        world.wait(1_100)
    assert infos == ["0 0 0", "0 qo0%0 1;0 qo0%1 1;0 0 1", "0 qo0%0 2;0 qo0%1 2;0 0 2"]


def test_the_same_attempt_gets_its_batch_again(make: Make) -> None:
    world = make()
    world.send(4)
    batch = world.pop(order=True, max_msg_nums=2, attempt_id="a1")
    assert bodies(world.pop(order=True, max_msg_nums=2, attempt_id="a1")) == bodies(batch)
    assert world.pop(order=True, max_msg_nums=2, attempt_id="a2") == []


def test_an_acknowledgement_of_an_earlier_pop_changes_nothing(make: Make) -> None:
    world = make()
    world.send(2)
    (old, _) = world.pop(order=True, invisible_time=1000)
    world.wait(1_100)
    world.pop(order=True, invisible_time=60_000)
    world.ack(old)
    assert world.broker.offsets.get(GROUP, TOPIC, 0) == 0


def test_a_message_that_the_batch_does_not_hold_is_refused(make: Make) -> None:
    world = make()
    world.send(3)
    first, second = world.pop(order=True, max_msg_nums=2)
    second.record.queue_offset = 2
    with pytest.raises(Refused) as refused:
        world.ack(second)
    assert refused.value.code == 13
    world.ack(first)
    first.record.queue_offset = 0
    world.ack(first)  # below what is committed: it counts already


def test_a_changed_time_blocks_for_longer_or_shorter(make: Make) -> None:
    world = make()
    world.send(1)
    (got,) = world.pop(order=True, invisible_time=2_000)
    hidden = world.hide(got, 10_000)
    assert (hidden.handle.pop_time, hidden.handle.invisible_ms) == (got.handle.pop_time, 10_000)
    world.wait(9_000)
    assert world.pop(order=True) == []
    world.wait(1_100)
    (got,) = world.pop(order=True, invisible_time=60_000)
    world.hide(got, 1_000)
    world.wait(1_100)
    assert bodies(world.pop(order=True)) == [b"m0"]


@pytest.mark.parametrize("kill", [False, True])
def test_a_queue_stays_blocked_over_a_restart(make: Make, kill: bool) -> None:
    world = make()
    world.send(4)
    first, _ = world.pop(order=True, max_msg_nums=2, invisible_time=30_000)
    world.ack(first)
    world.save()
    world.restart(kill=kill)
    assert world.pop(order=True) == []
    world.wait(30_000)
    assert bodies(world.pop(order=True)) == [b"m1", b"m2", b"m3"]


def test_other_groups_and_queues_are_not_blocked(make: Make) -> None:
    world = make(2)
    world.send(2, 0)
    world.pop(order=True)
    world.send(1, 1)
    assert bodies(world.pop(order=True)) == [b"m2"]
    assert len(world.pop(order=True, consumer_group="other")) == 3


def test_a_held_pop_gets_on_when_the_last_message_is_acknowledged(make: Make) -> None:
    world = make()
    world.send(3)
    (got,) = world.pop(order=True, max_msg_nums=1)
    held = world.ask_pop(order=True, poll_time=15_000)
    assert held.reply is None
    world.ack(got)
    assert bodies(world.got(held)) == [b"m1", b"m2"]


@pytest.mark.parametrize("wakes", [True, False])
def test_a_held_pop_gets_on_when_the_time_is_over(make: Make, wakes: bool) -> None:
    world = make(enableNotifyAfterPopOrderLockRelease=wakes)
    world.send(1)
    world.pop(order=True, invisible_time=2_000)
    held = world.ask_pop(order=True, poll_time=15_000)
    world.wait(2_200)
    assert (held.reply is not None) is wakes


def test_a_reset_frees_the_queue(make: Make) -> None:
    world = make()
    world.send(3)
    world.pop(order=True)
    world.broker.offsets.reset(GROUP, TOPIC, 0, 1, world.now)
    assert bodies(world.pop(order=True)) == [b"m1", b"m2"]


def test_a_blocked_queue_counts_as_empty_for_notifications(make: Make) -> None:
    world = make()
    world.send(2)
    world.pop(order=True, max_msg_nums=1)

    def has_message(order: bool) -> bool:
        request = Notification(GROUP, TOPIC, -1, 0, world.now, order)
        return bool(world.real.handle(request, world.now).has_msg)

    assert not has_message(True)
    assert has_message(False)


def test_the_file_is_the_one_apache_writes(make: Make) -> None:
    table = OrderTable(DirtyTables())
    table.begin(("TF", "GF", 0), "att1", [0, 1], 30_000, 1_795_255_711_145)
    text = table.snapshot()()
    assert "".join(text.split()) == (
        '{"orderedConsumptionLevel":"QUEUE","table":{"TF@GF":{0:{"a":"att1","cm":0,"i":30000,'
        '"l":1795255711145,"o":[0,1],"popTime":1795255711145}}}}'
    )
    again = OrderTable(DirtyTables())
    again.load_text(text)
    assert again.is_blocked(("TF", "GF", 0), None, 0, 1_795_255_711_145 + 29_999)
    assert not again.is_blocked(("TF", "GF", 0), None, 0, 1_795_255_711_145 + 30_000)
    assert again.snapshot()() == text
    assert again.drain_released(1_795_255_711_145 + 30_000) == [("TF", "GF", 0)]


def test_batches_of_queues_that_are_gone_are_forgotten() -> None:
    table = OrderTable(DirtyTables())
    table.begin(KEY, None, [3], 1000, NOW)
    table.begin(("gone", GROUP, 0), None, [3], 1000, NOW)
    table.expire(NOW, lambda topic, group, queue_id: topic != "gone")
    assert list(table._batches) == [KEY]
    table.expire(NOW + 25 * 3600_000, lambda topic, group, queue_id: True)
    assert json.loads(table.snapshot()())["table"] == {}


def test_gaps_of_a_filter_are_stepped_over() -> None:
    table = OrderTable(DirtyTables())
    table.begin(KEY, None, [5, 9], 1000, NOW)
    with pytest.raises(NotInWork):
        table.acknowledge(KEY, 6, NOW, NOW)
    assert table.acknowledge(KEY, 5, NOW, NOW) == 9
    assert table.acknowledge(KEY, 9, NOW, NOW) == 10
