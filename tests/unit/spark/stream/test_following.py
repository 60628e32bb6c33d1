"""A stream while queues, brokers and messages come and go, on a clock that the test sets."""

from __future__ import annotations

from typing import Any

import pytest

from orbitmq.net.errors import ConnectFailed, NetError
from orbitmq.spark.errors import BadOption, DataLost, SparkSourceError
from orbitmq.spark.read.cluster import Reachable
from orbitmq.spark.read.options import ReadOptions
from orbitmq.spark.read.planning import Queue
from orbitmq.spark.stream.discovery import ABSENCE_LIMIT_MS, PATTERN_MS
from orbitmq.spark.stream.following import GONE_MS, Follower


class World:
    """A cluster as a table: topic -> `broker|queueId` -> (low, high)."""

    def __init__(self, **topics: dict[str, tuple[int, int]]) -> None:
        self.topics = topics
        self.registered: set[str] = {"a", "b"}
        self.silent: set[str] = set()
        self.slaves: set[str] = set()
        self.no_name_server = False
        self.now_ms = 1e6
        self.pauses: list[float] = []
        self.at_pause: Any = None

    # what a Cluster answers

    def queues_of(self, topic: str) -> list[Queue] | None:
        if self.no_name_server:
            raise SparkSourceError("no name server answers")
        queues = self.topics.get(topic)
        if queues is None:
            return None
        names = [key.split("|") for key in queues]
        return [
            Queue(topic, broker, int(number), broker, broker not in self.slaves)
            for broker, number in names
            if broker in self.registered
        ]

    def readable_queues(self, topics: Any) -> list[Queue]:
        return [queue for topic in topics for queue in self.queues_of(topic) or ()]

    def topics_that_match(self, pattern: str) -> list[str]:
        return sorted(topic for topic in self.topics if topic.startswith(pattern.rstrip(".*")))

    def broker_names(self) -> set[str]:
        return self.registered

    def bounds(self, queues: list[Queue]) -> dict[Queue, tuple[int, int]]:
        return {queue: self.topics[queue.topic][queue.key] for queue in queues}

    def bounds_within_reach(self, queues: list[Queue]) -> Reachable:
        away: dict[str, NetError] = {name: ConnectFailed(name, "refused") for name in self.silent}
        return Reachable(self.bounds([queue for queue in queues if queue.broker_name not in away]), away)

    # time

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now_ms += seconds * 1000
        if self.at_pause is not None:
            self.at_pause()

    def follower(self, **options: str) -> Follower:
        given = {"subscribe": "t", "startingOffsets": "earliest"} | options
        given = {key: value for key, value in given.items() if value}
        cluster: Any = self
        parsed = ReadOptions.parse(given, streaming=True)
        return Follower(parsed, cluster, clock_ms=lambda: self.now_ms, sleep=self.sleep)


def work(follower: Follower, start: Any, end: Any) -> list[tuple[str, int, int]]:
    return [
        (part.queue.key, part.from_queue_offset, part.to_queue_offset) for part in follower.ranges(start, end)
    ]


def test_a_new_query_begins_where_it_is_told_and_stays_with_it() -> None:
    world = World(t={"a|10": (2, 9), "a|9": (0, 5)})
    earliest, latest = world.follower(), world.follower(startingOffsets="latest")
    assert earliest.initial() == {"t": {"a|9": 0, "a|10": 2}}
    assert list(earliest.initial()["t"]) == ["a|9", "a|10"]  # Spark compares offsets as text
    assert latest.initial() == {"t": {"a|9": 5, "a|10": 9}}
    world.topics["t"]["a|9"] = (0, 50)
    assert latest.initial() == {"t": {"a|9": 5, "a|10": 9}}


def test_offsets_that_the_queue_does_not_have() -> None:
    world = World(t={"a|0": (5, 9)})
    for wrong in (4, 10):
        with pytest.raises(DataLost, match=f"begin at {wrong}, but the queue has offsets 5 to 9"):
            world.follower(startingOffsets=f'{{"t":{{"a|0":{wrong}}}}}').initial()
    lenient = world.follower(startingOffsets='{"t":{"0":4}}', failOnDataLoss="false")
    assert lenient.initial() == {"t": {"a|0": 5}}


