"""Messages once by business key: into a lake and into a topic, over restarts and a crash; and the audit."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from orbitmq.cli.app import run as cli
from orbitmq.spark.jobs.dedup.options import DedupOptions
from orbitmq.spark.jobs.dedup.repeats import RepeatsOptions, audit
from orbitmq.spark.jobs.dedup.running import run
from orbitmq.spark.jobs.dedup.tables import business_key, consumed_repeatedly, deduplicated
from orbitmq.spark.jobs.job import JobSetup
from orbitmq.spark.jobs.preflight import was_written
from tests.kit.interrupting import interrupted_after
from tests.spark.conftest import Outgoing, Server, create_topic, publish

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.timeout(900), pytest.mark.usefixtures("spark")]


def orders(*numbers: int, **properties: str) -> list[Outgoing]:
    return [
        Outgoing(
            json.dumps({"order": {"id": f"o-{n}"}}).encode(),
            n % 2,
            {"KEYS": f"k-{n}", "UNIQ_KEY": f"u{n}"} | properties,
        )
        for n in numbers
    ]


def options(server: Server, topic: str, checkpoint: Path | None, **more: Any) -> DedupOptions:
    setup = JobSetup(
        server.namesrv,
        checkpoint=str(checkpoint) if checkpoint else None,
        dry_run=more.pop("dry_run", False),
    )
    return DedupOptions((topic,), setup, **more)


def crash_before_the_last_commit(checkpoint: Path) -> None:
    """As after a kill between what a batch has written and its commit: the batch is run again."""
    last = max((checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    for path in last.parent.glob(f"*{last.name}*"):
        path.unlink()


def test_into_a_lake_over_a_restart_and_a_crash(
    spark: SparkSession, orbitmq_server: Server, tmp_path: Path
) -> None:
    topic, lake, checkpoint = f"dedup_{time.time_ns()}", tmp_path / "lake", tmp_path / "once"
    create_topic(orbitmq_server, topic, queues=2)
    given = options(orbitmq_server, topic, checkpoint, to_lake=str(lake))
    publish(orbitmq_server, topic, [*orders(1, 2, 3, 1), Outgoing(b"no key"), Outgoing(b"no key")])
    dry = run(options(orbitmq_server, topic, None, to_lake=str(lake), dry_run=True))
    assert (dry.read, dry.repeats, dry.keyless) == (6, 1, 2)
    assert not lake.exists()
    done = run(given)
    assert (done.read, done.repeats, done.written) == (6, 1, 5)
    # Seen keys are remembered over a restart.
    publish(orbitmq_server, topic, orders(2, 4, 3))
    done = run(given)
    assert (done.read, done.repeats) == (3, 2)
    crash_before_the_last_commit(checkpoint)
    publish(orbitmq_server, topic, orders(4, 5))
    run(given)
    found = Counter(row["keys"] for row in spark.read.parquet(str(lake)).collect())
    assert found == {"k-1": 1, "k-2": 1, "k-3": 1, "k-4": 1, "k-5": 1, None: 2}


def test_into_a_topic_over_a_crash(spark: SparkSession, server: Server, topic: str, tmp_path: Path) -> None:
    create_topic(server, f"{topic}_once", queues=2)
    given = options(server, topic, tmp_path / "once", to_topic=f"{topic}_once", key="json:$.order.id")
    publish(server, topic, orders(1, 2, 1, colour="red"))
    assert run(given).written == 2
    crash_before_the_last_commit(tmp_path / "once")
    publish(server, topic, orders(2, 3))
    run(given)
    read = spark.read.format("orbitmq").options(namesrv=server.namesrv, subscribe=f"{topic}_once").load()
    rows = read.collect()
    found = {row["keys"]: row for row in rows}
    assert sorted(row["keys"] for row in rows) == ["k-1", "k-2", "k-3"]
    assert json.loads(found["k-1"]["body"]) == {"order": {"id": "o-1"}}
    assert found["k-1"]["properties"]["colour"] == "red"


def test_what_a_broker_brings_that_was_away_is_not_lost(spark: SparkSession, tmp_path: Path) -> None:
    """Older by hours than what the others brought meanwhile, and with a window of a minute."""
    ddl = (
        "topic string, brokerName string, queueId int, queueOffset bigint, keys string, "
        "storeTimestamp timestamp"
    )
    source, lake = tmp_path / "source", tmp_path / "lake"
    source.mkdir()

    def batch(number: int, *rows: tuple[str, float]) -> None:
        lines = [
            {"topic": "t", "brokerName": "b", "queueId": number, "queueOffset": n, "keys": key}
            | {"storeTimestamp": datetime.fromtimestamp(time.time() - ago, UTC).isoformat()}
            for n, (key, ago) in enumerate(rows)
        ]
        (source / f"{number}.json").write_text("\n".join(map(json.dumps, lines)))
        once = deduplicated(spark.readStream.schema(ddl).json(str(source)), business_key("keys"), 60_000)
        query = (
            once.writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(lake))
        )
        query.awaitTermination()
        for progress in query.recentProgress:
            assert [one["numRowsDroppedByWatermark"] for one in progress["stateOperators"]] in ([0], [])

    batch(1, ("now", 0), ("now", 0))
    batch(2, ("five hours ago", 18_000), ("six hours ago", 21_600), ("now", 10), ("six hours ago", 21_599))
    found = [row["keys"] for row in spark.read.parquet(str(lake)).collect()]
    assert sorted(found) == ["five hours ago", "now", "six hours ago"]


def test_keys(spark: SparkSession) -> None:
    rows = [("k", "m", b'{"a":{"b":7}}', {"p": "v"}), (None, "n", b"no json", None)]
    frame = spark.createDataFrame(
        rows, "keys string, msgId string, body binary, properties map<string,string>"
    )
    for by, wanted in {
        "keys": ["k", None],
        "msgId": ["m", "n"],
        "property:p": ["v", None],
        "json:$.a.b": ["7", None],
        "sql:concat(msgId, '!')": ["m!", "n!"],
    }.items():
        assert [row[0] for row in frame.select(business_key(by)).collect()] == wanted, by
    bodies = [row[0] for row in frame.select(business_key("body")).collect()]
    assert len(set(bodies)) == 2
    for bad in ("key", "property:", "json", ""):
        with pytest.raises(ValueError, match="is no key"):
            business_key(bad)


def test_audit_of_what_was_sent(server: Server, topic: str, tmp_path: Path) -> None:
    publish(server, topic, [*orders(1, 2, 1, 3, 1), Outgoing(b"none"), Outgoing(b"none")])
    publish(server, topic, [Outgoing(b"again", 0, {"KEYS": "k-2", "UNIQ_KEY": "other"})])
    setup = JobSetup(server.namesrv, report=tmp_path / "r.html")
    found = audit(RepeatsOptions((topic,), setup))
    assert [(row.dedupKey, row.times, row.messageIds) for row in found.sent] == [("k-1", 3, 1), ("k-2", 2, 2)]
    assert found.sent_keys == 2
    assert found.sent[0].places == ["broker-a|1@0", "broker-a|1@1", "broker-a|1@3"]
    assert found.sent[0].firstAt <= found.sent[0].lastAt
    assert "k-1" in (tmp_path / "r.html").read_text()


def test_audit_of_what_was_consumed(spark: SparkSession) -> None:
    at = datetime(2026, 1, 2, 3, 4, 5)
    messages = spark.createDataFrame(
        [("t", "m1", "k1"), ("t", "m2", "k1"), ("t", "m3", "k3"), ("t", "m4", None)],
        "topic string, msgId string, keys string",
    )
    handled = spark.createDataFrame(
        [
            ("g", "m1", True, at, "c:1"), ("g", "m2", True, at + timedelta(seconds=5), "c:2"),
            ("g", "m3", False, at, "c:1"), ("g", "m3", True, at, "c:1"), ("h", "m3", True, at, "c:1"),
            ("g", "m4", True, at, "c:1"), ("g", "m4", True, at, "c:1"),
        ],
        "clientGroup string, msgId string, success boolean, endedAt timestamp, client string",
    )  # fmt: skip
    (row,) = consumed_repeatedly(handled, messages, business_key("keys")).collect()
    assert (row.clientGroup, row.dedupKey, row.times, row.messageIds) == ("g", "k1", 2, 2)
    assert (row.lastAt - row.firstAt, row.clients) == (timedelta(seconds=5), ["c:1", "c:2"])


def test_the_command(orbitmq_server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    topic = f"dedup_{time.time_ns()}"
    create_topic(orbitmq_server, topic, queues=2)
    publish(orbitmq_server, topic, orders(1, 1, 2))
    base = ["job", "dedup", "-n", orbitmq_server.namesrv, "-t", topic, "--json"]
    lake = ["--to-lake", str(tmp_path / "lake"), "--checkpoint", str(tmp_path / "c"), "--window", "10m"]
    assert cli([*base, *lake]) == 0
    assert json.loads(capsys.readouterr().out) == {"read": 3, "repeats": 1, "written": 2, "batches": 1}
    assert cli([*base, "--audit"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["what"], row["key"], row["times"]) == ("sent", "k-1", 2)
    for wrong in (
        [],
        ["--to-lake", "x"],
        ["--to-lake", "x", "--to-topic", "y"],
        ["--audit", "--window", "1 hour"],
    ):
        assert cli([*base, *wrong]) == 2, wrong


def test_who_follows_takes_what_comes_and_ends_by_ctrl_c(
    spark: SparkSession, orbitmq_server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic, lake = f"dedup_{time.time_ns()}", tmp_path / "lake"
    create_topic(orbitmq_server, topic, queues=2)
    publish(orbitmq_server, topic, orders(1, 1))

    def held() -> set[str]:
        if not was_written(lake):
            return set()
        return {row["keys"] for row in spark.read.parquet(str(lake)).collect()}

    def sent_meanwhile() -> Iterator[Callable[[], bool]]:
        for number in (1, 2, 3):
            yield lambda: f"k-{number}" in held()  # noqa: B023 -- asked before the next
            publish(orbitmq_server, topic, orders(number, number + 1))

    command = ["job", "dedup", "-n", orbitmq_server.namesrv, "-t", topic, "--to-lake", str(lake)]
    command += ["--checkpoint", str(tmp_path / "once"), "--json"]
    with interrupted_after(sent_meanwhile()):
        assert cli([*command, "--follow", "0.1"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["read"] in (6, 7, 8), "the last batch may be under way still"
    assert told["written"] in (3, 4)
    assert cli(command) == 0, "what was under way is taken up again"
    found = Counter(row["keys"] for row in spark.read.parquet(str(lake)).collect())
    assert found == {"k-1": 1, "k-2": 1, "k-3": 1, "k-4": 1}
