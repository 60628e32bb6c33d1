"""The archive on a real Spark: from brokers and from files, to a folder and to S3, and what it refuses."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from orbitmq.cli.app import run as run_command
from orbitmq.spark.errors import BadOption, DataLost
from orbitmq.spark.jobs.archive.running import ArchiveOptions, ArchiveResult, run
from orbitmq.spark.jobs.job import JobSetup
from orbitmq.spark.lake import read_lake
from orbitmq.spark.lake.errors import LakeBusy, LakeError, SchemaMismatch
from orbitmq.spark.lake.lake import Lake, load
from orbitmq.spark.lake.storage import LakeLocation, LocalStorage
from tests.peers.object_store import KEYS
from tests.spark.conftest import Outgoing, Server, create_topic, publish

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from orbitmq.testing import LocalBroker

pytestmark = pytest.mark.timeout(900)


def orders(low: int, high: int) -> list[Outgoing]:
    return [
        Outgoing(f"order {n} Ω".encode(), n % 4, {"KEYS": f"o-{n}", "TAGS": "EU", "n": str(n)}, flag=n)
        for n in range(low, high)
    ]


def archive(lake: Path | LakeLocation, server: Server, *topics: str, **more: Any) -> ArchiveResult:
    where = lake if isinstance(lake, LakeLocation) else LakeLocation(str(lake))
    return run(ArchiveOptions(where, topics, setup=JobSetup(server.namesrv), **more))


def numbers(frame: DataFrame) -> Counter[int]:
    return Counter(row.flag for row in frame.select("flag").collect())


def test_topics_come_into_the_lake_once_and_whole(
    spark: SparkSession, server: Server, topic: str, tmp_path: Path
) -> None:
    publish(server, topic, orders(0, 120))
    other = f"{topic}_other"
    create_topic(server, other, queues=1)
    publish(server, other, [Outgoing(b"alone", flag=7)])
    first = archive(tmp_path, server, topic, other, batch_messages=50)
    assert (first.messages, first.batches >= 3, first.lost) == (121, True, [])
    assert archive(tmp_path, server, topic, other).messages == 0
    publish(server, topic, orders(120, 130))
    assert archive(tmp_path, server, topic, other, compact=True).merged > 0

    frame = read_lake(spark, str(tmp_path))
    assert numbers(frame) == Counter([*range(130), 7])
    by_place = ["topic", "brokerName", "queueId", "queueOffset"]
    source = spark.read.format("orbitmq").option("namesrv", server.namesrv).option("subscribe", topic).load()
    ours = frame.where(frame.topic == topic).select(*source.columns).orderBy(*by_place).collect()
    assert [row.asDict() for row in ours] == [row.asDict() for row in source.orderBy(*by_place).collect()]
    days = frame.selectExpr("date = to_date(storeTimestamp) as same").distinct().collect()
    assert [row.same for row in days] == [True]
    # A reader that knows nothing of manifests reads the same.
    assert numbers(spark.read.parquet(str(tmp_path))) == Counter([*range(130), 7])
    assert numbers(read_lake(spark, str(tmp_path), topics=[other])) == Counter([7])
    with pytest.raises(LakeError, match=f"holds nothing of topic {other}s; did you mean {other}"):
        read_lake(spark, str(tmp_path), topics=[topic, f"{other}s"])
    assert read_lake(spark, str(tmp_path), last_date="2001-01-01").count() == 0


def test_what_a_crash_left_staged_is_read_all_the_same(
    spark: SparkSession, orbitmq_server: LocalBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "archive_staged"
    create_topic(orbitmq_server, name)
    publish(orbitmq_server, name, orders(0, 20))
    archive(tmp_path, orbitmq_server, name)
    publish(orbitmq_server, name, orders(20, 30))

    def crash(storage: LocalStorage, source: str, target: str) -> None:
        raise KeyboardInterrupt if storage.exists(source) else FileNotFoundError

    with monkeypatch.context() as patch:
        patch.setattr(LocalStorage, "move", crash)
        with pytest.raises(KeyboardInterrupt):
            archive(tmp_path, orbitmq_server, name)
    assert numbers(spark.read.parquet(str(tmp_path))) == Counter(range(20))
    assert numbers(read_lake(spark, str(tmp_path))) == Counter(range(30))
    assert archive(tmp_path, orbitmq_server, name).messages == 0
    assert numbers(spark.read.parquet(str(tmp_path))) == Counter(range(30))


def test_from_files_and_from_the_broker_in_turns(spark: SparkSession, tmp_path: Path) -> None:
    from orbitmq.testing import LocalBroker

    lake, store = tmp_path / "lake", tmp_path / "store"

    def from_files(**more: Any) -> ArchiveResult:
        where = LakeLocation(str(lake))
        return run(ArchiveOptions(where, ("files",), store=str(store), broker_name="broker-a", **more))

    with LocalBroker(store, own_process=True, timeout_seconds=300) as broker:
        create_topic(broker, "files")
        create_topic(broker, "another")
        publish(broker, "another", orders(500, 510))
        publish(broker, "files", orders(0, 50))
        assert archive(lake, broker, "files").messages == 50
        publish(broker, "files", orders(50, 80))
        assert from_files().messages == 30
        publish(broker, "files", orders(80, 90))
        assert archive(lake, broker, "files").messages == 10
        publish(broker, "files", orders(90, 100))
        assert from_files(setup=JobSetup(dry_run=True)).planned_bytes > 0
    assert from_files().messages == 10
    assert from_files().messages == 0
    assert numbers(read_lake(spark, str(lake))) == Counter(range(100))
    held = load(LocalStorage(lake)).held
    assert {queue: ranges for (_, queue), ranges in held.items()} == {
        f"broker-a|{n}": ((0, 25, 25),) for n in range(4)
    }


def test_a_batch_that_fails_is_begun_again(
    spark: SparkSession, orbitmq_server: LocalBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's tasks have failed for good twice; nothing of theirs is in the lake."""
    from orbitmq.spark.jobs.archive import running

    create_topic(orbitmq_server, "archive_again")
    publish(orbitmq_server, "archive_again", orders(0, 12))
    failures = iter(["ConnectFailed", "ConnectFailed"])
    plainly = running.run_tasks

    def failing(spark: Any, act: Callable[[Any], Any], works: Any) -> Any:
        name = next(failures, None)

        def act_and_fail(work: Any) -> Any:
            act(work)
            raise RuntimeError(f"orbitmq.net.errors.{name}: gone")

        return plainly(spark, act if name is None else act_and_fail, works)

    monkeypatch.setattr(running, "run_tasks", failing)
    monkeypatch.setattr(running, "FIRST_PAUSE_S", 0.01)
    result = archive(tmp_path, orbitmq_server, "archive_again")
    assert (result.repeated, result.messages) == (2, 12)
    assert numbers(read_lake(spark, str(tmp_path))) == Counter(range(12))
    assert not any((tmp_path / "_staged").glob("*"))