def test_batches_follow_each_other_without_a_gap() -> None:
    world = World(t={"a|0": (0, 100), "a|1": (0, 10)})
    follower = world.follower()
    start = follower.initial()
    read = []
    while (end := follower.latest(start, 22, at_once=False)) != start:
        read += work(follower, start, end)
        start = end
    assert start == {"t": {"a|0": 100, "a|1": 10}} == follower.ends()
    for queue, high in (("a|0", 100), ("a|1", 10)):
        mine = [part[1:] for part in read if part[0] == queue]
        assert [low for low, _ in mine] == [0, *(end for _, end in mine[:-1])]
        assert mine[-1][1] == high


def test_brokers_are_not_asked_all_the_time_while_nothing_comes() -> None:
    world = World(t={"a|0": (0, 1)})
    follower = world.follower()
    start = follower.latest(follower.initial(), None, at_once=False)
    assert world.pauses == []
    for _ in range(5):
        follower.latest(start, None, at_once=False)
    assert sum(world.pauses) == pytest.approx(0.4)


def test_available_now_ends_where_it_aimed_and_does_not_wait_for_more() -> None:
    world = World(t={"a|0": (0, 10)})
    follower = world.follower(minOffsetsPerTrigger="1000", maxTriggerDelay="1h")
    follower.aim()
    start = follower.initial()
    world.topics["t"] |= {"a|0": (0, 20), "a|1": (0, 5)}
    end = follower.latest(start, 6, at_once=False)
    assert end == {"t": {"a|0": 6}}
    end = follower.latest(end, 6, at_once=False)
    assert end == {"t": {"a|0": 10}}
    assert follower.latest(end, 6, at_once=False) == end


def test_waits_for_enough_unless_spark_wants_all() -> None:
    world = World(t={"a|0": (0, 10)})
    follower = world.follower(minOffsetsPerTrigger="10", maxTriggerDelay="1m")
    start = follower.latest(follower.initial(), None, at_once=False)
    world.topics["t"]["a|0"] = (0, 15)
    assert follower.latest(start, None, at_once=False) == start
    assert follower.latest(start, None, at_once=True) == {"t": {"a|0": 15}}


def test_a_new_queue_is_read_from_its_beginning() -> None:
    world = World(t={"a|0": (0, 3)})
    follower = world.follower(startingOffsets="latest")
    start = follower.initial()
    world.topics["t"] |= {"a|1": (0, 0), "b|0": (0, 4)}
    end = follower.latest(start, None, at_once=False)
    assert end == {"t": {"a|0": 3, "b|0": 4}}  # an empty queue is no news
    assert work(follower, start, end) == [("b|0", 0, 4)]


def test_a_new_queue_whose_beginning_is_gone_is_data_loss() -> None:
    world = World(t={"a|0": (0, 3)})
    strict, lenient = world.follower(), world.follower(failOnDataLoss="false")
    start = strict.initial()
    world.topics["t"]["a|1"] = (2, 4)
    end = strict.latest(start, None, at_once=False)
    with pytest.raises(DataLost, match=r"a\|1: offsets 0 to 3 are to be read, but the queue has 2 to 3"):
        strict.ranges(start, end)
    assert work(lenient, start, end) == [("a|0", 0, 3), ("a|1", 2, 4)]


def test_topics_that_match_later() -> None:
    world = World(other={"a|0": (0, 1)})
    follower = world.follower(subscribe="", subscribePattern="t.*")
    start = follower.initial()
    assert start == {}
    assert follower.latest(start, None, at_once=False) == {}
    world.topics["t2"] = {"a|0": (0, 2)}
    assert follower.latest(start, None, at_once=False) == {}
    world.now_ms += PATTERN_MS
    assert follower.latest(start, None, at_once=False) == {"t2": {"a|0": 2}}


