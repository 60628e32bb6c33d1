"""The job `lag`: samples of real groups. It needs no Spark."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from orbitmq.cli.app import run as cli
from orbitmq.net.blocking import BlockingConnection
from orbitmq.protocol.bodies.group import SubscriptionGroupConfig
from orbitmq.protocol.requests.group import UpdateAndCreateSubscriptiongroup
from orbitmq.protocol.requests.offset import UpdateConsumerOffset
from orbitmq.spark.jobs.job import JobFailed, JobSetup
from orbitmq.spark.jobs.lag import LagOptions, run
from orbitmq.spark.jobs.ui import JobUi
from tests.spark.conftest import Outgoing, Server, create_topic, publish

pytestmark = pytest.mark.timeout(900)


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
    assert (row["lag"], row["clientGroup"], row["topic"]) == (12, group, topic)
    assert not table.exists(), "a dry run writes nothing"
    before = time.time()
    done = run(options(server, table, groups=(group,), topics=(topic,)))
    (row,) = done.current_lag
    assert (row["lag"], row["lost"], done.samples) == (12, 0, 4), "one sample of each queue"
    assert 0 <= row["waitingSeconds"] < time.time() - before + 900
    for queue_id in range(2):
        commit(server, group, topic, queue_id, 10)
    done = run(options(server, table, groups=(group,), topics=(topic,), report=page))
    (row,) = done.current_lag
    assert (row["lag"], row["lagMost"], row["waitingSeconds"]) == (0, 12, 0), "the table holds both runs"
    text = page.read_text()
    assert text.count("<svg") == 2, "two lines, and no bars of nothing"
    assert "No group is behind." in text
    (again,) = run(LagOptions(table, samples=0)).current_lag
    assert again["lagMost"] == 12


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
    assert [row["lag"] for row in run(both, JobUi(quiet=True)).current_lag] == [1]
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
