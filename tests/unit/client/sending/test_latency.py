from __future__ import annotations

import pytest

from orbitmq.client.sending.latency import LatencyTable, unavailable_ms


@pytest.mark.parametrize(
    ("latency_ms", "pause_ms"),
    [
        (0, 0),
        (549, 0),
        (550, 2000),
        (1799, 2000),
        (1800, 5000),
        (3000, 6000),
        (5000, 10000),
        (14_999, 10000),
        (15_000, 30000),
    ],
)
def test_the_pause_grows_with_the_latency(latency_ms: int, pause_ms: int) -> None:
    assert unavailable_ms(latency_ms) == pause_ms


def test_a_slow_broker_is_left_alone_for_a_while() -> None:
    table = LatencyTable()
    table.answered("a", 600, 1000)
    assert not table.is_available("a", 2999)
    assert table.is_available("a", 3000)
    assert table.is_available("never heard of", 0)


def test_a_fast_answer_ends_the_pause() -> None:
    table = LatencyTable()
    table.answered("a", 600, 1000)
    table.answered("a", 5, 1100)
    assert table.is_available("a", 1101)


def test_a_failure_counts_as_ten_seconds_and_says_whether_anybody_was_there() -> None:
    table = LatencyTable()
    table.failed("a", 0, reachable=False)
    assert not table.is_available("a", 9_999)
    assert table.is_available("a", 10_000)
    assert not table.is_reachable("a")
    table.failed("a", 0, reachable=True)
    assert table.is_reachable("a")
    table.failed("a", 0, reachable=False)
    table.answered("a", 1, 0)
    assert table.is_reachable("a")
