"""Queues and offsets that options of a read stand for, in a cluster that tells what it has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from orbitmq.spark.errors import BadOption, DataLost
from orbitmq.spark.read.options import ReadOptions
from orbitmq.spark.read.planning import Queue
from orbitmq.spark.read.positions import LATEST
from orbitmq.spark.read.selecting import first_offsets, last_offsets, ranges_of_batch, selected_queues

Q0 = Queue("orders", "broker-a", 0, "h:1")
Q1 = Queue("orders", "broker-a", 1, "h:1")
OTHER = Queue("payments", "broker-a", 0, "h:1")
BOUNDS = {Q0: (10, 20), Q1: (0, 30)}


class Known:
    """A cluster of two topics; `at` is the offset of each queue at any time."""

    def __init__(self, **at: int | None) -> None:
        self.topics = {"orders": [Q0, Q1], "payments": [OTHER], "empty": None}
        self.at = at
        self.asked: list[tuple[Mapping[Queue, int], str]] = []

    def topics_that_match(self, pattern: str) -> list[str]:
        return [topic for topic in self.topics if topic.startswith(pattern.removesuffix(".*"))]

    def queues_of(self, topic: str) -> list[Queue] | None:
        return self.topics.get(topic)

    def readable_queues(self, topics: Iterable[str]) -> list[Queue]:
        return [queue for topic in topics for queue in self.topics[topic] or ()]

    def bounds(self, queues: Iterable[Queue]) -> dict[Queue, tuple[int, int]]:
        return {queue: BOUNDS[queue] for queue in queues}

    def offsets_at(self, times_ms: Mapping[Queue, int], group: str) -> dict[Queue, int | None]:
        self.asked.append((times_ms, group))
        return {queue: self.at.get(f"q{queue.queue_id}", 15) for queue in times_ms}


def options(**values: str) -> ReadOptions:
    return ReadOptions.parse({"namesrv": "127.0.0.1:9876", **({"subscribe": "orders"} | values)})


def pattern(text: str) -> ReadOptions:
    return ReadOptions.parse({"namesrv": "127.0.0.1:9876", "subscribePattern": text})


def ranges(cluster: Any, **values: str) -> list[tuple[int, int, int]]:
    found = ranges_of_batch(cluster, [Q0, Q1], options(**values))
    return [(one.queue.queue_id, one.from_queue_offset, one.to_queue_offset) for one in found]


def test_a_pattern_takes_every_topic_that_has_queues() -> None:
    known: Any = Known()
    assert selected_queues(known, pattern("orders.*")) == [Q0, Q1]
    assert selected_queues(known, pattern(".*")) == [Q0, Q1, OTHER]
    with pytest.raises(BadOption, match="'nothing' matches no topic"):
        selected_queues(known, pattern("nothing"))


def test_named_topics_have_all_their_queues_and_assign_takes_some() -> None:
    known: Any = Known()
    assert selected_queues(known, options()) == [Q0, Q1]
    given = ReadOptions.parse({"namesrv": "127.0.0.1:9876", "assign": '{"orders":["broker-a|1"]}'})
    assert selected_queues(known, given) == [Q1]


def test_a_batch_reads_from_the_first_to_the_last_message() -> None:
    known = Known()
    assert ranges(known) == [(0, 10, 20), (1, 0, 30)]
    assert known.asked == []


def test_offsets_of_each_queue_begin_and_end_a_batch() -> None:
    given = '{"orders":{"broker-a|0":12,"broker-a|1":-2}}'
    until = '{"orders":{"broker-a|0":-1,"broker-a|1":5}}'
    assert ranges(Known(), startingOffsets=given, endingOffsets=until) == [(0, 12, 20), (1, 0, 5)]


def test_offsets_that_are_gone_are_lost_data() -> None:
    with pytest.raises(DataLost, match="begins at offset 3, but only 10 and later are left"):
        ranges(Known(), startingOffsets='{"orders":{"broker-a|0":3,"broker-a|1":0}}')


def test_a_time_is_asked_of_every_queue_for_the_group_that_reads() -> None:
    known = Known(q0=12, q1=20)
    assert ranges(known, startingTimestamp="1700000000000", groupId="g") == [(0, 12, 20), (1, 20, 30)]
    assert known.asked == [({Q0: 1_700_000_000_000, Q1: 1_700_000_000_000}, "g")]


def test_a_time_behind_the_last_message_is_an_error_that_names_the_option_and_the_queue() -> None:
    known: Any = Known(q1=None)
    for values, name in (
        ({"startingTimestamp": "1700000000000"}, "startingTimestamp"),
        (
            {"startingOffsetsByTimestamp": '{"orders":{"broker-a|0":1,"broker-a|1":1}}'},
            "startingOffsetsByTimestamp",
        ),
    ):
        with pytest.raises(BadOption, match=rf"^{name}: orders broker-a\|1 has no message stored"):
            first_offsets(known, BOUNDS, options(**values))


def test_with_the_strategy_latest_such_a_queue_begins_at_its_end() -> None:
    known: Any = Known(q1=None)
    given = options(startingTimestamp="1700000000000", startingOffsetsByTimestampStrategy="latest")
    assert first_offsets(known, BOUNDS, given) == {Q0: 15, Q1: LATEST}


def test_an_end_behind_the_last_message_is_the_end() -> None:
    known: Any = Known(q1=None)
    assert last_offsets(known, BOUNDS, options(endingTimestamp="1700000000000")) == {Q0: 15, Q1: LATEST}
