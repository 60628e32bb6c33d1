"""Reading topics with a real Spark, from OrbitMQ and from Apache's broker."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from orbitmq.spark.read.cluster import queue_bounds, readable_queues
from orbitmq.spark.read.columns import NAMES, arrow_schema
from orbitmq.spark.read.options import ReadOptions
from orbitmq.spark.read.planning import ranges_to_read
from orbitmq.spark.read.pulling import QueuePuller, refuse_loss
from tests.kit.brokers import BOTH_SERVERS
from tests.spark.conftest import Outgoing, Server, create_topic, publish
from tests.spark.plain_scanner import PlainScanner

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Read = Callable[..., "DataFrame"]

# The first test starts Spark and a broker or two; a timeout within a call would break Spark for the rest.
pytestmark = pytest.mark.timeout(900)


def orders(count: int = 100) -> list[Outgoing]:
    return [
        Outgoing(
            f"order {n} Ω".encode() * (n % 7 + 1),
            queue_id=n % 4,
            properties={"KEYS": f"o-{n}", "TAGS": "EU" if n % 3 else "US", "n": str(n)},
            flag=n,
        )
        for n in range(1, count + 1)
    ]


def rows(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict() for row in frame.orderBy("queueId", "queueOffset").collect()]


def says(read: Callable[[], Any]) -> str:
    """The error of a read, as a user sees it."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 -- Spark's own, several classes
        read()
    return str(caught.value)


@BOTH_SERVERS
def test_every_column(server: Server, topic: str, read: Read) -> None:
    before = datetime.datetime.now(datetime.UTC).replace(tzinfo=None) - datetime.timedelta(seconds=1)
    publish(server, topic, [Outgoing(b"no properties", 2), *orders()])
    frame = read()
    assert frame.columns == list(NAMES)
    found = {row["properties"]["n"]: row for row in rows(frame) if "n" in row["properties"]}
    assert len(found) == 100
    assert frame.count() == 101
    row = found["7"]
    assert row["topic"] == topic
    assert row["brokerName"] == "broker-a"
    assert (row["queueId"], row["queueOffset"], row["flag"]) == (3, 1, 7)
    assert (row["keys"], row["tags"]) == ("o-7", "US" if 7 % 3 == 0 else "EU")
    assert row["body"] == "order 7 Ω".encode()
    assert before < row["bornTimestamp"] <= row["storeTimestamp"] + datetime.timedelta(seconds=1)
    assert row["storeHost"] == server.broker
    assert row["bornHost"].startswith("127.0.0.1:")
    assert len(row["offsetMsgId"]) == 32
    assert row["msgId"] == row["properties"].get("UNIQ_KEY", row["offsetMsgId"])
    assert (row["sysFlag"] & 1, row["reconsumeTimes"]) == (0, 0)


def test_the_scanner_agrees_with_its_plain_form(server: Server, topic: str, read: Read) -> None:
    publish(server, topic, orders(40))
    options = ReadOptions.parse({"subscribe": topic, "namesrv": server.namesrv})
    names = tuple(name for name in NAMES if name != "brokerName")
    scanner = PlainScanner(names)
    bounds = queue_bounds(readable_queues(options.namesrv, options.topics))
    for work in ranges_to_read(bounds, {}, {}, strict=True):
        for answer in QueuePuller(work, group="TOOLS_CONSUMER", subscription="*", on_loss=refuse_loss):
            scanner.scan(*answer)
    expected = scanner.take().to_pylist()
    found = rows(read().select(*names))
    assert len(found) == len(expected) == 40
    for ours, plain in zip(
        found, sorted(expected, key=lambda r: (r["queueId"], r["queueOffset"])), strict=True
    ):
        plain["properties"] = dict(plain["properties"])
        for name in ("bornTimestamp", "storeTimestamp"):
            plain[name] = plain[name].replace(tzinfo=None)
        assert ours == plain


def test_a_queue_is_read_in_order_and_split_when_asked(server: Server, topic: str, read: Read) -> None:
    publish(server, topic, [Outgoing(str(n).encode(), queue_id=n % 2) for n in range(600)])
    assert read().rdd.getNumPartitions() == 2
    assert read(minPartitions=9).rdd.getNumPartitions() >= 9
    split = read(maxRecordsPerPartition=100)
    assert split.rdd.getNumPartitions() == 6
    assert sorted(int(row.body) for row in split.select("body").collect()) == list(range(600))

    def ascending(part: Any) -> list[bool]:
        offsets = [row.queueOffset for row in part]
        return [offsets == sorted(offsets)]

    assert split.rdd.mapPartitions(ascending).collect() == [True] * 6


def test_small_batches(server: Server, topic: str, read: Read) -> None:
    publish(server, topic, [Outgoing(b"x" * 1000, queue_id=1) for _ in range(300)])
    assert read(maxBatchBytes=5000).count() == 300


