"""An Iceberg table that is archived to: in a catalog on SQLite, read by PyIceberg and by DuckDB."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyiceberg.catalog import load_catalog
from pyiceberg.expressions import GreaterThanOrEqual
from pyiceberg.table import Table

from orbitmq.cli.app import run as run_command
from orbitmq.spark.errors import BadOption
from orbitmq.spark.jobs.archive import running
from orbitmq.spark.jobs.archive.command import holdings
from orbitmq.spark.jobs.archive.running import ArchiveOptions, ArchiveResult, run, state_of
from orbitmq.spark.lake.errors import LakeBusy, LakeError
from orbitmq.spark.lake.iceberg import STATE, IcebergLocation, IcebergTable
from orbitmq.sync import Message, Producer
from orbitmq.testing import LocalBroker
from tests.kit.store_files import StoreFiles
from tests.spark.archive_process import WithoutSpark
from tests.unit.spark.lake import iceberg_process
from tests.unit.spark.lake.iceberg_process import archive, in_this_process, location

DAY_MS = 86_400_000


@pytest.fixture(autouse=True)
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "run_tasks", in_this_process)


@pytest.fixture
def store(tmp_path: Path) -> StoreFiles:
    return StoreFiles(tmp_path / "store")


def put(store: StoreFiles, low: int, high: int, topic: str = "orders") -> None:
    for number in range(low, high):
        if number % 10 == 0:
            store.time_ms += DAY_MS
        store.put(
            b"order %d" % number, topic, number % 2, properties=f"KEYS\x01k{number}\x02n\x01{number}\x02"
        )


def table(folder: Path) -> Table:
    return location(folder).connect().load_table(("events", "orders"))


def bodies(folder: Path) -> Counter[bytes]:
    return Counter(table(folder).scan().to_arrow().column("body").to_pylist())


def numbered(low: int, high: int) -> Counter[bytes]:
    return Counter(b"order %d" % number for number in range(low, high))


def in_duckdb(folder: Path, query: str) -> list[Any]:
    """A query over the files of the table's newest metadata, `rows`, by DuckDB's own reader of Iceberg."""
    duckdb = pytest.importorskip("duckdb")
    import duckdb_ext

    place = Path(duckdb_ext.__path__[0], "extensions", f"v{duckdb.__version__}")
    connection = duckdb.connect()
    for name in ("avro", "iceberg"):
        [extension] = place.glob(f"*/{name}.duckdb_extension")
        connection.execute(f"LOAD '{extension}'")
    source = f"iceberg_scan('{table(folder).metadata_location}')"
    connection.execute(f"CREATE VIEW rows AS SELECT * FROM {source}")
    found: list[Any] = connection.execute(query).fetchall()
    return found


def test_messages_come_once_by_day_with_their_offsets_in_the_summary(
    store: StoreFiles, tmp_path: Path
) -> None:
    put(store, 0, 30)
    assert archive(tmp_path, store.root).messages == 30
    assert archive(tmp_path, store.root).messages == 0
    put(store, 30, 40)
    put(store, 0, 4, topic="payments")
    assert archive(tmp_path, store.root, "orders", "payments").messages == 14
    assert bodies(tmp_path) == numbered(0, 40) + numbered(0, 4)

    found = table(tmp_path)
    [day] = found.spec().fields
    assert (str(day.transform), found.schema().find_column_name(day.source_id)) == ("day", "storeTimestamp")
    snapshot = found.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    assert snapshot.summary["added-records"] == "14"
    held = json.loads(snapshot.summary[STATE])["held"]
    assert held == {
        "orders": {f"broker-a|{queue}": [[0, 20, 20]] for queue in (0, 1)},
        "payments": {f"broker-a|{queue}": [[0, 2, 2]] for queue in (0, 1)},
    }
    rows = (
        found.scan(selected_fields=("topic", "queueId", "queueOffset", "properties")).to_arrow().to_pylist()
    )
    places = {(row["topic"], row["queueId"], row["queueOffset"]) for row in rows}
    assert len(places) == 44
    assert dict(rows[0]["properties"])["KEYS"].startswith("k")
    # A filter on the time itself leaves files of other days unread.
    later = GreaterThanOrEqual(
        "storeTimestamp", max(found.scan().to_arrow()["storeTimestamp"].to_pylist()).isoformat()
    )
    assert 0 < len(list(found.scan(later).plan_files())) < len(list(found.scan().plan_files()))
    listed = holdings(location(tmp_path))
    assert next(iter(listed.rows))[:4] == ("orders", "broker-a|0", 0, 19)
    assert "44 messages, 2 commits" in (listed.note or "")


def test_duckdb_reads_the_same(store: StoreFiles, tmp_path: Path) -> None:
    put(store, 0, 30)
    archive(tmp_path, store.root)
    assert Counter(body for (body,) in in_duckdb(tmp_path, "SELECT body FROM rows")) == numbered(0, 30)
    days = in_duckdb(
        tmp_path, "SELECT date_trunc('day', storeTimestamp) AS day, count(*) FROM rows GROUP BY day"
    )
    assert sorted(count for _, count in days) == [10, 10, 10]
    query = "SELECT topic, brokerName, queueId, queueOffset, properties['n'] FROM rows WHERE keys = 'k7'"
    assert in_duckdb(tmp_path, query) == [("orders", "broker-a", 1, 3, "7")]


def test_a_topic_of_a_broker_is_read_by_sql_through_pyiceberg(tmp_path: Path) -> None:
    """As in the data guide."""
    with LocalBroker(tmp_path / "broker") as broker:
        with Producer("shop", namesrv=broker.namesrv) as producer:
            for number in range(9):
                producer.send(Message("orders", b"order %d" % number, tags="US" if number % 3 else "EU"))
        setup = WithoutSpark(broker.namesrv)
        done = run(ArchiveOptions(location(tmp_path), ("orders",), setup=setup))
        again = run(ArchiveOptions(location(tmp_path), ("orders",), setup=setup))
    assert (done.messages, again.messages) == (9, 0)
    eu = table(tmp_path).scan(row_filter="tags = 'EU'").to_duckdb("eu")
    assert eu.sql("SELECT count(*), min(topic) FROM eu").fetchall() == [(3, "orders")]


def test_whatever_dies_in_a_commit_each_message_comes_once(store: StoreFiles, tmp_path: Path) -> None:
    put(store, 0, 20)
    archive(tmp_path, store.root)
    for count, place in enumerate(iceberg_process.PLACES, 1):
        put(store, 20 * count, 20 * count + 20)
        command = [sys.executable, "-m", iceberg_process.__name__, str(tmp_path), str(store.root), place]
        died = subprocess.run(command, capture_output=True, text=True, check=False)
        assert died.returncode == -signal.SIGKILL, died.stderr
        is_there = place == "after the catalog"
        assert bodies(tmp_path) == numbered(0, 20 * count + 20 * is_there), place
        assert archive(tmp_path, store.root).messages == 20 * (not is_there), place
        assert bodies(tmp_path) == numbered(0, 20 * count + 20), place


def test_an_answer_of_the_catalog_that_is_lost_is_no_second_commit(
    store: StoreFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, 0, 20)
    archive(tmp_path, store.root)
    put(store, 20, 40)
    catalog = type(location(tmp_path).connect())
    commit = catalog.commit_table

    def lost(*given: Any) -> Any:
        commit(*given)
        raise ConnectionResetError("the catalog is gone")

    monkeypatch.setattr(catalog, "commit_table", lost)
    assert archive(tmp_path, store.root).messages == 20
    monkeypatch.undo()
    assert bodies(tmp_path) == numbered(0, 40)


def test_of_two_archives_at_once_the_later_one_adds_nothing(
    store: StoreFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, 0, 20)
    archive(tmp_path, store.root)
    put(store, 20, 40)
    append = IcebergTable.append

    def overtaken(*given: Any, **more: Any) -> None:
        monkeypatch.setattr(IcebergTable, "append", append)
        archive(tmp_path, store.root)
        append(*given, **more)

    monkeypatch.setattr(IcebergTable, "append", overtaken)
    with pytest.raises(LakeBusy, match=r"another job has archived to test\.events\.orders meanwhile"):
        archive(tmp_path, store.root)
    assert bodies(tmp_path) == numbered(0, 40)
    named = {task.file.file_path for task in table(tmp_path).scan().plan_files()}
    files = {str(path) for path in (tmp_path / "warehouse").rglob("*.parquet")}
    assert files == {name.removeprefix("file://") for name in named}, "its files are removed"


def test_commits_of_others_are_met_and_leave_the_offsets(
    store: StoreFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, 0, 20)
    put(store, 20, 24, topic="payments")
    put(store, 24, 28, topic="refunds")
    every = ("orders", "payments", "refunds")
    archive(tmp_path, store.root, *every)
    put(store, 30, 40)
    append = IcebergTable.append

    def beside(*given: Any, **more: Any) -> None:
        table(tmp_path).delete("topic = 'payments'")
        append(*given, **more)

    monkeypatch.setattr(IcebergTable, "append", beside)
    archive(tmp_path, store.root, *every)
    assert bodies(tmp_path) == numbered(0, 20) + numbered(24, 28) + numbered(30, 40)
    table(tmp_path).delete("topic = 'refunds'")
    assert archive(tmp_path, store.root, *every).messages == 0, "the newest snapshot has no offsets"
    assert bodies(tmp_path) == numbered(0, 20) + numbered(30, 40)


def test_a_table_that_was_rolled_back_is_archived_from_there(store: StoreFiles, tmp_path: Path) -> None:
    put(store, 0, 20)
    archive(tmp_path, store.root)
    before = table(tmp_path).current_snapshot()
    assert before is not None
    put(store, 20, 40)
    archive(tmp_path, store.root)
    table(tmp_path).manage_snapshots().rollback_to_snapshot(before.snapshot_id).commit()
    assert state_of(location(tmp_path)).next_offset("orders", "broker-a|0") == 10
    assert bodies(tmp_path) == numbered(0, 20)


def test_columns_are_chosen_and_added_later(store: StoreFiles, tmp_path: Path) -> None:
    put(store, 0, 20)
    archive(tmp_path, store.root, columns=("body",))
    names = table(tmp_path).schema().column_names
    assert names == ["topic", "brokerName", "queueId", "queueOffset", "body", "storeTimestamp"]
    put(store, 20, 40)
    archive(tmp_path, store.root, columns=("body", "keys", "properties"))
    found = table(tmp_path).scan().to_arrow()
    assert Counter(found["body"].to_pylist()) == numbered(0, 40)
    assert found["keys"].null_count == found["properties"].null_count == 20
    assert in_duckdb(tmp_path, "SELECT count(*), count(keys) FROM rows") == [(40, 20)]


def test_what_cannot_be_archived_to_is_refused(
    store: StoreFiles, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(store, 0, 4)
    for text in ("orders", ".orders", "test..orders"):
        with pytest.raises(BadOption, match="names no table"):
            IcebergLocation.parse(text, {}, {})
    assert IcebergLocation.parse("test.orders", {}, {}).table == ("default", "orders")
    catalog = location(tmp_path).connect()
    catalog.create_namespace("events")
    import pyarrow as pa

    catalog.create_table(("events", "orders"), pa.schema([("amount", pa.int64())]))
    with pytest.raises(LakeError, match="was not made by an archive"):
        archive(tmp_path, store.root)
    with pytest.raises(BadOption, match="catalog nowhere cannot be opened"):
        run(ArchiveOptions(IcebergLocation("nowhere", ("a", "b")), setup=WithoutSpark()))
    for words, said in (
        (["--lake", "x", "--iceberg", "a.b"], "give --lake, or --iceberg"),
        (["--topic", "t"], "give --lake, or --iceberg"),
        (["--iceberg", "a.b", "--compact"], "--compact and --delta are for --lake"),
        (["--lake", "x", "--catalog-option", "a=b"], "--catalog-option goes with --iceberg"),
        (["--iceberg", "a.b", "--catalog-option", "a"], "expected NAME=VALUE"),
    ):
        assert run_command(["job", "archive", *words]) == 2
        assert said in capsys.readouterr().err


def test_the_command_takes_the_catalog_from_its_options(
    store: StoreFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    put(store, 0, 20)
    monkeypatch.setattr("orbitmq.spark.jobs.job.JobSetup.session", WithoutSpark.session)
    options = [
        word for pair in location(tmp_path).options.items() for word in ("--catalog-option", "=".join(pair))
    ]
    words = ["job", "archive", "--iceberg", "test.events.orders", *options]
    assert run_command([*words, "--store", str(store.root), "--broker-name", "broker-a"]) == 0
    assert run_command([*words, "--status"]) == 0
    assert "20 messages, 1 commit" in capsys.readouterr().out
    assert load_catalog("test", **location(tmp_path).options).table_exists(("events", "orders"))


def test_a_result_names_messages_and_files(store: StoreFiles, tmp_path: Path) -> None:
    put(store, 0, 20)
    done: ArchiveResult = archive(tmp_path, store.root)
    assert (done.messages, done.batches, done.files) == (
        20,
        1,
        len(list(table(tmp_path).scan().plan_files())),
    )
