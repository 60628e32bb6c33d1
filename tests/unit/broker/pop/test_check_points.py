"""Check points in memory: nothing is stored for what is acknowledged soon, and nothing is lost by a crash."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orbitmq.broker.pop import check_points as pop_points
from orbitmq.protocol.names import TIMER_TOPIC
from tests.kit.pop import GROUP, TOPIC, PopWorld, bodies
from tests.kit.store import full_disk

Make = Callable[..., PopWorld]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[PopWorld] = []

    def new(queues: int = 1, **properties: object) -> PopWorld:
        made.append(PopWorld(tmp_path / "store", {"enablePopBufferMerge": True, **properties}, queues))
        return made[-1]

    yield new
    for world in made:
        world.close()


def stored(world: PopWorld) -> int:
    return world.store.max_offset(TIMER_TOPIC, 0)


def test_nothing_is_stored_for_what_is_acknowledged_soon(make: Make) -> None:
    world = make()
    world.send(3)
    popped = world.pop(invisible_time=60_000)
    assert world.pop() == []
    assert world.broker.offsets.get(GROUP, TOPIC, 0) == 0
    for got in popped:
        world.ack(got)
    assert world.broker.offsets.get(GROUP, TOPIC, 0) == 3
    assert (stored(world), world.broker.points.kept, world.broker.points.steps) == (0, 0, 0)
    world.wait(90_000)
    assert world.pop() == []


def test_without_the_option_everything_is_stored_at_once(make: Make) -> None:
    world = make(enablePopBufferMerge=False)
    world.send(1)
    world.pop(invisible_time=60_000)
    assert (stored(world), world.broker.offsets.get(GROUP, TOPIC, 0)) == (1, 1)


@pytest.mark.parametrize(("batch", "records"), [(True, 2), (False, 3)])
def test_what_stays_open_is_stored_with_the_acknowledgements_that_came(
    make: Make, batch: bool, records: int
) -> None:
    world = make(popCkStayBufferTime=5_000, enablePopBatchAck=batch)
    world.send(3)
    first, second, _ = world.pop(invisible_time=30_000)
    world.ack(first)
    world.ack(second)
    world.wait(4_900)
    assert stored(world) == 0
    world.wait(200)
    assert stored(world) == records
    assert world.broker.offsets.get(GROUP, TOPIC, 0) == 3
    world.wait(30_000)
    assert bodies(world.pop()) == [b"m2"]


def test_a_check_point_leaves_memory_before_its_time_is_over(make: Make) -> None:
    world = make(popCkStayBufferTimeOut=3_000)
    world.send(2)
    world.pop(invisible_time=6_000, max_msg_nums=1)
    assert stored(world) == 1  # too short for memory
    world.pop(invisible_time=7_000)
    assert stored(world) == 1
    world.wait(4_100)
    assert stored(world) == 2


def test_the_offset_waits_for_the_oldest_pop(make: Make) -> None:
    world = make()
    world.send(6)
    first, second = world.pop(max_msg_nums=2, invisible_time=60_000)
    third, fourth = world.pop(max_msg_nums=2, invisible_time=60_000)
    world.ack(third)
    world.ack(fourth)
    assert world.broker.offsets.get(GROUP, TOPIC, 0) == 0
    world.ack(first)
    world.ack(second)
    assert world.broker.offsets.get(GROUP, TOPIC, 0) == 4
    assert len(world.pop()) == 2


def test_memory_is_bounded(make: Make) -> None:
    world = make(popCkMaxBufferSize=2)
    world.send(4)
    for _ in range(4):
        world.pop(max_msg_nums=1, invisible_time=60_000)
    assert (world.broker.points.kept, stored(world)) == (2, 2)
    assert world.broker.offsets.get(GROUP, TOPIC, 0) == 0
    assert world.pop() == []


def test_memory_is_bounded_by_queue(make: Make) -> None:
    world = make(popCkOffsetMaxQueueSize=1)
    world.send(3)
    for _ in range(3):
        world.pop(max_msg_nums=1, invisible_time=60_000)
    assert (world.broker.points.kept, stored(world)) == (1, 2)


def test_a_clean_restart_keeps_acknowledgements_that_were_in_memory(make: Make) -> None:
    world = make()
    world.send(3)
    first, *_ = world.pop(invisible_time=30_000)
    world.ack(first)
    world.restart()
    assert world.pop() == []
    world.wait(40_000)
    assert sorted(bodies(world.pop())) == [b"m1", b"m2"]


def test_a_kill_repeats_what_was_in_memory_and_loses_nothing(make: Make) -> None:
    world = make()
    world.send(3)
    first, *_ = world.pop(invisible_time=30_000)
    world.ack(first)
    world.save()
    world.restart(kill=True)
    assert bodies(world.pop()) == [b"m0", b"m1", b"m2"]


def test_what_nobody_wants_is_passed_in_turn(make: Make) -> None:
    world = make()
    world.send(1, tag="TagA")
    world.pop(exp="TagA", exp_type="TAG", invisible_time=60_000)
    world.send(2, tag="TagB")
    assert world.pop(exp="TagA", exp_type="TAG") == []
    assert world.broker.offsets.get(GROUP, TOPIC, 0) == 0
    assert world.broker.points.next_offset(TOPIC, GROUP, 0) == 3


def test_a_message_hidden_for_longer_leaves_memory(make: Make) -> None:
    world = make()
    world.send(2)
    first, second = world.pop(invisible_time=20_000)
    hidden = world.hide(first, 40_000)
    world.ack(second)
    assert (world.broker.points.kept, stored(world)) == (0, 1)
    world.ack(hidden)
    world.wait(60_000)
    assert world.pop() == []


def test_a_store_that_takes_nothing_is_tried_again(make: Make) -> None:
    world = make(popCkStayBufferTime=1_000)
    world.send(1)
    world.pop(invisible_time=30_000)
    with full_disk(world.store, world.now):
        world.wait(3_000)
        assert world.broker.points.kept == 1
    world.wait(2_000)
    assert (world.broker.points.kept, stored(world)) == (0, 1)


def test_a_check_point_for_which_there_was_no_memory_once_is_stored_later(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make()
    world.send(1)
    assert bodies(world.pop(invisible_time=60_000)) == [b"m0"]
    points = world.broker.points

    def no_memory(*_: object) -> None:
        raise MemoryError

    world.now += 30_000
    with monkeypatch.context() as low:
        low.setattr(points, "store", no_memory)
        with pytest.raises(MemoryError):
            points.run(world.now)
    world.wait(60_000)
    assert points.kept == points.steps == 0
    assert bodies(world.pop()) == [b"m0"], "it comes again"


def test_a_pop_that_ends_for_want_of_memory_leaves_nothing_that_others_wait_for(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make()
    world.send(1)

    class Full(deque[object]):
        def append(self, step: object) -> None:
            raise MemoryError

    with monkeypatch.context() as low:
        low.setattr(pop_points, "deque", Full)
        with pytest.raises(MemoryError):
            world.pop()
    world.broker.points.forget_steps((TOPIC, GROUP, 0))  # the full one is the test's
    (got,) = world.pop()
    world.ack(got)
    assert world.broker.points.kept == 0
    assert world.broker.offsets.get(GROUP, TOPIC, 0) == 1