def test_only_assigned_queues() -> None:
    world = World(t={"a|0": (0, 3), "a|1": (0, 4), "b|1": (0, 5)})
    follower = world.follower(subscribe="", assign='{"t":[1]}')
    assert follower.initial() == {"t": {"a|1": 0, "b|1": 0}}
    end = follower.latest(follower.initial(), None, at_once=False)
    assert end == {"t": {"a|1": 4, "b|1": 5}}


@pytest.mark.parametrize("how", ["unregistered", "silent"])
def test_a_broker_that_is_away_holds_back_its_own_queues_only(how: str) -> None:
    world = World(t={"a|0": (0, 3), "b|0": (0, 4)})
    follower = world.follower()
    start = follower.latest(follower.initial(), None, at_once=False)
    world.topics["t"] |= {"a|0": (0, 7), "b|0": (0, 9)}
    if how == "silent":
        world.silent = {"b"}
    else:
        world.registered = {"a"}
    end = follower.latest(start, None, at_once=False)
    assert end == {"t": {"a|0": 7, "b|0": 4}}
    world.now_ms += 10 * GONE_MS
    assert follower.latest(end, None, at_once=False) == end
    world.registered, world.silent = {"a", "b"}, set()
    assert follower.latest(end, None, at_once=False) == {"t": {"a|0": 7, "b|0": 9}}


def test_a_queue_that_its_broker_no_longer_has_is_data_loss() -> None:
    world = World(t={"a|0": (0, 3), "a|1": (0, 4)})
    strict, lenient = world.follower(), world.follower(failOnDataLoss="false")
    start = strict.latest(strict.initial(), None, at_once=False)
    del world.topics["t"]["a|1"]
    assert strict.latest(start, None, at_once=False) == start  # a route may be behind
    assert lenient.latest(start, None, at_once=False) == start
    world.now_ms += GONE_MS
    with pytest.raises(DataLost, match=r"t a\|1 no longer exists or may no longer be read"):
        strict.latest(start, None, at_once=False)
    assert lenient.latest(start, None, at_once=False) == start


def test_a_topic_made_anew_is_data_loss() -> None:
    world = World(t={"a|0": (0, 30)})
    strict, lenient = world.follower(), world.follower(failOnDataLoss="false")
    start = strict.latest(strict.initial(), None, at_once=False)
    world.topics["t"]["a|0"] = (0, 5)
    with pytest.raises(DataLost, match="ends at offset 5, but the stream has read up to 30"):
        strict.latest(start, None, at_once=False)
    end = lenient.latest(start, None, at_once=False)
    assert end == {"t": {"a|0": 0}}
    assert work(lenient, start, end) == []
    world.topics["t"]["a|0"] = (0, 6)
    assert work(lenient, end, lenient.latest(end, None, at_once=False)) == [("a|0", 0, 6)]
    assert lenient.lost == {("t", "a|0"): 0}


def test_a_topic_made_anew_is_counted_by_what_was_seen_and_not_read(caplog: pytest.LogCaptureFixture) -> None:
    world = World(t={"a|0": (0, 30), "a|1": (0, 8)})
    follower = world.follower(failOnDataLoss="false")
    end = follower.latest(follower.initial(), 19, at_once=False)
    read = end["t"]["a|0"] + end["t"]["a|1"]
    assert read < 38
    world.topics["t"] |= {"a|0": (0, 5), "a|1": (0, 0)}
    assert follower.latest(end, None, at_once=False) == {"t": {"a|0": 0, "a|1": 0}}
    assert sum(follower.lost.values()) == 38 - read
    assert f"begins at its start; {38 - read} messages known to be lost so far" in caplog.text


def test_a_queue_whose_broker_lost_its_end_is_not_read_again() -> None:
    world = World(t={"a|0": (10, 30)})
    follower = world.follower(failOnDataLoss="false")
    start = follower.latest(follower.initial(), None, at_once=False)
    world.topics["t"]["a|0"] = (10, 25)
    assert follower.latest(start, None, at_once=False) == {"t": {"a|0": 25}}


