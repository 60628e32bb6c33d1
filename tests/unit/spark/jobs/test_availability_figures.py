"""Availability: its definitions against cases worked out by hand."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import pytest

pytest.importorskip("duckdb")

import pyarrow as pa

from orbitmq.spark.jobs.availability import LOG_SCHEMA
from orbitmq.spark.jobs.availability_figures import figures_of, over_time
from orbitmq.spark.jobs.figures import Row, Samples

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
GAP_S = 30

UP, DOWN = True, False
Tries = list[tuple[float, bool]]
CASES: dict[str, Tries] = {
    # Down from 20 to 40 and from 60 to 70, of 100 seconds.
    "two outages": [
        (0, UP), (10, UP), (20, DOWN), (30, DOWN), (40, UP), (50, UP), (60, DOWN), (70, UP), (100, UP),
    ],
    "well": [(n, UP) for n in range(100)],
    # Down when the job stopped at 20, up when it began again at 1000: nobody knows what was in between.
    "stopped while down": [(0, UP), (10, UP), (20, DOWN), (1000, UP), (1010, UP)],
    "stopped later": [(0, UP), (10, DOWN), (20, DOWN), (1000, UP)],
    "a gap among failures": [(0, DOWN), (10, DOWN), (1000, DOWN), (1010, UP), (1020, UP)],
    "lasting": [(0, UP), (10, DOWN), (20, DOWN), (30, DOWN)],
    "down throughout": [(0, DOWN), (10, DOWN)],
    "tried once": [(0, DOWN)],
}  # fmt: skip
"""By a name, which is the topic's: seconds, and whether it worked."""


def observed(cases: dict[str, Tries]) -> pa.Table:
    rows = [
        (START + timedelta(seconds=at), "b", "h:1", topic, "send", ok, 2.0, None if ok else f"at {at:g}")
        for topic, tries in cases.items()
        for at, ok in tries
    ]
    return pa.Table.from_pylist([dict(zip(LOG_SCHEMA.names, row, strict=True)) for row in rows], LOG_SCHEMA)


@pytest.fixture(scope="module")
def found() -> tuple[list[Row], list[Row]]:
    """The figures and outages of all cases: that they do not mix is part of the test."""
    with Samples(observed(CASES)) as seen:
        return figures_of(seen, GAP_S)


@pytest.fixture
def figures(found: tuple[list[Row], list[Row]]) -> dict[str, Row]:
    return {row["topic"]: row for row in found[0]}


@pytest.fixture
def outages_of(found: tuple[list[Row], list[Row]]) -> dict[str, list[Row]]:
    return {name: [row for row in found[1] if row["topic"] == name] for name in CASES}


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def test_two_outages_worked_out_by_hand(figures: dict[str, Row], outages_of: dict[str, list[Row]]) -> None:
    found = figures["two outages"]
    assert (found["observedSeconds"], found["downSeconds"], found["outages"]) == (100, 30, 2)
    assert found["timeAvailability"] == pytest.approx(0.7)
    assert found["timeNines"] == pytest.approx(-math.log10(0.3))
    assert (found["mtbfSeconds"], found["mttrSeconds"]) == (35, 15)
    assert found["timeAvailability"] == pytest.approx(35 / (35 + 15)), "A = MTBF / (MTBF + MTTR)"
    assert (found["observations"], found["failures"]) == (9, 3)
    assert found["requestAvailability"] == pytest.approx(6 / 9)
    assert found["requestNines"] == pytest.approx(-math.log10(3 / 9))
    assert (found["up"], found["since"], found["until"]) == (True, START, after(100))
    told = outages_of["two outages"]
    assert [
        (r["began"], r["ended"], r["seconds"], r["failures"], r["ongoing"], r["error"]) for r in told
    ] == [
        (after(20), after(40), 20, 2, False, "at 20"),
        (after(60), after(70), 10, 1, False, "at 60"),
    ]


def test_without_a_failure_there_is_no_number_of_nines_but_a_least_one(
    figures: dict[str, Row], outages_of: dict[str, list[Row]]
) -> None:
    found = figures["well"]
    assert found["timeAvailability"] == 1
    assert (found["timeNines"], found["requestNines"]) == (None, None)
    assert (found["mtbfSeconds"], found["mttrSeconds"], found["outages"]) == (None, None, 0)
    # Wilson: z²/(n + z²) with z = 1.645 may fail.
    assert found["requestNinesAtLeast"] == pytest.approx(1.579, abs=0.001)
    assert outages_of["well"] == []


def test_a_time_without_observations_is_neither_up_nor_down(
    figures: dict[str, Row], outages_of: dict[str, list[Row]]
) -> None:
    found = figures["stopped while down"]
    assert (found["observedSeconds"], found["downSeconds"], found["outages"]) == (30, 0, 1)
    (told,) = outages_of["stopped later"]
    assert (told["ongoing"], told["ended"], told["seconds"]) == (True, None, 10)
    # A gap in the middle of failures makes two outages of them.
    found = figures["a gap among failures"]
    assert (found["outages"], found["downSeconds"], found["observedSeconds"]) == (2, 20, 30)


def test_an_outage_that_lasts(figures: dict[str, Row], outages_of: dict[str, list[Row]]) -> None:
    found = figures["lasting"]
    assert (found["up"], found["downSeconds"], found["observedSeconds"]) == (False, 20, 30)
    assert (found["mtbfSeconds"], found["mttrSeconds"]) == (10, 20)
    (told,) = outages_of["lasting"]
    assert (told["ongoing"], told["ended"], told["seconds"]) == (True, None, 20)


def test_down_from_the_first_to_the_last(figures: dict[str, Row]) -> None:
    found = figures["down throughout"]
    assert (found["timeAvailability"], found["timeNines"]) == (0, 0)
    assert (found["mtbfSeconds"], found["mttrSeconds"]) == (0, 10)
    once = figures["tried once"]
    assert (once["timeAvailability"], once["observedSeconds"], once["outages"]) == (None, 0, 1)


def test_over_time_a_broker_has_a_point_for_each_stretch() -> None:
    with Samples(observed({"two outages": CASES["two outages"]})) as seen:
        rows = over_time(seen, points=2)
    # Stretches of 50 s begin at whole multiples of that: at 3:20, 4:10 and 5:00. START is at 4:05.
    assert [row["good"] for row in rows] == pytest.approx([100, 60, 200 / 3])
    assert {row["broker"] for row in rows} == {"b"}
