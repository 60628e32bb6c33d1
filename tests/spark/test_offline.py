"""Stores read from their files with Spark: the rows that brokers give, of OrbitMQ's files and of Apache's."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from orbitmq.net.blocking import BlockingConnection
from orbitmq.protocol.requests.offset import GetMaxOffset
from orbitmq.spark.jobs.audit import auditing
from orbitmq.spark.jobs.job import JobSetup
from orbitmq.spark.read.columns import NAMES
from orbitmq.store.snapshot import take_snapshot
from tests.kit.brokers import BOTH_SERVERS
from tests.peers.apache import Apache
from tests.peers.object_store import KEYS
from tests.spark.conftest import Outgoing, Server, create_topic, publish
from tests.spark.test_audit import healthy

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

pytestmark = pytest.mark.timeout(600)

ROWS = [name for name in NAMES if name != "brokerName"]
"""Columns that the two sources have in common; the broker's name stands in no file."""


def folder_of(server: Server) -> Path:
    return server.store if isinstance(server, Apache) else server.data_dir


def offline(spark: SparkSession, path: Path | str, **options: Any) -> DataFrame:
    return spark.read.format("orbitmq").options(**options).load(str(path))


def sorted_rows(frame: DataFrame) -> list[Row]:
    return sorted(frame.select(*ROWS).collect(), key=lambda row: (row.queueId, row.queueOffset))


def in_queue(row: tuple[Any, ...]) -> tuple[int, int]:
    return row[ROWS.index("queueId")], row[ROWS.index("queueOffset")]


def messages(count: int = 200) -> list[Outgoing]:
    return [
        Outgoing(
            b"body %d " % number * (1 + number % 30),
            queue_id=number % 4,
            properties={"TAGS": f"tag{number % 3}", "KEYS": f"key{number}", "UNIQ_KEY": f"7F{number:030X}"},
            flag=number,
            compressed=number % 5 == 4,
        )
        for number in range(count)
    ]


@BOTH_SERVERS
def test_the_rows_that_the_broker_gives(spark: SparkSession, server: Server, topic: str, read: Any) -> None:
    publish(server, topic, messages())
    expected = sorted_rows(read())
    assert len(expected) == 200
    live = offline(spark, folder_of(server), subscribe=topic).collect()
    assert not [row for row in live if row.badRecord is not None]
    assert sorted((tuple(row[name] for name in ROWS) for row in live), key=in_queue) == [
        tuple(row) for row in expected
    ]
    half = expected[len(expected) // 2].storeTimestamp
    cut = offline(
        spark,
        folder_of(server),
        subscribe=topic,
        tags="tag1",
        startingTimestamp=int(half.timestamp() * 1000),
        splitBytes=4000,
    )
    assert cut.rdd.getNumPartitions() > 3
    assert sorted_rows(cut) == [row for row in expected if row.storeTimestamp >= half and row.tags == "tag1"]


def test_a_snapshot_of_a_live_store(
    spark: SparkSession, server: Server, topic: str, read: Any, tmp_path: Path
) -> None:
    publish(server, topic, messages())
    take_snapshot(folder_of(server), tmp_path / "copy")
    publish(server, topic, messages(20))
    assert len(sorted_rows(read())) == 220
    copy = offline(spark, tmp_path / "copy", subscribe=topic, columns="queueOffset,badRecord")
    assert [copied.badRecord for copied in copy.collect()] == [None] * 200


def test_what_the_broker_keeps_for_itself_is_left_out(
    spark: SparkSession, server: Server, topic: str
) -> None:
    publish(server, topic, [Outgoing(b"now"), Outgoing(b"later", properties={"DELAY": "18"})])
    found = {row.topic for row in offline(spark, folder_of(server)).select("topic").distinct().collect()}
    assert topic in found
    assert "SCHEDULE_TOPIC_XXXX" not in found
    asked = offline(spark, folder_of(server), subscribe="SCHEDULE_TOPIC_XXXX")
    waiting = asked.where(f"properties['REAL_TOPIC'] = '{topic}'").collect()
    assert [bytes(row.body) for row in waiting] == [b"later"]


def test_sql_schemas_and_errors(spark: SparkSession, server: Server, topic: str, tmp_path: Path) -> None:
    publish(server, topic, messages(10))
    path = folder_of(server)
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW offline USING orbitmq OPTIONS (path '{path}', subscribe '{topic}')"
    )
    assert spark.sql("select count(*) from offline where queueId = 1").first()[0] == 3
    schema = "keys string, physicalOffset bigint"
    chosen = spark.read.format("orbitmq").schema(schema).option("subscribe", topic).load(str(path))
    assert chosen.columns == ["keys", "physicalOffset"]
    assert {row.keys for row in chosen.collect()} == {f"key{number}" for number in range(10)}
    with pytest.raises(Exception, match="unknown option namesrv for a store"):
        offline(spark, path, namesrv="127.0.0.1:9876").count()
    with pytest.raises(Exception, match="no commit-log files"):
        offline(spark, tmp_path).count()