@pytest.mark.usefixtures("spark")
def test_what_it_refuses(orbitmq_server: LocalBroker, tmp_path: Path) -> None:
    create_topic(orbitmq_server, "archive_refused", queues=1)
    publish(orbitmq_server, "archive_refused", [Outgoing(b"x", flag=n) for n in range(5)])
    with pytest.raises(BadOption, match="does not exist"):
        archive(tmp_path / "a", orbitmq_server, "no_such_topic_here")
    with pytest.raises(BadOption, match="no column colour"):
        archive(tmp_path / "a", orbitmq_server, "archive_refused", columns=("colour",))
    with pytest.raises(BadOption, match="no topic matches"):
        archive(tmp_path / "a", orbitmq_server, pattern="nothing-.*")
    narrow = tmp_path / "narrow"
    assert archive(narrow, orbitmq_server, "archive_refused", columns=("flag",)).messages == 5
    publish(orbitmq_server, "archive_refused", [Outgoing(b"x", flag=5)])
    with pytest.raises(SchemaMismatch, match="flag"):
        archive(narrow, orbitmq_server, "archive_refused", columns=("keys",))
    assert archive(narrow, orbitmq_server, "archive_refused", columns=("flag", "keys")).messages == 1
    # The lake of another topic of that name, which was longer.
    with Lake.open(LakeLocation(str(narrow))) as lake:
        from orbitmq.spark.lake.state import HeldRange

        lake.append([HeldRange("archive_refused", "broker-a|0", 6, 1000, 0)], [])
    with pytest.raises(DataLost, match="made anew"):
        archive(narrow, orbitmq_server, "archive_refused")
    with pytest.raises(LakeError, match="no lake"):
        read_lake(None, str(tmp_path / "nowhere"))  # type: ignore[arg-type]


