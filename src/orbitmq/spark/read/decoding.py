"""Bodies to columns: JSON and Avro, in Spark's own code."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from orbitmq.spark import functions as sf
from orbitmq.spark.errors import BadOption

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

BAD = "_bad_body"
"""The column with what could not be decoded."""


def decoded(
    frame: DataFrame,
    schema: str | StructType | dict[str, Any],
    *,
    column: str = "body",
    into: str = "value",
    bad: str = "keep",
) -> DataFrame:
    """Replaces `column` by the struct `into`, decoded as `schema` says.

    A JSON body's schema is Spark's: DDL (`"id bigint, amount double"`) or a StructType. An Avro body's is the
    Avro schema, as JSON text or as a dict (`{"type": "record", …}`); the body is one datum in Avro's binary
    encoding, without a header. Spark has Avro in a package of its own, spark-avro.

    Bodies that do not fit: `bad="keep"` keeps the row, with `into` null and the body in the column
    `_bad_body` (null in good rows); `bad="fail"` fails the query. No row is dropped. A null body is null
    both ways. Raises BadOption.
    """
    if bad not in ("keep", "fail"):
        raise BadOption(f'bad is "keep" or "fail", not {bad!r}')
    if column not in frame.columns:
        raise BadOption(f"there is no column {column}; columns: {', '.join(frame.columns)}")
    avro = _avro_schema(schema)
    value = (
        _from_json(column, schema, bad)  # type: ignore[arg-type]
        if avro is None
        else _from_avro(frame, column, avro, bad)
    )
    return _replaced(frame, column, into, value, bad)


def _avro_schema(schema: Any) -> str | None:
    """A record around the asked schema, which has the same encoding; None for a schema of Spark's.

    Of a datum that does not fit Spark makes a record of nulls: only around ours it is distinguished from one
    of nulls.
    """
    if isinstance(schema, str) and schema.lstrip().startswith(("{", "[", '"')):
        try:
            schema = json.loads(schema)
        except ValueError as error:
            raise BadOption(f"this Avro schema is no JSON: {error}") from None
    elif not isinstance(schema, dict):
        return None
    return json.dumps(
        {"type": "record", "name": "OrbitmqBody", "fields": [{"name": "value", "type": schema}]}
    )


def _from_json(column: str, schema: str | StructType, bad: str) -> Column:
    from pyspark.sql.types import StringType, StructType

    wanted: Any = StructType.fromDDL(schema) if isinstance(schema, str) else schema
    text = sf.col(column).cast("string")
    if bad == "fail":
        return sf.from_json(text, wanted, {"mode": "FAILFAST"})
    marked = StructType([*wanted.fields]).add(BAD, StringType())
    parsed = sf.from_json(text, marked, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": BAD})
    plain = sf.struct(*(parsed[name].alias(name) for name in wanted.names))
    return sf.when(parsed.isNotNull() & parsed[BAD].isNull(), plain)


def _from_avro(frame: DataFrame, column: str, schema: str, bad: str) -> Column:
    from pyspark.errors import PySparkException
    from pyspark.sql.avro.functions import from_avro

    mode = "FAILFAST" if bad == "fail" else "PERMISSIVE"
    try:
        value = from_avro(sf.col(column), schema, {"mode": mode})["value"]
        _ = frame.select(value).schema  # So that a missing package is reported here, and in our words.
    except (PySparkException, TypeError) as error:
        if "avro" in str(error).lower() and ("load" in str(error).lower() or "package" in str(error).lower()):
            raise BadOption(
                "Spark's Avro package is missing: start the session with spark.jars.packages="
                "org.apache.spark:spark-avro_2.13:VERSION, of the version of your Spark or, where there is "
                "none, the newest before it (4.1.1 runs on Spark 4.3)"
            ) from error
        raise
    return value


def _replaced(frame: DataFrame, column: str, into: str, value: Column, bad: str) -> DataFrame:
    columns: list[Any] = []
    for name in frame.columns:
        columns.append(value.alias(into) if name == column else sf.col(name))
    if bad == "keep":
        columns.append(sf.when(value.isNull(), sf.col(column)).alias(BAD))
    return frame.select(*columns)
