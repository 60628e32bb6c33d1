"""Delayed messages: what was reported of timers elsewhere."""

from __future__ import annotations

from orbitmq.broker.delay.timer import Timers
from orbitmq.broker.stats.counters import BrokerStats
from orbitmq.handling.dirty_tables import DirtyTables
from tests.kit.timer_world import NOW, TimerWorld


def test_recalled_messages_leave_the_counts_of_those_that_wait(timers: TimerWorld) -> None:
    """apache/rocketmq#10019"""
    ids = [timers.send(f"m{number}", TIMER_DELIVER_MS=NOW + 30_000) for number in range(20)]
    timers.run(NOW + 1_000)
    assert timers.timer.pending_by_topic == {"T": 20}
    for unique_id in ids:
        timers.recall(unique_id, NOW + 30_000)
    timers.run(NOW + 40_000, step_ms=500)
    assert timers.bodies() == []
    assert not any(timers.timer.pending_by_topic.values())
    assert timers.timer.pending_between(timers.now, timers.now + 3600_000) == 0


def test_timers_go_on_though_their_check_point_is_behind_the_end_of_a_log_that_was_cut(
    timers: TimerWorld,
) -> None:
    """apache/rocketmq#7480"""
    timers.send("kept", TIMER_DELIVER_MS=NOW + 5_000)
    timers.run(NOW + 500)
    end = timers.store.max_physical
    for number in range(10):
        timers.send(f"cut {number}", TIMER_DELIVER_MS=NOW + 6_000)
    timers.run(NOW + 1_000)
    timers.flush()  # the mark of the timers is beyond what stays
    assert timers.store.truncation.run(end, timers.now) == end
    stats = BrokerStats("C", timers.now)
    timers.timer = Timers(timers.settings, timers.store, DirtyTables(), stats, timers.now)
    timers.timer.start(["T"])
    timers.send("new", TIMER_DELIVER_MS=NOW + 7_000)
    timers.run(NOW + 20_000, step_ms=500)
    assert timers.bodies() == ["kept", "new"]
