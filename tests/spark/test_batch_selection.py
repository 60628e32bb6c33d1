"""The selection of a batch read: by pattern, queue, time, SQL and predicate; and what goes wrong
meanwhile."""

from __future__ import annotations

import json
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import orbitmq.spark
from orbitmq.spark.errors import DataLost
from orbitmq.spark.read.options import ReadOptions
from orbitmq.spark.read.planning import OffsetRange, Queue
from orbitmq.spark.read.reading import read_range
from orbitmq.testing import LocalBroker
from tests.needs import need
from tests.spark.conftest import Outgoing, Server, create_topic, publish

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Read = Callable[..., "DataFrame"]

pytestmark = pytest.mark.timeout(900)
only_orbitmq = pytest.mark.parametrize("server", ["orbitmq"], indirect=True)


def numbered(first: int, last: int) -> list[Outgoing]:
    return [
        Outgoing(str(n).encode(), n % 4, {"TAGS": "even" if n % 2 == 0 else "odd", "n": str(n)})
        for n in range(first, last)
    ]


def numbers(frame: DataFrame) -> list[int]:
    return sorted(int(row.body) for row in frame.select("body").collect())


def says(read: Callable[[], Any]) -> str:
    with pytest.raises(Exception) as caught:  # noqa: PT011 -- Spark's own, several classes
        read()
    return str(caught.value)


@only_orbitmq
def test_topics_by_pattern_and_queues_by_name(server: Server, topic: str, read: Read) -> None:
    other = f"{topic}_x"
    create_topic(server, other)
    publish(server, topic, numbered(0, 8))
    publish(server, other, numbered(8, 12))
    assert numbers(read(subscribe="", subscribePattern=f"{topic}.*")) == list(range(12))
    assert numbers(read(subscribe="", subscribePattern=topic)) == list(range(8))
    assert "matches no topic" in says(lambda: read(subscribe="", subscribePattern=f"x{topic}").count())
    assigned = json.dumps({topic: [0, "broker-a|1"], other: [3]})
    assert numbers(read(subscribe="", assign=assigned)) == [0, 1, 4, 5, 11]
    missing = json.dumps({topic: [9]})
    assert f"{topic} 9" in says(lambda: read(subscribe="", assign=missing).count())


def test_times(server: Server, topic: str, read: Read) -> None:
    publish(server, topic, numbered(0, 8))
    stored = [row.storeTimestamp for row in read().select("storeTimestamp").collect()]
    between = int(max(stored).timestamp() * 1000) + 20
    while time.time() * 1000 < between + 20:
        time.sleep(0.01)
    publish(server, topic, numbered(8, 14))  # none for queues 2 and 3 behind 12 and 13
    assert numbers(read(startingTimestamp=between)) == list(range(8, 14))
    assert numbers(read(endingTimestamp=between)) == list(range(8))
    per_queue = json.dumps({topic: {"0": between, "1": 0, "2": between, "3": between}})
    assert numbers(read(startingOffsetsByTimestamp=per_queue)) == [1, 5, *range(8, 14)]
    assert numbers(read(endingOffsetsByTimestamp=per_queue)) == [0, 2, 3, 4, 6, 7]
    late = between + 3_600_000
    assert numbers(read(endingTimestamp=late)) == list(range(14))
    assert "has no message stored at or after that time" in says(lambda: read(startingTimestamp=late).count())
    assert read(startingTimestamp=late, startingOffsetsByTimestampStrategy="latest").count() == 0


def test_sql_is_evaluated_by_the_broker(server: Server, topic: str, read: Read) -> None:
    publish(server, topic, numbered(0, 40))
    assert numbers(read(sql="n > 35 OR TAGS = 'odd' AND n < 5")) == [1, 3, 36, 37, 38, 39]
    assert read(sql="n > 100").count() == 0
    assert "cannot read 'n >' as SQL92" in says(lambda: read(sql="n >").count())


def test_a_broker_that_takes_no_sql_says_so(spark: SparkSession) -> None:
    with LocalBroker() as broker:
        create_topic(broker, "orders")
        frame = spark.read.format("orbitmq").options(namesrv=broker.namesrv, subscribe="orders", sql="a > 1")
        assert "enablePropertyFilter=true" in says(lambda: frame.load().count())


@pytest.fixture
def pushing(spark: SparkSession) -> Iterator[None]:
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    orbitmq.spark.register(spark)
    yield
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    orbitmq.spark.register(spark)


@only_orbitmq
@pytest.mark.usefixtures("pushing")
def test_sparks_predicates_choose_queues_and_offsets(server: Server, topic: str, read: Read) -> None:
    publish(server, topic, numbered(0, 40))
    frame = read()
    chosen = frame.where("queueId = 2 and queueOffset >= 3 and queueOffset < 6")
    assert numbers(chosen) == [14, 18, 22]
    assert chosen.rdd.getNumPartitions() == 1
    assert numbers(frame.where("queueId in (0, 1) and tags = 'odd' and queueOffset < 2")) == [1, 5]
    middle = frame.where("queueId = 0 and queueOffset = 5").select("storeTimestamp").collect()[0][0]
    later = frame.where(frame.storeTimestamp >= middle)
    assert {20, *range(24, 40)} <= set(numbers(later))
    assert all(row.storeTimestamp >= middle for row in later.collect())
    assert numbers(frame.where("cast(body as string) = '7'")) == [7]
    assert frame.where("tags = 'neither'").count() == 0
    assert frame.where(f"topic <> '{topic}'").count() == 0


