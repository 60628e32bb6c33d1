"""The archive while topics are not there, or not there yet, and while it follows them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")

from orbitmq.cli.app import run
from orbitmq.spark.errors import BadOption
from orbitmq.spark.jobs.archive import running
from orbitmq.spark.jobs.archive.running import (
    ArchiveOptions,
    TopicAway,
    is_hopeless,
    plan,
    queues_of,
)
from orbitmq.spark.jobs.archive.tasks import Written
from orbitmq.spark.jobs.job import JobSetup
from orbitmq.spark.lake.lake import load
from orbitmq.spark.lake.state import HeldRange, LakeState, Manifest
from orbitmq.spark.lake.storage import LakeLocation
from orbitmq.spark.read.planning import Queue
from orbitmq.sync import Message, Producer
from orbitmq.testing import LocalBroker
from tests.kit.interrupting import interrupted_after

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
        queues_of(options, set(), Known())  # type: ignore[arg-type]
    with pytest.raises(TopicAway):
        queues_of(options, {"orders"}, Known())  # type: ignore[arg-type]
    with pytest.raises(TopicAway):
        queues_of(options, set(), Known(orders=0))  # type: ignore[arg-type]
    assert len(queues_of(options, set(), Known(orders=3))) == 3  # type: ignore[arg-type]


def test_a_pattern_takes_what_there_is() -> None:
    options = ArchiveOptions(LAKE, pattern="or.*")
    with pytest.raises(BadOption, match="no topic matches"):
        queues_of(options, {"pays"}, Known(pays=1))  # type: ignore[arg-type]
    with pytest.raises(TopicAway):
        queues_of(options, {"orders"}, Known(pays=1))  # type: ignore[arg-type]
    found = queues_of(options, {"orders"}, Known(origins=2))  # type: ignore[arg-type]
    assert {one.topic for one in found} == {"origins"}


def test_what_the_lake_holds_was_there() -> None:
    state = LakeState().after(Manifest(1, "append", "r", 0, (HeldRange("orders", "broker-a|0", 0, 4, 4),)))
    options = ArchiveOptions(LAKE, ("orders",))
    with pytest.raises(TopicAway):
        plan(options, state, Known())  # type: ignore[arg-type]
    ranges, _ = plan(options, state, Known(orders=2))  # type: ignore[arg-type]
    assert [(one.from_queue_offset, one.to_queue_offset) for one in ranges] == [(4, 10), (0, 10)]


def test_errors_that_a_second_try_would_only_meet_again() -> None:
    assert is_hopeless("pyspark.errors: orbitmq.spark.errors.DataLost: offsets 3 to 7 are gone")
    assert is_hopeless("OSError: [Errno 28] No space left on device")
    assert not is_hopeless("orbitmq.net.errors.ConnectFailed: cannot connect")


@contextmanager
def _no_session(setup: JobSetup, app_name: str) -> Iterator[None]:
    yield


def _run_here(_: object, act: Callable[[Any], Written], works: Sequence[Any]) -> list[Written]:
    return [act(work) for work in works]


def test_who_follows_takes_what_comes_and_ends_by_ctrl_c(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its tasks run in this process, in place of Spark's."""
    monkeypatch.setattr(JobSetup, "session", _no_session)
    monkeypatch.setattr(running, "run_tasks", _run_here)
    lake = LakeLocation(str(tmp_path / "lake"))
    with LocalBroker(timeout_seconds=120) as server, Producer("shop", server.namesrv) as producer:
        producer.send(Message("orders", "before"))

        def sent_meanwhile() -> Iterator[Callable[[], bool]]:
            for rows in (1, 2, 3):
                yield lambda: load(lake.open()).rows == rows  # noqa: B023 -- asked before the next
                producer.send(Message("orders", "meanwhile"))

        command = ["job", "archive", "-n", server.namesrv, "--topic", "orders", "--lake", lake.url]
        with interrupted_after(sent_meanwhile()):
            assert run([*command, "--follow", "0.1", "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert told["messages"] in (2, 3, 4), "the last batch may be in the lake and not counted yet"
        assert told["lost"] == []
        assert load(lake.open()).rows >= 3


def test_a_name_server_that_is_away_at_the_start_is_waited_for(tmp_path: Path) -> None:
    """A driver that was killed together with its broker comes back first, as often as not."""
    options = ArchiveOptions(LakeLocation(str(tmp_path)), ("orders",), setup=JobSetup("127.0.0.1:1"))
    running._check(options)
