"""Data frames into topics, on OrbitMQ and on Apache's broker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from tests.kit.brokers import BOTH_SERVERS
from tests.spark.conftest import Server

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def write(frame: DataFrame, server: Server, **options: str) -> None:
    frame.write.format("orbitmq").options(namesrv=server.namesrv, **options).mode("append").save()


def read(spark: SparkSession, server: Server, topic: str) -> list[Any]:
    given = {"namesrv": server.namesrv, "subscribe": topic}
    rows: list[Any] = spark.read.format("orbitmq").options(**given).load().orderBy("body").collect()
    return rows


@BOTH_SERVERS
def test_every_part_of_a_message_arrives(
    spark: SparkSession, server: Server, topic: str, tmp_path: Path
) -> None:
    from pyspark.sql import functions as sf

    numbers = spark.range(0, 1000, 1, 2)
    frame = numbers.select(
        sf.lit(topic).alias("topic"),
        sf.format_string("body %04d", "id").alias("body"),
        sf.array(sf.concat(sf.lit("k"), "id"), sf.lit("all")).alias("keys"),
        sf.when(sf.col("id") % 2 == 0, "even").alias("tags"),
        sf.create_map(sf.lit("colour"), sf.lit("red"), sf.lit("MSG_REGION"), sf.lit("mine")).alias(
            "properties"
        ),
        sf.when(sf.col("id") < 500, "one").alias("shardingKey"),
        sf.col("id").cast("int").alias("flag"),
        sf.lit(1).alias("queueOffset"),
    )
    counts_file = tmp_path / "told" / "counts.jsonl"
    write(frame, server, countsFile=str(counts_file))
    rows = read(spark, server, topic)
    assert [row.body.decode() for row in rows] == [f"body {number:04}" for number in range(1000)]
    assert [row["keys"] for row in rows] == [f"k{number} all" for number in range(1000)]
    assert [row.tags for row in rows[:2]] == ["even", None]
    assert [row.flag for row in rows] == list(range(1000))
    assert all(row.properties["colour"] == "red" for row in rows)
    assert all(row.properties.get("MSG_REGION") != "mine" for row in rows)
    assert len({row.msgId for row in rows}) == 1000
    keyed = [row for row in rows if row.body < b"body 0500"]
    assert len({row.queueId for row in keyed}) == 1
    assert [row.queueOffset for row in keyed] == sorted(row.queueOffset for row in keyed), "in order"
    assert len({row.queueId for row in rows}) == 4, "the others go everywhere"
    (told,) = map(json.loads, counts_file.read_text().splitlines())
    assert (told["outcome"], told["messages"], told["retries"]) == ("written", 1000, 0)
    assert told["requests"] < 100, "in batches"
    assert told["topics"] == {topic: {"messages": 1000, "body_bytes": 9000}}


def test_what_was_read_from_one_topic_can_be_written_to_another(
    spark: SparkSession, server: Server, topic: str
) -> None:
    from tests.spark.conftest import create_topic

    write(
        spark.createDataFrame([("x", "k", "t")], "body string, keys string, tags string"), server, topic=topic
    )
    copy = f"{topic}_copy"
    create_topic(server, copy)
    given = {"namesrv": server.namesrv, "subscribe": topic}
    write(spark.read.format("orbitmq").options(**given).load(), server, topic=copy)
    (row,) = read(spark, server, copy)
    assert (row.topic, row.body, row["keys"], row.tags) == (copy, bytearray(b"x"), "k", "t")


@pytest.mark.parametrize(
    ("ddl", "mode", "options", "message"),
    [
        ("body string", "overwrite", {"topic": "{topic}"}, "cannot be overwritten"),
        ("body string", "append", {"topic": "{topic}_none"}, "does not exist"),
        ("body string", "append", {}, "neither a column topic nor the option topic"),
        ("tags string", "append", {"topic": "{topic}"}, "there is no column body"),
        ("body array<int>", "append", {"topic": "{topic}"}, "has to be binary or string, not array<int>"),
        ("body string", "append", {"topic": "{topic}", "maxMessageBytes": "1"}, "over maxMessageBytes, 1"),
        ("body string", "append", {"topic": "{topic}", "batchsise": "1"}, "did you mean batchSize"),
    ],
)
def test_what_cannot_be_written_is_told_in_the_first_words(
    spark: SparkSession,
    server: Server,
    topic: str,
    ddl: str,
    mode: str,
    options: dict[str, str],
    message: str,
) -> None:
    value: Any = [1] if "array" in ddl else "text"
    frame = spark.createDataFrame([(value,)], ddl)
    given = {name: text.format(topic=topic) for name, text in options.items()}
    with pytest.raises(Exception, match=message):
        frame.write.format("orbitmq").options(namesrv=server.namesrv, **given).mode(mode).save()
    assert read(spark, server, topic) == []
