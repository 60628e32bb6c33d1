"""Message trace as a table: what clients write into a trace topic, parsed by Spark's own functions.

A trace message's body is records, each ended by 0x02, whose fields are joined by 0x01; which field stands
where depends on the record's first. Clients differ: a Pub has 13 fields without the offset message id, 14
with it, 15 with the client's address; a SubAfter has 6, 7 (with an outcome) or 9 (with time and group). A
text that is absent is written `null`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from orbitmq.client.trace.records import END, FIELD, NOTHING

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import Column, DataFrame, SparkSession

    from orbitmq.spark.jobs.job import JobSetup

KINDS = ("Pub", "SubBefore", "SubAfter", "EndTransaction", "Recall")
MESSAGE_TYPES = ("normal", "half", "committed", "delayed", "ordered")
OUTCOMES = ("success", "time out", "exception", "returned null", "failed")

SOURCE_COLUMNS = ("body", "bornHost", "storeTimestamp")
"""Columns of a trace message that `records` needs."""

RECORD_DDL = (
    "kind string, at timestamp, region string, clientGroup string, topic string, msgId string, tags string, "
    "keys string, storeHost string, bodyLength int, costMs int, messageType string, offsetMsgId string, "
    "success boolean, requestId string, retryTimes int, outcome string, transactionId string, "
    "transactionState string, fromCheck boolean, batchSize int, client string, storedAt timestamp, bad string"
)
"""One row per record and message: a send of a batch is as many rows as it had messages."""

_TYPES = [tuple(column.split()) for column in RECORD_DDL.split(", ")]
_FIELDS = "fields"


def stored_records(spark: SparkSession, folder: Path) -> DataFrame:
    """The records that the job `trace` keeps in a folder."""
    return spark.read.schema(f"{RECORD_DDL}, day date").parquet(str(folder)).drop("day")


def traced(spark: SparkSession, setup: JobSetup, trace: str, folder: Path | None) -> DataFrame:
    """The records of a trace topic, or of a folder of the job `trace` if there is one."""
    if folder is not None:
        return stored_records(spark, folder)
    given = {"subscribe": trace, "columns": ",".join(SOURCE_COLUMNS)}
    return records(spark.read.format("orbitmq").options(**setup.reading_options, **given).load())


def records(messages: DataFrame) -> DataFrame:
    """The records of trace messages (`body`, `bornHost`, `storeTimestamp`), as RECORD_DDL has them.

    `client` is the address of the client that wrote the record, `storedAt` when its message was stored. A row
    that is no record stands in `bad`, with everything else of the row but `client` and `storedAt` null:
    nothing is dropped. Works on batches and on streams.
    """
    text = sf.split(sf.col("body").cast("string"), END, -1)
    lines = messages.select(
        sf.col("bornHost").alias("client"),
        sf.col("storeTimestamp").alias("storedAt"),
        sf.explode(text).alias("line"),
    ).where("line <> ''")
    parts = lines.select("*", sf.split("line", FIELD, -1).alias(_FIELDS))
    kind = sf.get(sf.col(_FIELDS), sf.lit(0))
    count = sf.size(_FIELDS)
    known = (
        (kind.eqNullSafe("Pub") & count.between(13, 15))
        | (kind.eqNullSafe("SubBefore") & (count == 8))
        | (kind.eqNullSafe("SubAfter") & count.isin(6, 7, 9))
        | (kind.eqNullSafe("EndTransaction") & (count == 13))
        | (kind.eqNullSafe("Recall") & (count == 7))
    )
    whole = parts.select("*", sf.when(known, kind).alias("kind"))
    located = whole.select(
        "client",
        "storedAt",
        "line",
        _FIELDS,
        "kind",
        *(_place(*row).alias(row[0]) for row in _PLACES.items()),
    )
    readable = (
        sf.col("kind").isNotNull()
        & sf.col("ids").isNotNull()
        & (sf.col("timeText").try_cast("bigint").isNotNull() | (sf.col("kind") == "SubAfter"))
    )
    checked = located.withColumn("kind", sf.when(readable, sf.col("kind")))
    one = checked.select("*", sf.posexplode_outer(sf.split("ids", ",")).alias("place", "id"))
    good = sf.col("kind").isNotNull()
    return one.where(good | sf.col("place").isNull() | (sf.col("place") == 0)).select(
        *(_typed(name, kind, good) for name, kind in _TYPES)
    )


_PLACES = {
    "timeText": {"Pub": 1, "SubBefore": 1, "SubAfter": 7, "EndTransaction": 1, "Recall": 1},
    "region": {"Pub": 2, "SubBefore": 2, "EndTransaction": 2, "Recall": 2},
    "clientGroup": {"Pub": 3, "SubBefore": 3, "SubAfter": 8, "EndTransaction": 3, "Recall": 3},
    "topic": {"Pub": 4, "EndTransaction": 4, "Recall": 4},
    "ids": {"Pub": 5, "SubBefore": 5, "SubAfter": 2, "EndTransaction": 5, "Recall": 5},
    "tags": {"Pub": 6, "EndTransaction": 6},
    "keys": {"Pub": 7, "SubBefore": 7, "SubAfter": 5, "EndTransaction": 7},
    "storeHost": {"Pub": 8, "EndTransaction": 8},
    "bodyLength": {"Pub": 9},
    "costMs": {"Pub": 10, "SubAfter": 3},
    "messageTypeCode": {"Pub": 11, "EndTransaction": 9},
    "offsetIds": {"Pub": 12},
    "success": {"Pub": 13, "SubAfter": 4, "Recall": 6},
    "requestId": {"SubBefore": 4, "SubAfter": 1},
    "retryTimes": {"SubBefore": 6},
    "outcomeCode": {"SubAfter": 6},
    "transactionId": {"EndTransaction": 10},
    "transactionState": {"EndTransaction": 11},
    "fromCheck": {"EndTransaction": 12},
}
"""Position of each field in each kind of record."""


def _place(field: str, at: dict[str, int]) -> Column:
    """The text of a field, null where it is absent."""
    fields, kind = sf.col(_FIELDS), sf.col("kind")
    found: Column = sf.lit(None).cast("string")
    for name, index in at.items():
        value = sf.get(fields, sf.lit(index))
        if name == "Pub" and field in ("offsetIds", "success"):
            # Old clients write no offset message id: what is said of success comes a place earlier.
            short = sf.size(_FIELDS) == 13
            value = sf.when(short, None if field == "offsetIds" else sf.get(fields, sf.lit(12))).otherwise(
                value
            )
        found = sf.when(kind == name, value).otherwise(found)
    return sf.when(~found.isin(NOTHING, ""), found)


def _typed(name: str, kind: str, good: Column) -> Column:
    if name in ("client", "storedAt"):
        return sf.col(name)
    if name == "bad":
        return sf.when(~good, sf.col("line")).alias(name)
    return sf.when(good, _value(name).cast(kind)).alias(name)


def _value(name: str) -> Column:
    if name == "at":
        return sf.timestamp_millis(sf.col("timeText").try_cast("bigint"))
    if name == "msgId":
        return sf.trim("id")
    if name == "offsetMsgId":
        return sf.trim(sf.get(sf.split("offsetIds", ","), sf.col("place")))
    if name == "batchSize":
        return sf.size(sf.split("ids", ","))
    if name == "messageType":
        return _named("messageTypeCode", MESSAGE_TYPES)
    if name == "outcome":
        reported = sf.when(sf.col("success").try_cast("boolean"), OUTCOMES[0]).otherwise(OUTCOMES[4])
        return sf.when(sf.col("kind") == "SubAfter", sf.coalesce(_named("outcomeCode", OUTCOMES), reported))
    if name in ("bodyLength", "costMs", "retryTimes"):
        return sf.col(name).try_cast("int")
    if name in ("success", "fromCheck"):
        return sf.col(name).try_cast("boolean")
    return sf.col(name)


def _named(code: str, names: tuple[str, ...]) -> Column:
    return sf.get(sf.array(*map(sf.lit, names)), sf.col(code).try_cast("int"))
