import pytest

from orbitmq.spark.sink.pacing import Pace


def test_a_pace_is_kept_and_a_pause_is_not_made_up_for() -> None:
    now = [0.0]
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    pace = Pace(100, clock=lambda: now[0], sleep=sleep)
    assert pace.most_at_once == 10
    pace.wait(10)
    assert slept == []
    pace.wait(10)
    assert slept == pytest.approx([0.1])
    now[0] += 60
    pace.wait(10)
    pace.wait(10)
    assert slept == pytest.approx([0.1, 0.1])


def test_without_a_limit_nobody_waits() -> None:
    pace = Pace(None, sleep=lambda seconds: pytest.fail("it slept"))
    assert pace.most_at_once is None
    pace.wait(1_000_000)


def test_a_slow_pace_sends_one_message_at_a_time() -> None:
    assert Pace(0.5).most_at_once == 1
