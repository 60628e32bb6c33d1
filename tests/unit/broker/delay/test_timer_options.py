"""The effect of each option of timers."""

from __future__ import annotations

import pytest

from orbitmq.store.timer.log import TimerLog
from tests.kit.timer_world import NOW, Open


@pytest.mark.parametrize("precision_ms", [100, 500, 1000, 2000])
def test_the_precision_is_the_width_of_a_slot(world_of: Open, precision_ms: int) -> None:
    world = world_of(timer_precision_ms=precision_ms)
    for number, after in enumerate((1450, 2010, 2999, 3000)):
        world.send(f"{number}", TIMER_DELIVER_MS=NOW + after)
    world.run()
    assert world.store.timers is not None
    slots = [time for time, _ in world.store.timers.wheel.between(NOW, NOW + 10_000)]
    assert slots == sorted({(NOW + after - 1) // precision_ms * precision_ms for after in (1450, 2010, 2999)})
    world.run(NOW + 2000, step_ms=10)
    assert world.bodies() == ["0"]
    world.run(NOW + 3000, step_ms=10)
    assert world.bodies() == ["0", "1", "2", "3"]


@pytest.mark.parametrize(("before_ms", "after_ms"), [(1000, 100), (100, 1000), (1000, 700)])
def test_another_precision_loses_nothing_and_makes_nothing_early(
    world_of: Open, before_ms: int, after_ms: int
) -> None:
    world = world_of(timer_precision_ms=before_ms)
    due = [3100, 3150, 4999, 7000, 7001]
    for number, after in enumerate(due):
        world.send(f"{number}", TIMER_DELIVER_MS=NOW + after)
    world.run(NOW + 500)
    world.stop()
    world.settings.timer_precision_ms = world.store_values["timer_precision_ms"] = after_ms
    world.start()
    came: dict[str, int] = {}
    while world.now < NOW + 10_000:
        world.run(world.now + 50)
        for body in world.bodies():
            came.setdefault(body, world.now - NOW)
    assert sorted(came) == [str(n) for n in range(5)]
    for number, after in enumerate(due):
        assert after <= came[str(number)] <= after + 50, number


def test_the_window_decides_how_often_a_message_is_stored_again(world_of: Open) -> None:
    world = world_of(timer_roll_window_slot=20)
    world.send("m", TIMER_DELAY_SEC=70)
    world.run(NOW + 71_000, step_ms=500)
    assert world.bodies() == ["m"]
    assert world.records()[0].property_map()["TIMER_ROLL_TIMES"] == "3"


def test_the_log_is_kept_for_twice_the_window(world_of: Open) -> None:
    world = world_of(file_reserved_time=2)
    world.send("m", TIMER_DELAY_SEC=7200)
    world.run()
    assert world.store.timers is not None
    (slot,) = world.store.timers.wheel.between(NOW, NOW + 7_200_000)
    assert slot[0] <= NOW + 3_600_000


def test_the_longest_delay_is_an_option(world_of: Open) -> None:
    world = world_of(timer_max_delay_sec=10)
    assert world.timer.reroute("T", 0, {"TIMER_DELAY_SEC": "10"}, NOW) is not None
    with pytest.raises(Exception, match="max delay 10000ms"):
        world.timer.reroute("T", 0, {"TIMER_DELAY_SEC": "11"}, NOW)


def test_segments_of_the_timer_log_have_the_size_told(world_of: Open) -> None:
    world = world_of(mapped_file_size_timer_log=52 * 100 + 16)
    world.send("m", TIMER_DELAY_SEC=10)
    world.run()
    (segment,) = (world.root / "timerlog").iterdir()
    assert segment.stat().st_size == 5216


def test_files_are_flushed_in_the_interval_told(world_of: Open) -> None:
    world = world_of(timer_flush_interval_ms=321)
    (task,) = (task for task in world.store.periodic_tasks() if task.name == "flush timers")
    assert (task.interval_ms, task.in_thread) == (321, True)
    world.send("m", TIMER_DELAY_SEC=10)
    world.run()
    world.store.flushing.flush_now()
    world.work()
    assert world.store.timers is not None
    log: TimerLog = world.store.timers.log
    assert log.is_unsynced
    task.run(world.now)
    assert not log.is_unsynced
