"""Spark's predicates, as Spark hands them over."""

import datetime
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from orbitmq.spark.read.options import ReadOptions
from orbitmq.spark.read.planning import OffsetRange, Queue
from orbitmq.spark.read.pushdown import Pushed

QUEUES = [Queue("t", broker, n, "h:1") for broker in ("a", "b") for n in range(3)]
NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
NOON_MS = int(NOON.timestamp() * 1000)
TICK = datetime.timedelta(microseconds=1)


def pushed(*filters: Filter) -> tuple[Pushed, list[Filter]]:
    taken = Pushed()
    return taken, list(taken.push(filters))


@pytest.mark.parametrize(
    ("one", "left"),
    [
        (EqualTo(("queueId",), 1), ["a|1", "b|1"]),
        (In(("queueId",), (0, 2, None)), ["a|0", "a|2", "b|0", "b|2"]),
        (Not(EqualTo(("brokerName",), "a")), ["b|0", "b|1", "b|2"]),
        (GreaterThan(("queueId",), 1), ["a|2", "b|2"]),
        (StringStartsWith(("brokerName",), "a"), ["a|0", "a|1", "a|2"]),
        (EqualTo(("topic",), "other"), []),
        (IsNull(("queueId",)), []),
        (IsNotNull(("queueId",)), [queue.key for queue in QUEUES]),
    ],
)
def test_queues_are_chosen_and_nobody_looks_again(one: Filter, left: list[str]) -> None:
    taken, kept = pushed(one)
    assert kept == []
    assert [queue.key for queue in taken.queues(QUEUES)] == left


@pytest.mark.parametrize(
    "one",
    [
        IsNotNull(("keys",)),
        EqualTo(("keys",), "k"),
        EqualTo(("properties", "a"), "1"),
        Not(In(("queueId",), (1, None))),
        EqualTo(("queueId",), None),
        Not(EqualTo(("queueOffset",), 3)),
    ],
)
def test_what_is_not_understood_is_sparks(one: Filter) -> None:
    taken, kept = pushed(one)
    assert kept == [one]
    assert taken.queues(QUEUES) == QUEUES
    assert ranges(taken) == [(0, 100)]


class Clock:
    """A cluster whose message n was stored n ms after noon."""

    def offsets_at(self, times_ms: dict[Queue, int], group: str) -> dict[Queue, int | None]:
        return {
            queue: None if ms - NOON_MS >= 100 else max(0, ms - NOON_MS) for queue, ms in times_ms.items()
        }


def ranges(taken: Pushed) -> list[tuple[int, int]]:
    cluster: Any = Clock()
    found = taken.ranges(cluster, [OffsetRange(QUEUES[0], 0, 100)], "g")
    return [(work.from_queue_offset, work.to_queue_offset) for work in found]


@pytest.mark.parametrize(
    ("filters", "left"),
    [
        ([GreaterThanOrEqual(("queueOffset",), 10), LessThan(("queueOffset",), 20)], [(10, 20)]),
        ([GreaterThan(("queueOffset",), 10), LessThanOrEqual(("queueOffset",), 20)], [(11, 21)]),
        ([EqualTo(("queueOffset",), 7)], [(7, 8)]),
        ([EqualTo(("queueOffset",), 700)], []),
    ],
)
def test_offsets_are_exact(filters: list[Filter], left: list[tuple[int, int]]) -> None:
    taken, kept = pushed(*filters)
    assert kept == []
    assert ranges(taken) == left


def at(ms: float) -> datetime.datetime:
    return NOON + datetime.timedelta(milliseconds=ms)


@pytest.mark.parametrize(
    ("one", "left"),
    [
        (In(("queueOffset",), (5, 9)), [(5, 10)]),
        (In(("queueOffset",), (None,)), []),
        (GreaterThanOrEqual(("storeTimestamp",), at(10)), [(10, 100)]),
        (GreaterThan(("storeTimestamp",), at(10)), [(11, 100)]),
        (GreaterThan(("storeTimestamp",), at(10) - TICK), [(10, 100)]),
        (LessThan(("storeTimestamp",), at(20) + TICK), [(0, 21)]),
        (LessThanOrEqual(("storeTimestamp",), at(20)), [(0, 21)]),
        (EqualTo(("storeTimestamp",), at(20)), [(20, 21)]),
        (In(("storeTimestamp",), (at(20), at(30))), [(20, 31)]),
        (GreaterThan(("storeTimestamp",), at(1000)), []),
        (LessThan(("storeTimestamp",), at(1000)), [(0, 100)]),
    ],
)
def test_times_and_lists_of_offsets_narrow_and_spark_looks_again(
    one: Filter, left: list[tuple[int, int]]
) -> None:
    taken, kept = pushed(one)
    assert kept == [one]
    assert ranges(taken) == left


def test_tags() -> None:
    options = ReadOptions.parse({"subscribe": "t", "tags": "A || B"})
    taken, kept = pushed(one := In(("tags",), ("B", "C", None)))
    assert kept == [one]
    left = taken.options(options)
    assert left is not None
    assert left.subscription == "B"
    assert pushed(EqualTo(("tags",), "C"))[0].options(options) is None
    for odd in ("A || B", " A", "*"):
        assert pushed(EqualTo(("tags",), odd))[0].options(options) == options
