from __future__ import annotations

import time

import pytest

from orbitmq.server.lifecycle import clock
from orbitmq.server.lifecycle.clock import Clock

NOW_NS = 1_700_000_000_000_000_000


def test_a_wall_clock_that_is_set_later_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    steady = [5_000_000_000]
    monkeypatch.setattr(clock.time, "clock_gettime_ns", lambda _: steady[0])
    monkeypatch.setattr(clock.time, "time_ns", lambda: NOW_NS)
    started = Clock()
    assert started.now() == NOW_NS // 1_000_000
    monkeypatch.setattr(clock.time, "time_ns", lambda: NOW_NS + 3_600_000_000_000)
    assert started.now() == NOW_NS // 1_000_000
    steady[0] += 250_000_000
    assert started.now() == NOW_NS // 1_000_000 + 250


def test_it_never_goes_back() -> None:
    real = Clock()
    times = [real.now() for _ in range(1000)]
    assert times == sorted(times)
    assert abs(times[0] - time.time_ns() // 1_000_000) < 30_000
