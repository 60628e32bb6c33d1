"""The form that a data frame has to have."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.types import StructType

from orbitmq.spark.sink.errors import BadColumn
from orbitmq.spark.sink.options import WriteOptions
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