@only_orbitmq
def test_bodies_are_decoded(server: Server, topic: str, read: Read) -> None:
    bodies = [b'{"id":1,"amount":2.5}', b'{"id":2}', b"no json", b'{"id":"x","amount":1}', b""]
    publish(server, topic, [Outgoing(body) for body in bodies])
    frame = orbitmq.spark.decoded(read(columns="queueOffset,body"), "id bigint, amount double")
    assert frame.columns == ["queueOffset", "value", "_bad_body"]
    found = {row.queueOffset: row for row in frame.collect()}
    assert (found[0].value.id, found[0].value.amount, found[0]._bad_body) == (1, 2.5, None)
    assert (found[1].value.id, found[1].value.amount, found[1]._bad_body) == (2, None, None)
    for bad in (2, 3, 4):
        assert found[bad].value is None
        assert found[bad]._bad_body == bodies[bad]
    strict = orbitmq.spark.decoded(read(columns="body"), "id bigint, amount double", bad="fail")
    assert "MALFORMED_RECORD" in says(strict.collect)


ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "item", "type": "string"},
        {"name": "amount", "type": ["null", "double"]},
    ],
}


@only_orbitmq
def test_avro_bodies_are_decoded(server: Server, topic: str, read: Read) -> None:
    need("mvn")
    # By hand, as Avro's specification has them: 7 and "tea", then the union's second branch or its first.
    bodies = [b"\x0e\x06tea\x02" + struct.pack("<d", 2.5), b"\x0e\x06tea\x00", b"\x01", b""]
    publish(server, topic, [Outgoing(body) for body in bodies])
    for schema in (ORDER, json.dumps(ORDER)):
        frame = orbitmq.spark.decoded(read(columns="queueOffset,body"), schema)
        found = {row.queueOffset: row for row in frame.collect()}
        assert tuple(found[0].value) == (7, "tea", 2.5)
        assert tuple(found[1].value) == (7, "tea", None)
        assert [found[n]._bad_body for n in range(4)] == [None, None, *bodies[2:]]
        assert [found[n].value for n in (2, 3)] == [None, None]
    strict = orbitmq.spark.decoded(read(columns="body"), ORDER, bad="fail")
    assert "Malformed records" in says(strict.collect)


@only_orbitmq
def test_avro_without_sparks_package_for_it_is_said(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.errors import AnalysisException

    def from_avro(*_: object) -> None:
        raise AnalysisException(
            "[AVRO_NOT_LOADED_SQL_FUNCTIONS_UNUSABLE] Cannot call the FROM_AVRO SQL function because the "
            "Avro data source is not loaded. Please restart with the 'spark-avro' package loaded"
        )

    with monkeypatch.context() as patched:
        patched.setattr("pyspark.sql.avro.functions.from_avro", from_avro)
        assert "spark.jars.packages" in says(lambda: orbitmq.spark.decoded(read(columns="body"), ORDER))
    assert "no JSON" in says(lambda: orbitmq.spark.decoded(read(columns="body"), "{"))


def test_a_broker_that_goes_away_in_the_middle_of_a_task_and_comes_back(tmp_path: Path) -> None:
    with LocalBroker(tmp_path, own_process=True, timeout_seconds=120) as broker:
        create_topic(broker, "orders", queues=1)
        publish(broker, "orders", [Outgoing(str(n).encode() * 100) for n in range(3000)])
        options = ReadOptions.parse(
            {"namesrv": broker.namesrv, "subscribe": "orders", "maxBatchBytes": "5000"}
        )
        work = OffsetRange(Queue("orders", "broker-a", 0, broker.broker), 0, 3000)
        batches = read_range(work, options, ("queueOffset", "body"))
        offsets = next(batches).column(0).to_pylist()
        broker.kill()
        again = threading.Timer(1.0, broker.start)
        again.start()
        for batch in batches:
            offsets += batch.column(0).to_pylist()
        again.join()
        assert offsets == list(range(3000))


def test_a_topic_that_is_deleted_in_the_middle_of_a_task(server: Server, topic: str) -> None:
    from tests.spark.test_streaming import delete_topic

    publish(server, topic, [Outgoing(b"x" * 2000) for _ in range(600)])
    given = {"namesrv": server.namesrv, "subscribe": topic, "maxBatchBytes": "5000"}
    work = OffsetRange(Queue(topic, "broker-a", 0, server.broker), 0, 600)
    strict = read_range(work, ReadOptions.parse(given), ("body",))
    lenient = read_range(work, ReadOptions.parse(given | {"failOnDataLoss": "false"}), ("body",))
    assert next(strict).num_rows
    assert next(lenient).num_rows
    delete_topic(server, topic)
    with pytest.raises(DataLost, match="were planned to be read and are gone"):
        list(strict)
    assert sum(batch.num_rows for batch in lenient) < 600
