"""The page of availability: chart and figures follow from the findings, by sums worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from docs import availability


def trial(gaps: list[float], kind: str = "kill master") -> availability.Trial:
    spread = {"median": 0.0, "mean": 0.0, "longest": 0.0}
    row: dict[str, Any] = {
        "fault": kind, "times": len(gaps), "heldSeconds": spread, "producerWithoutServiceSeconds": spread,
        "consumerWithoutServiceSeconds": spread,
    }  # fmt: skip
    each = [{"fault": kind, "producer": gap, "consumer": 0.1} for gap in gaps]
    shape = {"mode": "sync-master", "flush": "sync", "failover": False}
    return availability.Trial({"cluster": shape, "rows": [row], "each": each})


def test_the_year_follows_from_the_rate_and_the_gaps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twelve kills a year, of which every second one is an outage of 4 s."""
    monkeypatch.setattr(availability, "timed", lambda: [trial([4.0, 0.5])])
    producer, consumer = availability.nines().splitlines()[2:]
    assert "| 6 | 24 s | 60.9 days | 4.0 s | 99.99992 % | 6.1 |" in producer
    assert "none seen" in consumer


def test_a_fault_without_a_stated_rate_counts_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(availability, "timed", lambda: [trial([9.0], availability.TWO)])
    assert "none seen" in availability.nines().splitlines()[2]


def test_the_chart_is_that_of_the_findings() -> None:
    assert availability.CHART.read_text() == availability.draw()


def test_no_trial_of_the_page_has_lost_a_message() -> None:
    """The page says so."""
    for one in availability.trials():
        assert one.found["lost"] == 0
        assert not one.found["broken"]