def test_a_slave_that_is_behind_is_no_data_loss() -> None:
    world = World(t={"a|0": (0, 30)})
    follower = world.follower()
    start = follower.latest(follower.initial(), None, at_once=False)
    world.topics["t"]["a|0"] = (0, 5)
    world.slaves = {"a"}
    assert follower.latest(start, None, at_once=False) == start


def test_retention_took_what_was_planned() -> None:
    world = World(t={"a|0": (0, 30)})
    strict, lenient = world.follower(), world.follower(failOnDataLoss="false")
    start, end = {"t": {"a|0": 10}}, {"t": {"a|0": 20}}
    world.topics["t"]["a|0"] = (15, 30)
    with pytest.raises(DataLost, match="offsets 10 to 19 are to be read, but the queue has 15 to 29"):
        strict.ranges(start, end)
    for _ in range(2):
        assert work(lenient, start, end) == [("a|0", 15, 20)]
    assert lenient.lost == {("t", "a|0"): 5}


def test_a_planned_batch_waits_for_its_broker() -> None:
    world = World(t={"a|0": (0, 30)})
    follower = world.follower()
    world.silent = {"a"}

    def back_after_ten() -> None:
        if len(world.pauses) == 10:
            world.silent = set()

    world.at_pause = back_after_ten
    assert work(follower, {"t": {"a|0": 10}}, {"t": {"a|0": 20}}) == [("a|0", 10, 20)]
    assert len(world.pauses) == 10


def test_a_planned_batch_does_not_wait_for_ever() -> None:
    world = World(t={"a|0": (0, 30)})
    follower = world.follower()
    world.registered = {"b"}
    began = world.now_ms
    with pytest.raises(SparkSourceError, match="broker a is away"):
        follower.ranges({"t": {"a|0": 10}}, {"t": {"a|0": 20}})
    assert world.now_ms - began > ABSENCE_LIMIT_MS


def test_a_planned_batch_of_a_queue_that_is_gone() -> None:
    world = World(t={"a|0": (0, 30), "a|1": (0, 3)})
    strict, lenient = world.follower(), world.follower(failOnDataLoss="false")
    start, end = {"t": {"a|0": 10, "a|1": 1}}, {"t": {"a|0": 20, "a|1": 3}}
    del world.topics["t"]["a|1"]
    with pytest.raises(
        DataLost, match=r"a\|1: offsets 1 to 2 are to be read, but the queue no longer exists"
    ):
        strict.ranges(start, end)
    assert work(lenient, start, end) == [("a|0", 10, 20)]


def test_nobody_answers_for_a_while() -> None:
    world = World(t={"a|0": (0, 3)})
    follower = world.follower()
    start = follower.initial()
    world.no_name_server = True

    def back_after_three() -> None:
        world.no_name_server = len(world.pauses) < 3

    world.at_pause = back_after_three
    assert follower.latest(start, None, at_once=False) == {"t": {"a|0": 3}}
    world.no_name_server, world.at_pause = True, None
    with pytest.raises(SparkSourceError, match="no name server answers"):
        follower.latest(start, None, at_once=False)


def test_a_checkpoint_of_other_topics_is_refused() -> None:
    world = World(t={"a|0": (0, 3)}, u={"a|0": (0, 3)})
    with pytest.raises(BadOption, match=r"of another query: it holds offsets of u, and this one reads t"):
        world.follower().latest({"u": {"a|0": 1}}, None, at_once=False)
    with pytest.raises(BadOption, match="of another query"):
        world.follower().ranges({"u": {"a|0": 1}}, {"u": {"a|0": 2}})
    both = world.follower(subscribe="t,u")
    assert both.latest({"u": {"a|0": 1}}, None, at_once=False) == {"t": {"a|0": 3}, "u": {"a|0": 3}}


def test_a_checkpoint_of_another_cluster_is_refused() -> None:
    world = World(t={"a|0": (0, 3)})
    with pytest.raises(BadOption, match="of another cluster: its brokers are z, and here they are a"):
        world.follower().latest({"t": {"z|0": 1}}, None, at_once=False)
    with pytest.raises(BadOption, match="of another cluster"):
        world.follower().ranges({"t": {"z|0": 1}}, {"t": {"z|0": 2}})
