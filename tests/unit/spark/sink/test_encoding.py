"""The fate of a data frame's rows."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from orbitmq.protocol.records.properties import decode_properties
from orbitmq.spark.sink.encoding import Encoder, Outgoing
from orbitmq.spark.sink.errors import BadRow
from orbitmq.spark.sink.identity import PartitionIdentity
from orbitmq.spark.sink.options import WriteOptions
from orbitmq.spark.sink.shape import Shape

NAMESRV = {"namesrv": "127.0.0.1:1"}


def options(**given: str) -> WriteOptions:
    return WriteOptions.parse(NAMESRV | given)


def encoded(batch: pa.RecordBatch, *, once: bool = False, **given: str) -> list[Outgoing]:
    places = {name: place for place, name in enumerate(batch.schema.names)}
    identity = PartitionIdentity("w", 3, 1) if once else None
    encoder = Encoder(Shape(**places), options(**given), identity=identity, new_id=lambda now: "ID")
    return list(encoder.encode(batch))


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
