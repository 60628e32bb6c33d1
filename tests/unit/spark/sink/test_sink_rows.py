"""The form that a data frame has to have, and the fate of its rows."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from pyspark.sql.types import StructType

from orbitmq.protocol.records.ids import parse_unique_id
from orbitmq.protocol.records.properties import decode_properties
from orbitmq.spark.errors import BadOption
from orbitmq.spark.sink.encoding import Encoder, Outgoing
from orbitmq.spark.sink.errors import BadColumn, BadRow
from orbitmq.spark.sink.identity import PartitionIdentity, unique_id
from orbitmq.spark.sink.options import WriteOptions
from orbitmq.spark.sink.pacing import Pace
from orbitmq.spark.sink.shape import Shape, shape_of

NAMESRV = {"namesrv": "127.0.0.1:1"}


def options(**given: str) -> WriteOptions:
    return WriteOptions.parse(NAMESRV | given)


def schema(ddl: str) -> StructType:
    # Without a session: Spark's own parser of DDL lives in the JVM.
    from pyspark.sql import types

    kinds: dict[str, Any] = {
        "string": types.StringType(),
        "binary": types.BinaryType(),
        "int": types.IntegerType(),
        "bigint": types.LongType(),
        "timestamp": types.TimestampType(),
        "array<string>": types.ArrayType(types.StringType()),
        "map<string,string>": types.MapType(types.StringType(), types.StringType()),
        "double": types.DoubleType(),
    }
    fields = (part.rsplit(" ", 1) for part in ddl.split("; "))
    return types.StructType([types.StructField(name, kinds[kind]) for name, kind in fields])


def encoded(batch: pa.RecordBatch, *, once: bool = False, **given: str) -> list[Outgoing]:
    places = {name: place for place, name in enumerate(batch.schema.names)}
    identity = PartitionIdentity("w", 3, 1) if once else None
    encoder = Encoder(Shape(**places), options(**given), identity=identity, new_id=lambda now: "ID")
    return list(encoder.encode(batch))


# ---- options ----


def test_an_unknown_option_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(BadOption, match="unknown option batchsizes; did you mean batchSize"):
        options(batchsizes="3")


def test_options_come_in_any_case() -> None:
    assert options(BATCHSIZE="3").batch_size == 3


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"path": "x"}, "a topic is no path"),
        ({"delayLevel": "1", "delayMs": "5"}, "say the same in different ways"),
        ({"writeId": "x"}, "idempotent=true only"),
        ({"batchSize": "0"}, "whole number above 0"),
        ({"idempotent": "yes"}, "true or false"),
        ({"topic": "no good"}, "illegal characters"),
        ({"topic": "SCHEDULE_TOPIC_XXXX"}, "belongs to the brokers"),
        ({"accessKey": "a"}, "go together"),
        ({"maxMessagesPerSecondPerTask": "-1"}, "a number above 0"),
        ({"tags": ""}, "is empty"),
        ({"namesrv": "nowhere"}, "host:port"),
    ],
)
def test_values_that_cannot_be_are_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(BadOption, match=message):
        WriteOptions.parse(NAMESRV | given)


def test_what_spark_hands_on_for_itself_is_no_unknown_option() -> None:
    assert WriteOptions.parse(NAMESRV | {"checkpointLocation": "/x", "topic": "t"}).topic == "t"


# ---- columns ----


@pytest.mark.parametrize(
    ("ddl", "message"),
    [
        ("topic string", "no column body"),
        ("body binary", "neither a column topic nor the option topic"),
        ("topic string; body binary; tag string", "column tag is no part of a message; did you mean tags"),
        ("topic string; body double", "column body has to be binary or string, not double"),
        ("topic string; body binary; delayMs string", "delayMs has to be tinyint or"),
        ("topic string; body binary; value binary", "body comes twice"),
        ("topic string; body binary; delayMs int; deliverAt timestamp", "keep one of them"),
    ],
)
def test_columns_that_make_no_message_are_refused(ddl: str, message: str) -> None:
    with pytest.raises(BadColumn, match=message):
        shape_of(schema(ddl), options())


def test_columns_of_the_source_are_passed_over() -> None:
    read = schema("topic string; queueOffset bigint; keys string; body binary; storeTimestamp timestamp")
    assert shape_of(read, options()) == Shape(topic=0, keys=2, body=3)


# ---- rows ----


def test_everything_but_the_body_travels_as_properties() -> None:
    batch = pa.record_batch(
        {
            "topic": ["t"],
            "body": pa.array([b"hello"]),
            "keys": pa.array([["a", "b"]]),
            "tags": ["red"],
            "properties": pa.array([[("colour", "x"), ("UNIQ_KEY", "old"), ("empty", "")]], _MAP),
            "sharding_key": ["7"],
            "flag": pa.array([5], pa.int32()),
        }
    )
    (message,) = encoded(batch)
    assert (message.topic, message.body, message.flag, message.sharding_key) == ("t", b"hello", 5, "7")
    assert decode_properties(message.properties.decode()) == {
        "colour": "x",
        "KEYS": "a b",
        "TAGS": "red",
        "__SHARDINGKEY": "7",
        "UNIQ_KEY": "ID",
        "WAIT": "true",
    }


_MAP = pa.map_(pa.string(), pa.string())


def test_options_win_over_columns() -> None:
    batch = pa.record_batch({"topic": ["t"], "body": ["text"], "tags": ["a"]})
    (message,) = encoded(batch, topic="other", tags="b")
    assert message.topic == "other"
    assert message.body == b"text"
    assert b"TAGS\x01b\x02" in message.properties


def test_times_and_levels_become_the_property_that_delays() -> None:
    at = dt.datetime(2027, 1, 1, tzinfo=dt.UTC)
    times = pa.array([at, None], pa.timestamp("us", tz="UTC"))
    batch = pa.record_batch({"topic": ["t", "t"], "body": ["a", "b"], "deliver_at": times})
    later, now = encoded(batch)
    assert f"TIMER_DELIVER_MS\x01{int(at.timestamp() * 1000)}\x02".encode() in later.properties
    assert later.waits_in == "rmq_sys_wheel_timer"
    assert now.waits_in is None
    batch = pa.record_batch({"topic": ["t"] * 2, "body": ["a", "b"], "delay_level": [3, 0]})
    assert [message.waits_in for message in encoded(batch)] == ["SCHEDULE_TOPIC_XXXX", None]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"topic": [None], "body": ["a"]}, "row 0 of its partition has no topic"),
        ({"topic": ["no good"], "body": ["a"]}, "illegal characters"),
        ({"topic": ["t"], "body": [None]}, "has no body"),
        ({"topic": ["t"], "body": [""]}, "has no body"),
        ({"topic": ["t"], "body": ["x" * 11]}, "too large: a body of 11 bytes is over maxMessageBytes, 10"),
        ({"topic": ["t"], "body": ["a"], "tags": ["a\x02b"]}, "may not hold the characters"),
        ({"topic": ["t"], "body": ["a"], "keys": ["x" * 33_000]}, "bytes of keys, tag and properties"),
        ({"topic": ["t"], "body": ["a"], "delay_ms": [-5]}, "cannot be delayed by -5"),
    ],
)
def test_a_row_that_is_no_message_is_an_error_that_names_it(columns: dict[str, Any], message: str) -> None:
    kinds = {"delay_ms": pa.int64()}
    batch = pa.record_batch(
        {name: pa.array(values, kinds.get(name, pa.string())) for name, values in columns.items()}
    )
    with pytest.raises(BadRow, match=message):
        encoded(batch, maxMessageBytes="10")


def test_an_idempotent_message_carries_where_it_came_from() -> None:
    first, second = encoded(pa.record_batch({"topic": ["t", "t"], "body": ["a", "b"]}), once=True)
    assert decode_properties(first.properties.decode())["orbitmq.write"] == "w/3/1/0"
    assert decode_properties(second.properties.decode())["orbitmq.write"] == "w/3/1/1"
    again, _ = encoded(pa.record_batch({"topic": ["t", "t"], "body": ["a", "b"]}), once=True)
    assert again.unique_id == first.unique_id != second.unique_id


def test_ids_of_rows_have_the_form_of_ids_of_clients_and_differ() -> None:
    prefix = PartitionIdentity("w", 3, 1).id_prefix
    rows = [0, 1, 0xFFFF, 0x10000, 0xFFFFFFFF]
    ids = [unique_id(prefix, row) for row in rows]
    assert len(set(ids)) == len(rows)
    assert all(len(one) == 32 and parse_unique_id(one).ms_of_month == 0 for one in ids)
    assert PartitionIdentity("w", 3, 2).id_prefix != prefix


# ---- pace ----


def test_a_pace_is_kept_and_a_pause_is_not_made_up_for() -> None:
    now = [0.0]
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    pace = Pace(100, clock=lambda: now[0], sleep=sleep)
    assert pace.most_at_once == 10
    pace.wait(10)
    assert slept == []
    pace.wait(10)
    assert slept == pytest.approx([0.1])
    now[0] += 60
    pace.wait(10)
    pace.wait(10)
    assert slept == pytest.approx([0.1, 0.1])