def test_added_columns_are_null_in_older_files(
    spark: SparkSession, orbitmq_server: LocalBroker, tmp_path: Path
) -> None:
    create_topic(orbitmq_server, "archive_wider", queues=1)
    publish(orbitmq_server, "archive_wider", orders(0, 1))
    archive(tmp_path, orbitmq_server, "archive_wider", columns=("flag",))
    publish(orbitmq_server, "archive_wider", [Outgoing(b"", properties={"KEYS": "late"}, flag=1)])
    archive(tmp_path, orbitmq_server, "archive_wider", columns=("flag", "keys"), compact=True)
    rows = read_lake(spark, str(tmp_path)).orderBy("flag").collect()
    assert [(row.flag, row.keys) for row in rows] == [(0, None), (1, "late")]


def test_a_lake_in_object_storage(spark: SparkSession, orbitmq_server: LocalBroker, s3: str) -> None:
    import fsspec

    storage = {"endpoint_url": s3} | KEYS
    fsspec.filesystem("s3", **storage, skip_instance_cache=True).mkdir("archive-of-tests")
    lake = LakeLocation("s3://archive-of-tests/lake", storage)
    create_topic(orbitmq_server, "archive_s3")
    for low in (0, 20):
        publish(orbitmq_server, "archive_s3", orders(low, low + 20))
        assert archive(lake, orbitmq_server, "archive_s3", compact=low > 0).messages == 20
    frame = read_lake(spark, lake)
    assert numbers(frame) == Counter(range(40))
    assert [row.keys for row in frame.where("flag = 7").collect()] == ["o-7"]
    with Lake.open(lake) as first:
        number = first.state.number
        other = Lake(lake, lake.open(), first.state)
        first.append([], [])
        with pytest.raises(LakeBusy):
            other.append([], [])
        assert load(lake.open()).number == number + 1


@pytest.mark.usefixtures("spark")
def test_the_command(orbitmq_server: LocalBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    create_topic(orbitmq_server, "archive_command")
    publish(orbitmq_server, "archive_command", orders(0, 8))
    lake = ["--lake", str(tmp_path / "lake")]
    where = ["job", "archive", "-n", orbitmq_server.namesrv, *lake, "--topic", "archive_command"]
    assert run_command([*where, "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"messages to archive": 8, "lost": []}
    assert not (tmp_path / "lake").exists()
    assert run_command([*where, "--json", "--compression", "zstd"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["messages"], told["batches"], told["lost"]) == (8, 1, [])
    assert run_command(["job", "archive", *lake, "--status", "--json"]) == 0
    held = json.loads(capsys.readouterr().out)
    assert [(one["queue"], one["from"], one["to"], one["messages"]) for one in held] == [
        (f"broker-a|{n}", 0, 1, 2) for n in range(4)
    ]
    for wrong in (
        [],
        ["--topic", "a", "--pattern", "b"],
        ["--pattern", "("],
        ["--store", "x"],
        ["--topic", "a", "--storage-option", "x=y"],
    ):
        assert run_command(["job", "archive", *lake, *wrong]) == 2
    assert run_command(["job", "archive", "--lake", str(tmp_path / "none"), "--status"]) == 1
    assert "holds no lake" in capsys.readouterr().err
