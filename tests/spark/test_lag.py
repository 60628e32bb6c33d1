"""Lag: figures from samples worked out by hand, and samples of real groups."""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from orbitmq.cli.app import run as cli
from orbitmq.net.blocking import BlockingConnection
from orbitmq.protocol.bodies.group import SubscriptionGroupConfig
from orbitmq.protocol.requests.group import UpdateAndCreateSubscriptiongroup
from orbitmq.protocol.requests.offset import UpdateConsumerOffset
from orbitmq.spark.jobs.job import JobFailed, JobSetup
from orbitmq.spark.jobs.lag import LagOptions, run
from orbitmq.spark.jobs.lag_tables import SAMPLE_DDL, by_queue, current_lag, over_time
from orbitmq.spark.jobs.ui import JobUi
from tests.spark.conftest import Outgoing, Server, create_topic, publish

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.timeout(900), pytest.mark.usefixtures("spark")]

START = datetime(2026, 1, 2, 3, 4, 5)
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


def samples(spark: SparkSession) -> DataFrame:
    made = []
    for topic, rows in CASES.items():
        for second, queue, low, high, reached, waits in rows:
            at = START + timedelta(seconds=second)
            oldest = None if waits is None else at - timedelta(seconds=waits)
            made.append((at, "g", topic, "b", queue, low, high, reached, reached + 1, oldest))
    return spark.createDataFrame(made, SAMPLE_DDL)


@pytest.fixture(scope="module")
def told(spark: SparkSession) -> dict[str, Any]:
    """Facts of each case: that they do not mix is part of the test."""
    return {row.topic: row for row in current_lag(samples(spark), GAP_S).collect()}


def test_lag_waiting_and_lost_of_a_queue(spark: SparkSession) -> None:
    frame = samples(spark).where("topic = 'queues'")
    found = {row.queueId: row for row in by_queue(frame).collect()}
    assert [found[n].lag for n in range(6)] == [0, 60, 50, 10, 1, 0]
    assert [found[n].lost for n in range(6)] == [0, 0, 30, 0, 0, 0]
    assert [found[n].waitingSeconds for n in range(6)] == [0, 12.5, 3, None, 0, 0]
    (row,) = over_time(frame).collect()
    assert (row.lag, row.lost, row.waitingSeconds, row.inFlight) == (121, 30, 12.5, 6)


def test_rates_and_when_the_lag_is_gone(told: dict[str, Any]) -> None:
    row = told["catches up"]
    assert (row.inPerSecond, row.outPerSecond) == (2, 5)
    assert (row.lag, row.lagMost, row.waitingMostSeconds) == (270 + 300, 800, 9)
    assert row.at == START + timedelta(seconds=80)
    assert row.catchUpSeconds == pytest.approx(570 / 3)


def test_a_lag_that_grows_is_never_caught_up(told: dict[str, Any]) -> None:
    row = told["grows"]
    assert (row.inPerSecond, row.outPerSecond, row.catchUpSeconds) == (10, 1, None)
    row = told["is none"]
    assert (row.lag, row.catchUpSeconds, row.inPerSecond) == (0, 0, None)


def test_offsets_that_are_set_back_count_for_nothing(told: dict[str, Any]) -> None:
    assert (told["was set back"].inPerSecond, told["was set back"].outPerSecond) == (0, 0.5)


def test_those_that_lag_most_come_first(told: dict[str, Any]) -> None:
    assert list(told) == ["catches up", "grows", "queues", "was set back", "is none"]


def commit(server: Server, group: str, topic: str, queue_id: int, offset: int) -> None:
    with BlockingConnection(server.broker) as broker:
        broker.call(UpdateAndCreateSubscriptiongroup(SubscriptionGroupConfig(group)))
        broker.call(
            UpdateConsumerOffset(consumer_group=group, topic=topic, queue_id=queue_id, commit_offset=offset)
        )


def options(server: Server, table: Path, **more: Any) -> LagOptions:
    setup = {name: more.pop(name) for name in ("report", "dry_run") if name in more}
    given = {"every_s": 0.1, "samples": 1, "timeout_ms": 60_000} | more
    return LagOptions(table, JobSetup(server.namesrv, **setup), **given)


def test_a_group_that_lags_and_catches_up(server: Server, topic: str, tmp_path: Path) -> None:
    group, table, page = f"{topic}_g", tmp_path / "lag", tmp_path / "lag.html"
    publish(server, topic, [Outgoing(b"x", queue_id=n % 2) for n in range(20)])
    for queue_id in range(2):
        commit(server, group, topic, queue_id, 4)
    (row,) = run(options(server, table, groups=(group,), topics=(topic,), dry_run=True)).current_lag
    assert (row.lag, row.clientGroup, row.topic) == (12, group, topic)
    assert not table.exists(), "a dry run writes nothing"
    before = time.time()
    done = run(options(server, table, groups=(group,), topics=(topic,)))
    (row,) = done.current_lag
    assert (row.lag, row.lost, done.samples) == (12, 0, 4), "one sample of each queue"
    assert 0 <= row.waitingSeconds < time.time() - before + 900
    for queue_id in range(2):
        commit(server, group, topic, queue_id, 10)
    done = run(options(server, table, groups=(group,), topics=(topic,), report=page))
    (row,) = done.current_lag
    assert (row.lag, row.lagMost, row.waitingSeconds) == (0, 12, 0), "the table holds both runs"
    text = page.read_text()
    assert text.count("<svg") == 2, "two lines, and no bars of nothing"
    assert "No group is behind." in text
    (again,) = run(LagOptions(table, samples=0)).current_lag
    assert again.lagMost == 12


def test_a_group_that_nobody_knows_is_named(
    orbitmq_server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = f"lag_{time.time_ns()}"
    create_topic(orbitmq_server, topic, queues=1)
    publish(orbitmq_server, topic, [Outgoing(b"x")])
    commit(orbitmq_server, f"{topic}_g", topic, 0, 0)
    for groups, topics, words in (
        (("nobody",), (), "nobody is"),
        ((f"{topic}_g",), ("other",), f"{topic}_g is in other"),
    ):
        with pytest.raises(JobFailed, match=f"no broker knows how far {words}$"):
            run(options(orbitmq_server, tmp_path / "none", groups=groups, topics=topics))
    capsys.readouterr()
    both = options(orbitmq_server, tmp_path / "one", groups=("nobody", f"{topic}_g"), topics=(topic,))
    assert [row.lag for row in run(both, JobUi(quiet=True)).current_lag] == [1]
    assert capsys.readouterr().err == f"orbitmq: no broker knows how far nobody is in {topic}\n"


def test_a_cluster_that_cannot_be_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "lag"
    # Nothing listens on port 1.
    command = ["job", "lag", "-n", "127.0.0.1:1", "--table", str(table), "--samples", "1", "--json"]
    assert cli(command) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert "127.0.0.1:1" in told.err.splitlines()[-1]
    assert not any(table.iterdir())
