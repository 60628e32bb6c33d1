from __future__ import annotations

from orbitmq.client.consumer.stats import TopicStats


def test_rates_are_those_since_the_oldest_slot() -> None:
    stats = TopicStats()
    stats.consume_ok = 100
    stats.remember(10_000)
    stats.consume_ok, stats.consume_failed, stats.consume_ms = 300, 100, 3000.0
    stats.pulls, stats.pulled, stats.pull_ms = 10, 400, 50.0
    status = stats.status(30_000)
    assert (status.consume_ok_tps, status.consume_failed_tps, status.consume_failed_msgs) == (10.0, 5.0, 100)
    assert (status.consume_rt, status.pull_rt, status.pull_tps) == (10.0, 5.0, 20.0)


def test_only_the_last_minute_counts() -> None:
    stats = TopicStats()
    for slot in range(10):
        stats.consume_ok += 10
        stats.remember(slot * 10_000)
    assert stats.status(90_000).consume_ok_tps == 1.0


def test_nothing_yet() -> None:
    assert TopicStats().status(0).consume_ok_tps == 0.0
