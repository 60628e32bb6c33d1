"""Figures of lag, from samples worked out by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

pytest.importorskip("duckdb")

import pyarrow as pa

from orbitmq.spark.jobs.figures import Row, Samples
from orbitmq.spark.jobs.lag import SAMPLE_SCHEMA
from orbitmq.spark.jobs.lag_figures import current_lag, over_time

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
GAP_S = 30

CASES: dict[str, list[tuple[int, int, int, int, int, float | None]]] = {
    "queues": [
        (0, 0, 0, 100, 100, None),  # nothing waits
        (0, 1, 0, 100, 40, 12.5),  # 60 wait
        (0, 2, 50, 100, 20, 3.0),  # 30 were removed before they were read
        (0, 3, 0, 100, 90, None),  # nobody can tell how long
        (0, 4, 0, 100, 99, -2.0),  # the broker's clock is ahead
        (0, 5, 0, 100, 120, None),  # the topic was made anew
    ],
    # 10 s: 20 come and 50 are done, over both queues. Then nobody looks for a minute. Then 10 s of the same.
    "catches up": [
        (0, 0, 0, 500, 100, 9), (0, 1, 0, 500, 100, 1),
        (10, 0, 0, 510, 140, 9), (10, 1, 0, 510, 110, 1),
        (70, 0, 0, 900, 600, 9), (70, 1, 0, 900, 600, 1),
        (80, 0, 0, 910, 640, 9), (80, 1, 0, 910, 610, 4),
    ],
    "grows": [(0, 0, 0, 100, 0, 1), (10, 0, 0, 200, 10, 1)],
    "is none": [(0, 0, 0, 100, 100, None)],
    "was set back": [(0, 0, 0, 100, 90, 1), (10, 0, 0, 100, 0, 1), (20, 0, 0, 100, 10, 1)],
}  # fmt: skip
"""By a name, which is the topic's: second, queue, smallest, end, reached, seconds the oldest waits."""


def table(topic: str | None = None, queue_id: int | None = None) -> pa.Table:
    made = []
    for name, rows in CASES.items():
        for second, queue, low, high, reached, waits in rows:
            at = START + timedelta(seconds=second)
            oldest = None if waits is None else at - timedelta(seconds=waits)
            row = (at, "g", name, "b", queue, low, high, reached, reached + 1, oldest)
            if topic in (None, name) and queue_id in (None, queue):
                made.append(dict(zip(SAMPLE_SCHEMA.names, row, strict=True)))
    return pa.Table.from_pylist(made, SAMPLE_SCHEMA)


@pytest.fixture(scope="module")
def told() -> dict[str, Row]:
    """Facts of each case: that they do not mix is part of the test."""
    with Samples(table()) as samples:
        return {row["topic"]: row for row in current_lag(samples, GAP_S)}


def test_lag_waiting_and_lost_of_a_queue() -> None:
    wanted = [(0, 0, 0), (60, 0, 12.5), (50, 30, 3), (10, 0, None), (1, 0, 0), (0, 0, 0)]
    for queue_id, told in enumerate(wanted):
        with Samples(table("queues", queue_id)) as one:
            (row,) = over_time(one)
        assert (row["lag"], row["lost"], row["waitingSeconds"]) == told
    with Samples(table("queues")) as all_of_them:
        (row,) = over_time(all_of_them)
    assert (row["lag"], row["lost"], row["waitingSeconds"], row["inFlight"]) == (121, 30, 12.5, 6)


def test_rates_and_when_the_lag_is_gone(told: dict[str, Any]) -> None:
    row = told["catches up"]
    assert (row["inPerSecond"], row["outPerSecond"]) == (2, 5)
    assert (row["lag"], row["lagMost"], row["waitingMostSeconds"]) == (270 + 300, 800, 9)
    assert row["at"] == START + timedelta(seconds=80)
    assert row["catchUpSeconds"] == pytest.approx(570 / 3)


def test_a_lag_that_grows_is_never_caught_up(told: dict[str, Any]) -> None:
    row = told["grows"]
    assert (row["inPerSecond"], row["outPerSecond"], row["catchUpSeconds"]) == (10, 1, None)
    row = told["is none"]
    assert (row["lag"], row["catchUpSeconds"], row["inPerSecond"]) == (0, 0, None)


def test_offsets_that_are_set_back_count_for_nothing(told: dict[str, Any]) -> None:
    assert (told["was set back"]["inPerSecond"], told["was set back"]["outPerSecond"]) == (0, 0.5)


def test_those_that_lag_most_come_first(told: dict[str, Any]) -> None:
    assert list(told) == ["catches up", "grows", "queues", "was set back", "is none"]
