"""From the wheel to the topics: the order of deliveries, their slices, and what the store refuses."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from orbitmq.store import Appended, PendingMessage, PutStatus
from tests.kit.store import flip
from tests.kit.timer_world import NOW, Open, TimerWorld


@pytest.fixture
def world(world_of: Open) -> TimerWorld:
    return world_of()


def test_messages_come_in_the_order_of_their_times(world: TimerWorld) -> None:
    for body, due in (("c", 2900), ("a", 2100), ("d", 4000), ("b", 2500), ("b2", 2500), ("e", 4001)):
        world.send(body, TIMER_DELIVER_MS=NOW + due)
    world.now = NOW + 10_000
    world.run()
    assert world.bodies() == ["a", "b", "b2", "c", "d", "e"]


def test_a_message_that_comes_while_its_second_is_delivered_takes_its_place(world: TimerWorld) -> None:
    world.send("late", TIMER_DELIVER_MS=NOW + 2900)
    world.send("early", TIMER_DELIVER_MS=NOW + 2100)
    world.run(NOW + 2200)
    assert world.bodies() == ["early"]
    world.send("between", TIMER_DELIVER_MS=NOW + 2500)
    world.run(NOW + 2950)
    assert world.bodies() == ["early", "between", "late"]


def test_delivery_can_be_stopped_and_go_on(world: TimerWorld) -> None:
    world.settings.timer_stop_dequeue = True
    for number in range(5):
        world.send(f"m{number}", TIMER_DELIVER_MS=NOW + 1000 + number * 700)
    world.run(NOW + 20_000, step_ms=1000)
    assert world.bodies() == []
    assert world.timer.read_behind_ms(world.now) == 20_000
    world.settings.timer_stop_dequeue = False
    world.run()
    assert world.bodies() == [f"m{number}" for number in range(5)]
    assert world.timer.read_behind_ms(world.now) < 1000


def test_many_messages_of_one_second_come_in_slices(world: TimerWorld) -> None:
    for number in range(1000):
        world.store.append(world.message(f"{number}", TIMER_DELIVER_MS=NOW + 2001 + number % 7), NOW)
    world.run(NOW + 1000, step_ms=500)
    assert world.timer.pending_by_topic == {"T": 1000}
    world.now = NOW + 3000
    steps = 0
    while len(world.bodies()) < 1000:
        step = world.timer.step(world.now)
        if step.fetch is not None:
            step.fetch()
            world.timer.fetched()
        steps += 1
        assert steps < 50
    assert steps > 5
    assert world.bodies() == [str(n) for n in sorted(range(1000), key=lambda n: (n % 7, n))]


def test_what_was_stored_behind_a_refused_message_comes_once_however_often_that_is_tried(
    world: TimerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    append_many = world.store.append_many
    refused = [4]

    def without_the_first(
        messages: Sequence[PendingMessage], now: int, answers: list[Appended] | None = None
    ) -> list[Appended]:
        answers = [] if answers is None else answers
        for message in messages:
            if message.body == b"first" and refused[0]:
                refused[0] -= 1
                answers.append(Appended(PutStatus.SERVICE_NOT_AVAILABLE))
            else:
                answers += append_many([message], now)
        return answers

    for body in ("first", "second", "third"):
        world.send(body, TIMER_DELAY_MS=1500)
    world.work()
    monkeypatch.setattr(world.store, "append_many", without_the_first)
    world.run(NOW + 3000)
    assert refused == [0]
    assert sorted(world.bodies()) == ["first", "second", "third"]


def test_a_damaged_store_time_stops_no_timer(world: TimerWorld) -> None:
    """No checksum is over it; it says since when a message waits."""
    stored = world.store.append(world.message("damaged", TIMER_DELAY_MS=1500), world.now)
    record = world.store.record_at(stored.physical_offset)
    assert record is not None
    assert int.from_bytes(record[56:64], "big") == world.now
    flip(world.root, stored.physical_offset + 59, record[59], world.store.options.mapped_file_size_commit_log)
    world.send("sound", TIMER_DELAY_MS=1500)
    world.run(world.now + 5000)
    assert "sound" in world.bodies()