def test_pruning_by_schema_and_by_option(server: Server, topic: str, read: Read) -> None:
    publish(server, topic, orders(8))
    pruned = read(schema="queueOffset bigint, brokerName string, keys string")
    assert pruned.columns == ["queueOffset", "brokerName", "keys"]
    assert sorted(pruned.collect())[0] == (0, "broker-a", "o-1")
    assert read(columns="tags, queueId").columns == ["tags", "queueId"]
    assert read(columns="brokerName").count() == 8
    assert {row.tags for row in read(columns="tags").collect()} == {"EU", "US"}


def test_tags(server: Server, topic: str, read: Read) -> None:
    # "Aa" and "BB" have the same hash, which is all that a broker's index knows of them.
    tagged = [
        Outgoing(tag.encode(), n % 4, {"TAGS": tag}) for n, tag in enumerate(["Aa", "BB", "C", "D"] * 20)
    ]
    publish(server, topic, [*tagged, Outgoing(b"none", 0)])
    assert {row.body for row in read(tags="Aa || C").collect()} == {b"Aa", b"C"}
    assert read(tags="Aa || C").count() == 40
    assert read(tags="E").count() == 0


def test_bodies_come_inflated(server: Server, topic: str, read: Read) -> None:
    body = b"flights " * 1000
    publish(server, topic, [Outgoing(body, compressed=True), Outgoing(b"plain")])
    found = rows(read())
    assert [row["body"] for row in found] == [body, b"plain"]
    assert [row["sysFlag"] & 1 for row in found] == [1, 0]


def test_offsets_can_be_given(server: Server, topic: str, read: Read) -> None:
    publish(server, topic, [Outgoing(str(n).encode(), queue_id=n % 4) for n in range(40)])
    starting = {topic: {"broker-a|0": 2, "broker-a|1": -2, "broker-a|2": -1, "broker-a|3": 9}}
    ending = {topic: {"broker-a|0": 4, "broker-a|1": 1, "broker-a|2": -1, "broker-a|3": -1}}
    found = rows(read(startingOffsets=json.dumps(starting), endingOffsets=json.dumps(ending)))
    assert [(row["queueId"], row["queueOffset"]) for row in found] == [(0, 2), (0, 3), (1, 0), (3, 9)]


def test_an_empty_topic_has_columns_and_no_rows(server: Server, topic: str, read: Read) -> None:
    frame = read()
    assert frame.columns == list(NAMES)
    assert frame.collect() == []


def test_several_topics(server: Server, topic: str, read: Read) -> None:
    other = f"{topic}_other"
    create_topic(server, other)
    publish(server, topic, orders(5))
    publish(server, other, orders(3))
    counts = dict(read(subscribe=f"{topic},{other}").groupBy("topic").count().collect())
    assert counts == {topic: 5, other: 3}


def test_what_is_wrong_is_said(server: Server, topic: str, read: Read) -> None:
    publish(server, topic, orders(4))
    assert "topic no_such_topic does not exist" in says(lambda: read(subscribe="no_such_topic").count())
    assert "did you mean startingOffsets?" in says(lambda: read(startOffsets="earliest"))
    assert "column queueOffset is bigint, not int" in says(lambda: read(schema="queueOffset int").count())
    assert "offset is no column; did you mean" in says(lambda: read(schema="offset bigint").count())
    assert "no name server answers" in says(lambda: read(namesrv="127.0.0.1:1").count())
    beyond = {topic: {f"broker-a|{n}": 5 for n in range(4)}}
    assert "the queue ends at 1" in says(lambda: read(startingOffsets=json.dumps(beyond)).count())
    assert read(startingOffsets=json.dumps(beyond), failOnDataLoss="false").count() == 0


def test_sql_and_views(spark: SparkSession, server: Server, topic: str) -> None:
    publish(server, topic, orders(6))
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW orders USING orbitmq "
        f"OPTIONS (namesrv '{server.namesrv}', subscribe '{topic}')"
    )
    assert spark.sql("SELECT count(*), max(flag) FROM orders").collect() == [(6, 6)]
    spark.catalog.dropTempView("orders")


def test_a_limit_stops_early_and_costs_the_next_read_nothing(server: Server, topic: str, read: Read) -> None:
    publish(server, topic, [Outgoing(b"x" * 500, queue_id=n % 4) for n in range(2000)])
    for _ in range(3):
        assert len(read(maxBatchBytes=2000).limit(3).collect()) == 3
    assert read().count() == 2000


@pytest.mark.parametrize("server", ["orbitmq"], indirect=True)
def test_explicit_registration(spark: SparkSession, read: Read) -> None:
    import orbitmq.spark

    orbitmq.spark.register(spark)
    assert read().count() == 0


def test_spark_and_arrow_mean_the_same_types() -> None:
    pytest.importorskip("pyspark")
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    from orbitmq.spark.read.columns import ddl

    assert to_arrow_schema(StructType.fromDDL(ddl()), timezone="UTC").equals(arrow_schema())