def test_damage_is_shown(spark: SparkSession, server: Server, topic: str, tmp_path: Path) -> None:
    publish(server, topic, messages(20))
    take_snapshot(folder_of(server), tmp_path / "copy")
    rows = offline(spark, tmp_path / "copy", subscribe=topic).orderBy("physicalOffset").collect()
    hit = rows[7]
    for path in sorted((tmp_path / "copy" / "commitlog").iterdir(), reverse=True):
        if int(path.name) <= hit.physicalOffset:
            if path.stat().st_nlink > 1:  # a full segment is linked: the broker's is not to be damaged
                shutil.copyfile(path, tmp_path / "own")
                (tmp_path / "own").replace(path)
            with path.open("r+b") as file:
                file.seek(hit.physicalOffset - int(path.name) + 90)
                byte = file.read(1)[0]
                file.seek(-1, os.SEEK_CUR)
                file.write(bytes([byte ^ 1]))
            break
    damaged = offline(spark, tmp_path / "copy", subscribe=topic)
    assert damaged.where("badRecord is null").count() == 19
    bad = offline(spark, tmp_path / "copy", badRecords="only").select("badRecord.*").collect()
    assert [(row.physicalOffset, row.reason) for row in bad] == [
        (hit.physicalOffset, "the body does not have its checksum")
    ]
    with pytest.raises(Exception, match="does not have its checksum"):
        offline(spark, tmp_path / "copy", columns="keys").count()


def upload(s3: str, folder: Path, bucket: str, prefix: str) -> None:
    import boto3

    client = boto3.client(
        "s3", endpoint_url=s3, aws_access_key_id="k", aws_secret_access_key="s", region_name="us-east-1"
    )
    client.create_bucket(Bucket=bucket)
    for path in folder.rglob("*"):
        if path.is_file():
            client.put_object(
                Bucket=bucket, Key=f"{prefix}/{path.relative_to(folder)}", Body=path.read_bytes()
            )
    client.close()


def test_a_store_in_object_storage(spark: SparkSession, s3: str, tmp_path: Path) -> None:
    from orbitmq.testing import LocalBroker

    small = {"mappedFileSizeCommitLog": 64 << 10, "mappedFileSizeConsumeQueue": 6000}
    with LocalBroker(tmp_path / "store", own_process=True, timeout_seconds=120, **small) as server:
        create_topic(server, "orders")
        publish(server, "orders", messages())
        expected = sorted_rows(offline(spark, tmp_path / "store", subscribe="orders"))
    assert len(expected) == 200
    storage = {"endpoint_url": s3} | KEYS
    upload(s3, tmp_path / "store", "backup", "broker-a")
    frame = offline(
        spark,
        "s3://backup/broker-*",
        subscribe="orders",
        brokerName="broker-a",
        storageOptions=json.dumps(storage),
        splitBytes=16 << 10,
    )
    assert frame.rdd.getNumPartitions() > 1
    rows = frame.collect()
    assert not [row for row in rows if row.badRecord is not None]
    assert {row.brokerName for row in rows} == {"broker-a"}
    assert sorted((tuple(row[name] for name in ROWS) for row in rows), key=in_queue) == [
        tuple(row) for row in expected
    ]


def test_an_audit_of_object_storage_that_broke_off_goes_on_from_a_checkpoint_there(
    spark: SparkSession, s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import s3fs

    upload(s3, healthy(tmp_path / "store").root, "audited", "broker-a")
    storage = {"endpoint_url": s3} | KEYS
    options = auditing.AuditOptions(
        ("s3://audited/broker-a",),
        JobSetup(checkpoint="s3://audited/checkpoint"),
        ("records",),
        storage_options=tuple(storage.items()),
    )

    def break_off(*_: object) -> None:
        raise ConnectionResetError

    with monkeypatch.context() as patched:
        patched.setattr(auditing, "findings", break_off)
        with pytest.raises(ConnectionResetError):
            auditing.run(options)
    files = s3fs.S3FileSystem(**storage, skip_instance_cache=True, use_listings_cache=False)
    for piece in files.glob("audited/checkpoint/pieces/*.parquet"):
        with files.open(piece) as file:
            log = pq.read_table(file)
        if "storedAtMs" in log.column_names:  # of the log: the other one has units
            break
    marked = pa.array(["kept of the first run"] * log.num_rows)
    at = log.column_names.index("problem")
    with files.open(piece, "wb") as file:
        pq.write_table(log.set_column(at, log.schema.field("problem"), marked), file)
    again = auditing.run(options)
    assert again.errors == log.num_rows > 0, "what was looked through is not looked at again"
    assert files.glob("audited/checkpoint/**") == []
    assert auditing.run(options).errors == 0, "after the end of a run the next one looks at everything"


def test_a_log_that_is_being_written(spark: SparkSession, server: Server, topic: str) -> None:
    """Every read of a live log is a whole part of it: no error, no half record, nothing twice."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        sending = pool.submit(publish, server, topic, messages(1500))
        seen = [0]
        while not sending.done():
            frame = offline(
                spark, folder_of(server), subscribe=topic, columns="queueId,queueOffset,badRecord"
            )
            rows = frame.collect()
            assert not [row for row in rows if row.badRecord is not None]
            for queue_id in range(4):
                offsets = sorted(row.queueOffset for row in rows if row.queueId == queue_id)
                assert offsets == list(range(len(offsets)))
            assert len(rows) >= seen[-1]
            seen.append(len(rows))
        sending.result()
    with BlockingConnection(server.broker) as broker:
        ends = [broker.call(GetMaxOffset(topic, queue_id)).offset for queue_id in range(4)]
    final = offline(spark, folder_of(server), subscribe=topic, columns="queueId,queueOffset")
    assert final.count() == sum(ends) == 1500
