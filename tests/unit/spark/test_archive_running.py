"""What the archive does when topics are not there, or not there yet."""

from __future__ import annotations

import pytest

pytest.importorskip("pyarrow")

from orbitmq.spark.errors import BadOption
from orbitmq.spark.jobs.archive.running import (
    ArchiveOptions,
    TopicAway,
    _hopeless,
    _plan,
    _queues,
)
from orbitmq.spark.lake.state import HeldRange, LakeState, Manifest
from orbitmq.spark.lake.storage import LakeLocation
from orbitmq.spark.planning import Queue

LAKE = LakeLocation("lake")


class Known:
    """A cluster that knows some topics."""

    def __init__(self, **topics: int) -> None:
        self._topics = topics

    def queues_of(self, topic: str) -> list[Queue] | None:
        count = self._topics.get(topic)
        return None if count is None else [Queue(topic, "broker-a", n, "127.0.0.1:1") for n in range(count)]

    def topics_that_match(self, pattern: str) -> list[str]:
        return [topic for topic in sorted(self._topics) if topic.startswith(pattern.rstrip(".*"))]

    def bounds(self, queues: list[Queue]) -> dict[Queue, tuple[int, int]]:
        return dict.fromkeys(queues, (0, 10))


def test_a_topic_that_never_was_is_an_error_and_one_that_was_is_waited_for() -> None:
    options = ArchiveOptions(LAKE, ("orders",))
    with pytest.raises(BadOption, match="orders does not exist"):
        _queues(options, set(), Known())  # type: ignore[arg-type]
    with pytest.raises(TopicAway):
        _queues(options, {"orders"}, Known())  # type: ignore[arg-type]
    with pytest.raises(TopicAway):
        _queues(options, set(), Known(orders=0))  # type: ignore[arg-type]
    assert len(_queues(options, set(), Known(orders=3))) == 3  # type: ignore[arg-type]


def test_a_pattern_takes_what_there_is() -> None:
    options = ArchiveOptions(LAKE, pattern="or.*")
    with pytest.raises(BadOption, match="no topic matches"):
        _queues(options, {"pays"}, Known(pays=1))  # type: ignore[arg-type]
    with pytest.raises(TopicAway):
        _queues(options, {"orders"}, Known(pays=1))  # type: ignore[arg-type]
    found = _queues(options, {"orders"}, Known(origins=2))  # type: ignore[arg-type]
    assert {one.topic for one in found} == {"origins"}


def test_what_the_lake_holds_was_there() -> None:
    state = LakeState().after(Manifest(1, "append", "r", 0, (HeldRange("orders", "broker-a|0", 0, 4, 4),)))
    options = ArchiveOptions(LAKE, ("orders",))
    with pytest.raises(TopicAway):
        _plan(options, state, Known())  # type: ignore[arg-type]
    ranges, _ = _plan(options, state, Known(orders=2))  # type: ignore[arg-type]
    assert [(one.from_queue_offset, one.to_queue_offset) for one in ranges] == [(4, 10), (0, 10)]


def test_errors_that_a_second_try_would_only_meet_again() -> None:
    assert _hopeless("pyspark.errors: orbitmq.spark.errors.DataLost: offsets 3 to 7 are gone")
    assert _hopeless("OSError: [Errno 28] No space left on device")
    assert not _hopeless("orbitmq.net.errors.ConnectFailed: cannot connect")
